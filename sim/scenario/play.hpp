// Playing the groups of a scenario on a network whose parts fail and come back, with what is done about it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "fabric/simulate.hpp"
#include "scenario/scenario.hpp"

namespace slackline {

/// A schedule as it was played. After a restart there is another one for each group.
struct PlayedGroup {
  std::string name;  ///< of the group, with "attempt N" where there were several; empty where there is one of both
  Schedule schedule;
  int64_t segments = 1;
  MessageLayout layout{Bytes(0), Bytes(1), 1};
  std::vector<int> ranks;       ///< the network's rank of each of the schedule's
  std::vector<int> stragglers;  ///< ranks of the schedule that were slow when it was made
};

/// All that was played, for traces, plots and explanations. `result.recording` is numbered through all `groups`.
struct PlayedRun {
  Network network;  ///< at the start
  std::vector<PlayedGroup> groups;
  SimulateResult result;  ///< of all attempts together; `jobs` and `finished` are of the scenario's groups
};

struct PlayOptions {
  bool record_times = false, record_loads = false;
  std::function<bool()> interrupted = {};
};

/// What became of it.
struct PlayOutcome {
  PlayedRun run;
  Duration planning;     ///< spent in waiting for new schedules
  Duration discarded;    ///< between the start of an attempt and the failure that ended it, where it was begun anew
  int attempts = 1;
};

/// One group: its scenario, its document, whose `recovery.schedule` or else `schedule` says how new schedules are made, and the schedule it starts with.
struct PlayGroup {
  const ScenarioDocument& document;
  const Scenario& scenario;
  std::shared_ptr<const Generated> generated = nullptr;
};

/// Plays the groups of one scenario side by side: on the network of the first if it has no `every_nic` (there is one group
/// then), else on the fabric with all its NICs, with the failures, the background traffic and the recovery of the first.
PlayOutcome play(const std::vector<PlayGroup>& groups, const PlayOptions& options = {});

/// The network that groups with `every_nic` share at a time: what the failures of the first leave at `time`. `healthy`: as
/// if there were no failures.
Network shared_network(const std::vector<const Scenario*>& groups, TimePoint time, bool healthy = false);
/// The rank of that network that plays each rank of the group.
std::vector<int> shared_ranks(const std::vector<const Scenario*>& groups, const Scenario& group);

}  // namespace slackline
