// Running one scenario: generate or read its schedule, prove it right, play it, bound it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bounds/bounds.hpp"
#include "collectives/algorithm.hpp"
#include "fabric/simulate.hpp"
#include "scenario/scenario.hpp"
#include "schedule/validate.hpp"

namespace slackline {

/// A schedule that a run has played, alone or beside others.
struct PlayedGroup {
  std::string name;
  Schedule schedule;
  int64_t segments = 1;  ///< into which the message was cut
  MessageLayout layout;
  std::vector<int> ranks;       ///< the network's rank of each of its ranks
  std::vector<int> stragglers;  ///< those of its ranks that are slower than others, ascending
};

/// All that traces, plots and explanations are made from. Flows are numbered through, group after group.
struct PlayedRun {
  Network network;
  std::vector<PlayedGroup> groups;
  SimulateResult result;
};

/// What a run keeps of what has happened.
struct RunOptions {
  bool record_times = false;  ///< of every transfer
  bool record_loads = false;  ///< of every link
};

/// What a run found out. With an invalid schedule there is no time.
struct RunResult {
  std::string scenario;
  Collective collective;
  std::string algorithm;  ///< or the schedule file's name
  int servers = 0;
  int gpus_per_server = 0;  ///< ranks per server; 0 where servers differ
  Bytes size;
  int64_t segments = 1;
  std::vector<std::pair<int, Fraction>> slowdowns;  ///< rank and l of every straggler
  std::string model;
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
  std::shared_ptr<const PlayedRun> played;  ///< where the options ask for any of it and there is a time

  bool valid() const { return !has_errors(findings); }
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

/// Throws Error; an invalid schedule is not an exception but a result with findings and without a time.
RunResult run_scenario(const ScenarioDocument& document, const RunOptions& options = {});

/// Only the bounds.
std::vector<Bound> scenario_bounds(const Scenario& scenario);

}  // namespace slackline
