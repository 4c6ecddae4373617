// Small topologies, networks and generated schedules for tests.
#pragma once

#include <string>

#include "base/json.hpp"
#include "collectives/algorithm.hpp"
#include "schedule/schedule.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"
#include "topology/network.hpp"

namespace slackline {

/// The topology that the JSON text describes.
inline Topology topology_of(const std::string& text) {
  const Json json = parse_json(text, "topology.json");
  return build_topology(JsonCursor(json, "topology.json"), "");
}

/// A rail fabric with NICs of 100 GB/s and 2 us, 20 ns of overhead, NVLink of 900 GB/s and 500 ns.
inline Topology rail_fabric(int servers, int gpus, int nics) {
  return topology_of(R"({"builder": "rail_fabric", "servers": )" + std::to_string(servers) +
                     R"(, "gpus_per_server": )" + std::to_string(gpus) + R"(, "nics_per_server": )" +
                     std::to_string(nics) + R"(, "nic_bandwidth": "100 GB/s", "nic_latency": "2 us",
                     "message_overhead": "20 ns", "nvlink_bandwidth": "900 GB/s", "nvlink_latency": "500 ns"})");
}

/// A schedule of `algorithm` (options as a JSON object without the key "algorithm") for one rank a server.
inline Schedule generated(const std::string& algorithm, int ranks, CollectiveType type = CollectiveType::allreduce,
                          Json options = Json::object(), int failed_nics = 0) {
  Topology topology = rail_fabric(ranks, 8, 8);
  if (failed_nics > 0) {
    Failure failure;
    failure.nic_count = failed_nics;
    apply_failures(topology, {failure});
  }
  RankSelection selection;
  selection.gpus_per_server = 1;
  const Network network = build_network(topology, selection);
  options["algorithm"] = algorithm;
  Collective collective;
  collective.type = type;
  collective.ranks = ranks;
  const GenerateRequest request{network, collective, Bytes(1 << 30), Bytes(4), Sharing::fair,
                                JsonCursor(options, "test"), {}};
  return generate(request).schedule;
}

}  // namespace slackline
