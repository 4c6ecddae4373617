// Runs with everything recorded, for tests of traces, plots and explanations.
#pragma once

#include <numeric>
#include <utility>

#include "scenario/run.hpp"
#include "support/networks.hpp"

namespace slackline {

/// One rank a server, NICs of 100 GB/s, 2 us, 20 ns of overhead; of server 0, so many NICs of 8 dead.
inline Network star(int ranks, int failed_nics = 0) {
  Topology topology = rail_fabric(ranks, 8, 8);
  if (failed_nics > 0) {
    Failure failure;
    failure.nic_count = failed_nics;
    apply_failures(topology, {failure});
  }
  RankSelection selection;
  selection.gpus_per_server = 1;
  return build_network(topology, selection);
}

/// Plays one schedule on all ranks.
inline PlayedRun played(const Network& network, Schedule schedule, int64_t segments, Bytes size, SimulateOptions options = {},
                        std::vector<Duration> arrivals = {}) {
  options.record_times = options.record_loads = true;
  const MessageLayout layout(size, Bytes(4), schedule.units());
  const PlayedJob job{schedule, layout, {}, std::move(arrivals)};
  SimulateResult result = simulate(network, std::span(&job, 1), options);
  PlayedRun run{network.clone(), {}, std::move(result)};
  std::vector<int> ranks(static_cast<size_t>(network.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  run.groups.push_back({"test", std::move(schedule), segments, layout, std::move(ranks), network.stragglers()});
  return run;
}

/// A schedule of whole-message copies, each with the channel and the dependencies that are given. Not one that does anything
/// sensible: it is only there to be played.
struct HandMade {
  struct Step {
    uint32_t src, dst;
    uint16_t channel = 0;
    std::vector<uint32_t> after = {};
  };
  static Schedule schedule(int ranks, const std::vector<Step>& steps) {
    Collective collective;
    collective.type = CollectiveType::broadcast;
    collective.ranks = ranks;
    collective.root = 0;
    Schedule schedule(collective, 1);
    const uint32_t chunk = schedule.add_chunk({Buffer::data, 0, 1});
    for (const Step& step : steps) schedule.add({step.src, step.dst, chunk, chunk, TransferOp::copy, step.channel, step.after});
    return schedule;
  }
};

}  // namespace slackline
