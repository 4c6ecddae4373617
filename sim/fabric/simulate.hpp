// The simulator for those who need no ns-3: plays a schedule on a network and says how long it took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// What happened to every transfer and link, for traces, plots and explanations. With several jobs their transfers are
/// numbered through, job after job; such a number is a "flow" here. Times are TimePoint::never() for what never happened.
struct Recording {
  std::vector<TimePoint> started, released, ended;  ///< by flow: begins to occupy its ports, is sent, has arrived
  std::vector<uint32_t> limited_by;  ///< by flow: the link of the Network that limited its rate last; UINT32_MAX: none
  /// From `time` on the link carries `load`. In the order of time; only links that flows use.
  struct Load {
    TimePoint time;
    uint32_t link;
    Bandwidth load;
  };
  std::vector<Load> loads;
  /// Failures, repairs, detections, migrations, in the order of time, said for people.
  struct Instant {
    TimePoint time;
    std::string what;
  };
  std::vector<Instant> instants;
};

/// What a link of the Network carried in the whole run.
struct LinkUse {
  Bytes bytes;
  Duration busy;  ///< with at least one flow on it
};

struct SimulateOptions {
  Sharing sharing = Sharing::fair;
  bool record_times = false;  ///< fill the recording's times and instants
  bool record_loads = false;  ///< fill the recording's loads
};

struct SimulateResult {
  Duration time;                ///< from the start to the last arrival
  uint64_t events = 0;          ///< ns-3 events executed
  std::vector<LinkUse> links;   ///< by link of the Network
  Recording recording;          ///< as far as asked for
};

/// Plays `schedule`, which must be well-formed (validate() finds no error). Throws Error{input} where the
/// network lacks a route that the schedule uses, or has another number of ranks. ns-3's simulator is global
/// to the process: never call this from two threads at once.
SimulateResult simulate(const Network& network, const Schedule& schedule, const MessageLayout& layout,
                        const SimulateOptions& options = {});

}  // namespace slackline
