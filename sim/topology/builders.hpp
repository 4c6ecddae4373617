// Topologies from JSON: named builders with their parameters, each registered in one line.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "topology/topology.hpp"

namespace slackline {

/// Makes a topology from the JSON object that names it. `build` sees the whole object, the key `builder`
/// included, and throws Error{input} for whatever is wrong in it.
struct TopologyBuilder {
  std::string_view name;
  std::string_view summary;
  Topology (*build)(const JsonCursor& object);
};

/// All builders, sorted by name.
const std::vector<TopologyBuilder>& topology_builders();

/// The topology that a scenario's `topology` object or a topology file describes: `{"builder": NAME, ...}` or
/// `{"file": PATH, ...}`, PATH taken relative to `directory`, then to the working directory, in any format that
/// read_topology_file() reads. Beside the `file` of a slackline topology, `servers` and `bandwidths` replace the file's;
/// beside another tool's, what it lacks may be given: `nvlinks` ("direct", "switch"), `compute_capability`,
/// `nic_bandwidth`, `pcie_bandwidth`, `servers`.
Topology build_topology(const JsonCursor& object, const std::filesystem::path& directory);

/// Servers with GPUs on an NVSwitch, and NICs on switches (topologies/README.md): all on one; NIC r of every server on rail
/// switch r; leaves under spines; leaves, aggregation switches and cores; two ports a NIC on two switches a rack.
Topology build_single_switch(const JsonCursor& object);
Topology build_rail_fabric(const JsonCursor& object);
Topology build_leaf_spine(const JsonCursor& object);
Topology build_fat_tree(const JsonCursor& object);
Topology build_dual_tor(const JsonCursor& object);
/// Vertices and links one by one, and servers that are copies of one (topologies/README.md).
Topology build_explicit(const JsonCursor& object);

}  // namespace slackline
