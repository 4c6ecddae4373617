// The simulator for those who need no ns-3: plays a schedule on a network and says how long it took.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

struct SimulateOptions {
  Sharing sharing = Sharing::fair;
  bool record_times = false;  ///< fill `started` and `ended`
};

struct SimulateResult {
  Duration time;                   ///< from the start to the last arrival
  uint64_t events = 0;             ///< ns-3 events executed
  std::vector<TimePoint> started;  ///< by transfer, where asked for
  std::vector<TimePoint> ended;    ///< arrival, by transfer, where asked for
};

/// Plays `schedule`, which must be well-formed (validate() finds no error). Throws Error{input} where the
/// network lacks a route that the schedule uses, or has another number of ranks. ns-3's simulator is global
/// to the process: never call this from two threads at once.
SimulateResult simulate(const Network& network, const Schedule& schedule, const MessageLayout& layout,
                        const SimulateOptions& options = {});

}  // namespace slackline
