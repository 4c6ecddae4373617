// Topologies as other tools write them: NCCL's and RCCL's dumps, `nvidia-smi topo -m`, network files of simulators.
// The registry recognizes them by their contents.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/units.hpp"
#include "topology/topology.hpp"

namespace slackline {

/// What a file does not say and a person may.
struct TopologyReadOptions {
  std::optional<bool> nvswitch;           ///< `nvidia-smi topo -m`: NV# through a switch (true) or direct (false)
  int compute_capability = 0;             ///< of the GPUs, as 80 for 8.0; 0: from the file, or guessed and noted
  std::optional<Bandwidth> nic_bandwidth;  ///< of each NIC whose speed the file lacks
  std::optional<Bandwidth> pcie_bandwidth; ///< of each PCIe link whose speed the file lacks
  int servers = 1;                        ///< files of one server: this many of them, on one switch per NIC number
};

struct TopologyFile {
  Topology topology;
  std::string format;
  std::vector<std::string> notes;  ///< what was assumed, for people
};

/// A format that topologies are read from. Each is added by its own file and one line in topology_readers().
struct TopologyReader {
  std::string_view name;
  /// Whether these are the contents of a file of this format, right or wrong.
  bool (*recognizes)(std::string_view text);
  /// Throws Error{input} with file and line for what is wrong or not enough.
  TopologyFile (*read)(std::string_view text, const std::string& file, const TopologyReadOptions& options);
};

/// All formats but slackline's own JSON; the first that recognizes a file reads it.
const std::vector<TopologyReader>& topology_readers();

/// Whether the file's contents are JSON, as slackline's own topologies are.
bool is_json_file(const std::filesystem::path& path);
/// Throws Error{input} that says what the document is where it is JSON of another tool.
void refuse_foreign_json(const JsonCursor& root);

/// Reads a topology in any format, slackline's own included. Throws Error{io}, Error{input}.
TopologyFile read_topology_file(const std::filesystem::path& path, const TopologyReadOptions& options = {});

/// NCCL's topology dump (NCCL_TOPO_DUMP_FILE) and RCCL's, also the static files of clouds. NVLinks between GPUs must
/// be named by both ends with the same count, target a GPU of the file, and be no more than the GPU has.
TopologyFile read_nccl_topology(std::string_view text, const std::string& file, const TopologyReadOptions& options);
/// `nvidia-smi topo -m`, however it was pasted.
TopologyFile read_nvidia_smi_matrix(std::string_view text, const std::string& file, const TopologyReadOptions& options);
/// Node and link lists of ns-3's HPCC fork and of SimAI.
TopologyFile read_ns3_topology(std::string_view text, const std::string& file);
/// astra-sim's analytical networks: rings, switches and cliques, dimension by dimension.
TopologyFile read_astra_network(std::string_view text, const std::string& file);

/// GB/s of one NVLink in one direction as NCCL reckons with (src/graph/topo.h), by compute capability: 60 18, 70 and
/// 80 20, 86 12, 90 20.6, 100 on 40.1.
Bandwidth nvlink_bandwidth(int compute_capability);
/// NVLinks of a GPU: 60 4, 70 6, 80 12, 86 4, 90 and 100 18.
int nvlinks_of(int compute_capability);

/// `servers` copies of a topology of one server; the k-th NICs of all servers share a switch. With one, the topology
/// itself.
Topology replicate_server(const Topology& topology, int servers);

}  // namespace slackline
