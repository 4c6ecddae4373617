#include "topology/builders.hpp"

namespace slackline {

Topology build_rail_fabric(const JsonCursor& object) {
  object.expect_object({"builder", "name", "description", "servers", "gpus_per_server", "nics_per_server",
                        "nic_bandwidth", "nic_latency", "message_overhead", "nvlink_bandwidth",
                        "nvlink_latency"});
  const auto count = [&](std::string_view key, int64_t highest) {
    return static_cast<int>(object.at(key).integer(1, highest));
  };
  const int servers = count("servers", 65536);
  const int gpus = count("gpus_per_server", 1024);
  const int nics = count("nics_per_server", 1024);
  if (int64_t{servers} * (gpus + nics) > 4'000'000)
    object.at("servers").fail("makes more than 4 million GPUs and NICs, which is more than slackline holds");
  TopologyLink network;
  network.kind = LinkKind::network;
  network.bandwidth = object.at("nic_bandwidth").bandwidth();
  network.latency = object.at("nic_latency").duration();
  TopologyLink nvlink;
  nvlink.kind = LinkKind::nvlink;
  nvlink.bandwidth = object.at("nvlink_bandwidth").bandwidth();
  // A message between two GPUs passes two links, GPU to NVSwitch and back.
  const Duration nvlink_latency = object.at("nvlink_latency").duration();

  Topology topology;
  topology.name = object.has("name") ? object.at("name").string() : "rail_fabric";
  topology.message_overhead = object.at("message_overhead").duration();
  std::vector<TopologyVertexId> rails;
  for (int r = 0; r < nics; ++r)
    rails.push_back(topology.add_vertex(VertexKind::net_switch, -1, "rail" + std::to_string(r)));
  for (int s = 0; s < servers; ++s) {
    const TopologyVertexId nvswitch = topology.add_vertex(VertexKind::nvswitch, s);
    for (int g = 0; g < gpus; ++g) {
      const TopologyVertexId gpu = topology.add_vertex(VertexKind::gpu, s);
      nvlink.latency = nvlink_latency;
      boost::add_edge(gpu, nvswitch, nvlink, topology.graph);
      nvlink.latency = Duration(0);
      boost::add_edge(nvswitch, gpu, nvlink, topology.graph);
    }
    for (int n = 0; n < nics; ++n)
      topology.add_link(topology.add_vertex(VertexKind::nic, s), rails[static_cast<size_t>(n)], network);
  }
  return topology;
}

}  // namespace slackline
