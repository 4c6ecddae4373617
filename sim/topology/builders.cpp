#include "topology/builders.hpp"

#include <algorithm>

#include "base/files.hpp"

namespace slackline {

namespace fs = std::filesystem;

const std::vector<TopologyBuilder>& topology_builders() {
  static const std::vector<TopologyBuilder> builders = {
      {"explicit", "vertices and links one by one", build_explicit},
      {"rail_fabric", "servers with GPUs on an NVSwitch and one NIC per rail switch", build_rail_fabric},
  };
  return builders;
}

Topology build_topology(const JsonCursor& object, const fs::path& directory) {
  if (object.has("file")) {
    object.expect_object({"file"});
    const JsonCursor file = object.at("file");
    fs::path path = directory / file.string();
    if (!fs::exists(path) && fs::exists(file.string())) path = file.string();
    if (!fs::exists(path)) file.fail("there is no file \"" + path.string() + "\"");
    const Json document = read_json_file(path);
    const JsonCursor root(document, path.string());
    if (root.has("file")) root.at("file").fail("a topology file cannot point to another one");
    return build_topology(root, path.parent_path());
  }
  std::vector<std::string_view> names;
  for (const TopologyBuilder& builder : topology_builders()) names.push_back(builder.name);
  const std::string name = object.at("builder").one_of(names, "topology builder");
  const auto builder = std::find_if(topology_builders().begin(), topology_builders().end(),
                                    [&](const TopologyBuilder& entry) { return entry.name == name; });
  return builder->build(object);
}

}  // namespace slackline
