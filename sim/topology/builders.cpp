#include "topology/builders.hpp"

#include <algorithm>

#include "topology/readers.hpp"

namespace slackline {

namespace fs = std::filesystem;

namespace {

// Puts the number of servers and the bandwidths that a reference to a topology file gives in place of the file's. They
// are checked here, where their place is known.
void apply_overrides(Json& document, const JsonCursor& reference) {
  if (const auto servers = reference.find("servers")) {
    if (!document.contains("server") && !document.contains("servers"))
      servers->fail("the topology file describes no \"server\" that could be copied");
    document["servers"] = servers->integer(1, 65536);
  }
  if (const auto bandwidths = reference.find("bandwidths")) {
    for (const auto& [name, value] : bandwidths->members()) {
      std::vector<std::string_view> known;
      if (document.contains("bandwidths"))
        for (const auto& entry : document["bandwidths"].items()) known.push_back(entry.key());
      if (std::find(known.begin(), known.end(), name) == known.end())
        value.fail("the topology file names no bandwidth \"" + name + "\"" + suggest_name(name, known));
      value.bandwidth();
      document["bandwidths"][name] = value.value();
    }
  }
}

}  // namespace

const std::vector<TopologyBuilder>& topology_builders() {
  static const std::vector<TopologyBuilder> builders = {
      {"dual_tor", "two ports a NIC, on the two switches of its rack", build_dual_tor},
      {"explicit", "vertices and links one by one", build_explicit},
      {"fat_tree", "leaves, aggregation switches of a pod, cores", build_fat_tree},
      {"leaf_spine", "all NICs of a server on its leaf, leaves on all spines", build_leaf_spine},
      {"rail_fabric", "NIC r of every server on rail switch r", build_rail_fabric},
      {"single_switch", "all NICs on one switch that does not block", build_single_switch},
  };
  return builders;
}

Topology build_topology(const JsonCursor& object, const fs::path& directory) {
  if (object.has("file")) {
    const JsonCursor file = object.at("file");
    fs::path path = directory / file.string();
    if (!fs::exists(path) && fs::exists(file.string())) path = file.string();
    if (!fs::exists(path)) file.fail("there is no file \"" + path.string() + "\"");
    if (is_json_file(path)) {
      object.expect_object({"file", "servers", "bandwidths"});
      Json document = read_json_file(path);
      const JsonCursor root(document, path.string());
      refuse_foreign_json(root);
      if (root.has("file")) root.at("file").fail("a topology file cannot point to another one");
      apply_overrides(document, object);
      return build_topology(root, path.parent_path());
    }
    object.expect_object({"file", "nvlinks", "compute_capability", "nic_bandwidth", "pcie_bandwidth", "servers"});
    TopologyReadOptions options;
    static constexpr std::string_view ways[] = {"direct", "switch"};
    if (const auto nvlinks = object.find("nvlinks")) options.nvswitch = nvlinks->one_of(ways, "way of NVLinks") == "switch";
    if (const auto capability = object.find("compute_capability")) options.compute_capability = static_cast<int>(capability->integer(60, 130));
    if (const auto bandwidth = object.find("nic_bandwidth")) options.nic_bandwidth = bandwidth->bandwidth();
    if (const auto bandwidth = object.find("pcie_bandwidth")) options.pcie_bandwidth = bandwidth->bandwidth();
    if (const auto servers = object.find("servers")) options.servers = static_cast<int>(servers->integer(1, 65536));
    return read_topology_file(path, options).topology;
  }
  std::vector<std::string_view> names;
  for (const TopologyBuilder& builder : topology_builders()) names.push_back(builder.name);
  const std::string name = object.at("builder").one_of(names, "topology builder");
  const auto builder = std::find_if(topology_builders().begin(), topology_builders().end(),
                                    [&](const TopologyBuilder& entry) { return entry.name == name; });
  return builder->build(object);
}

}  // namespace slackline
