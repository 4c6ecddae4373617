// Scenario documents for tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "scenario/run.hpp"

namespace slackline {

/// One GPU a server on a rail fabric of 100 GB/s NICs; rank 0 slower by `slowdown` where that is not "1".
struct StarScenario {
  int servers = 8;
  std::string slowdown = "1";
  std::string size = "8 GiB";
  std::string sharing = "fair";
  std::string latency = "0 us";
  std::string overhead = "0 ns";
  std::string schedule = R"({"algorithm": "ring"})";

  ScenarioDocument document() const {
    const std::string failures = slowdown == "1" ? "" : fmt::format(R"({{"server": 0, "slowdown": "{}"}})", slowdown);
    return {parse_json(fmt::format(R"({{
      "name": "test",
      "topology": {{"builder": "rail_fabric", "servers": {}, "gpus_per_server": 1, "nics_per_server": 1,
                    "nic_bandwidth": "100 GB/s", "nic_latency": "{}", "message_overhead": "{}",
                    "nvlink_bandwidth": "900 GB/s", "nvlink_latency": "0 ns"}},
      "collective": {{"type": "allreduce", "size": "{}", "element": "4 B"}},
      "failures": [{}], "schedule": {}, "network": {{"sharing": "{}"}}}})",
                                   servers, latency, overhead, size, failures, schedule, sharing),
                       "test"),
            "test", "."};
  }
};

}  // namespace slackline
