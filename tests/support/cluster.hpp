// Clusters and requests for tests of the generators.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"

namespace slackline::test {

struct ClusterOptions {
  int ranks_per_server = 1;
  std::string nic_latency = "0 us", nvlink_latency = "0 us", message_overhead = "0 ns";
  std::string nic_bandwidth = "100 GB/s", nvlink_bandwidth = "900 GB/s";
};

/// Servers with 8 GPUs and NICs each, where the first ones are slow by `slowdowns`.
inline Network cluster(int servers, const std::vector<Fraction>& slowdowns, const ClusterOptions& options = {}) {
  const Json json = parse_json(
      fmt::format(R"({{"builder": "rail_fabric", "servers": {}, "gpus_per_server": 8, "nics_per_server": 8,
        "nic_bandwidth": "{}", "nic_latency": "{}", "message_overhead": "{}", "nvlink_bandwidth": "{}",
        "nvlink_latency": "{}"}})",
                  servers, options.nic_bandwidth, options.nic_latency, options.message_overhead,
                  options.nvlink_bandwidth, options.nvlink_latency),
      "test");
  Topology topology = build_topology(JsonCursor(json, "test"), {});
  std::vector<Failure> failures;
  for (size_t i = 0; i < slowdowns.size(); ++i) {
    Failure failure;
    failure.server = static_cast<int>(i);
    failure.slowdown = slowdowns[i];
    if (slowdowns[i] > Fraction(1)) failures.push_back(failure);
  }
  apply_failures(topology, failures);
  RankSelection selection;
  selection.gpus_per_server = options.ranks_per_server;
  return build_network(topology, selection);
}

/// Generates with `options`, a JSON object that names the algorithm.
inline Generated generated(const Network& network, const std::string& options, Bytes size = Bytes(int64_t{8} << 30),
                           Sharing sharing = Sharing::exclusive, CollectiveType type = CollectiveType::allreduce,
                           int root = -1, std::function<Duration(const Schedule&)> simulate = {}) {
  const Json json = parse_json(options, "options");
  Collective collective;
  collective.type = type;
  collective.ranks = network.ranks();
  collective.root = root;
  return generate({network, collective, size, Bytes(4), sharing, JsonCursor(json, "options"), std::move(simulate)});
}

}  // namespace slackline::test
