// Running one scenario: generate or read its schedule, prove it right, play it, bound it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bounds/bounds.hpp"
#include "collectives/algorithm.hpp"
#include "scenario/play.hpp"
#include "scenario/scenario.hpp"
#include "schedule/validate.hpp"

namespace slackline {

/// What a run found out. With an invalid schedule there is no time.
struct RunResult {
  std::string scenario;
  std::string group;  ///< where there are several; "all" for the whole
  Collective collective;
  std::string algorithm;  ///< or the schedule file's name
  int servers = 0;
  int gpus_per_server = 0;  ///< ranks per server; 0 where servers differ
  Bytes size;
  int64_t segments = 1;
  std::vector<std::pair<int, Fraction>> slowdowns;  ///< rank and l of every straggler
  std::string model;
  bool every_nic = false;  ///< played with each NIC and switch, not with shares of NICs
  Sharing sharing = Sharing::fair;
  size_t transfers = 0;
  std::vector<std::string> notes;       ///< of the generator
  std::vector<Finding> findings;        ///< of the validator
  std::vector<Bound> bounds;            ///< the binding one first
  std::optional<Duration> time;         ///< simulated
  std::optional<Duration> fault_free;   ///< the ring on the network without its failures, where there is a ring
  uint64_t events = 0;                  ///< of the simulator
  std::string topology;                 ///< for people: what the network is
  std::vector<std::string> failures;    ///< for people: what is broken in it

  PlayStatus status = PlayStatus::finished;
  std::string recovery;                 ///< the policy
  bool disturbed = false;               ///< parts fail on the way, ranks are late, or there is other traffic
  std::optional<Duration> undisturbed;  ///< the same schedules on the network at the start, without any of that
  Duration stopped;                     ///< the last arrival, whether or not that was the end
  Duration detection;                   ///< in which flows waited for failures to be known
  Duration resending;                   ///< that the slowest rank needs for what it sends again, alone on its way
  Duration planning;                    ///< spent in waiting for new schedules
  Duration discarded;                   ///< between the start of an attempt and the failure that ended it, where it was begun anew
  Duration latest_arrival;              ///< of a rank that is late
  Bytes lost;                           ///< sent in vain
  int attempts = 1;
  std::vector<std::string> waiting;     ///< of a stalled run: what waits for what
  std::vector<RunResult> groups;        ///< where there are several
  std::shared_ptr<const PlayedRun> played;  ///< where something was recorded

  bool valid() const { return !has_errors(findings); }
  /// The collective ended, and with the right result.
  bool ok() const { return valid() && status == PlayStatus::finished; }
  /// Bytes per second over the whole message, and what nccl-tests makes of it: 2(p-1)/p times that for an AllReduce,
  /// (p-1)/p for allgather, reduce_scatter, gather, scatter, alltoall, 1 for broadcast and reduce
  /// (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
  double algbw_bytes_per_second() const;
  double busbw_bytes_per_second() const;
  /// time / bound - 1; time / fault_free - 1. Empty where one of the two is missing or 0.
  std::optional<double> slack() const;
  std::optional<double> overhead() const;
};

/// The schedule that the scenario's `schedule` object names or has generated.
Generated make_schedule(const ScenarioDocument& document, const Scenario& scenario);

/// Throws Error; an invalid schedule is not an exception but a result with findings and without a time, and so is a run that
/// stalls or is interrupted.
RunResult run_scenario(const ScenarioDocument& document, const PlayOptions& options = {});

/// Only the bounds.
std::vector<Bound> scenario_bounds(const Scenario& scenario);

}  // namespace slackline
