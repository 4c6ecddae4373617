// The simulator for those who need no ns-3: plays a schedule on a network and says how long it took.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

/// A schedule that is played, alone or beside others.
struct PlayedJob {
  const Schedule& schedule;  ///< well-formed: validate() finds no error
  const MessageLayout& layout;
  std::vector<int> ranks = {};          ///< the network's rank of each of its ranks; empty: 0, 1, ..
  std::vector<Duration> arrivals = {};  ///< when each of its ranks begins; empty: all at the start
};

/// A flow beside the jobs, which nobody waits for.
struct BackgroundFlow {
  int from = 0, to = 0;  ///< ranks of the network
  Bandwidth rate;        ///< at most; 0: as fast as the network lets it
  TimePoint at;
  TimePoint until = TimePoint::never();
};

struct SimulateOptions {
  Sharing sharing = Sharing::fair;
  bool record_times = false;  ///< fill the recording's times and instants
  bool record_loads = false;  ///< fill the recording's loads
  NetworkTimeline changes = {};
  bool reroute = false;        ///< send flows on dead links another way, `detection` + `migration` after each change
  Duration detection{}, migration{};
  Bytes acknowledged_chunk = Bytes(512 * 1024);  ///< a flow that is sent another way starts again at the last whole one
  std::vector<BackgroundFlow> background = {};
  TimePoint stop_at = TimePoint::never();        ///< end there, finished or not
  std::function<bool()> interrupted = {};        ///< asked now and then; true ends the run
};

enum class PlayStatus : uint8_t {
  finished,
  stalled,      ///< what is left waits for dead parts, and nothing more happens to them
  cut,          ///< at `stop_at`
  interrupted
};

struct SimulateResult {
  PlayStatus status = PlayStatus::finished;
  Duration time;                ///< from the start to the last arrival
  std::vector<Duration> jobs;   ///< the same of each job
  std::vector<bool> finished;   ///< by job
  uint64_t events = 0;          ///< ns-3 events executed
  std::vector<LinkUse> links;   ///< by link of the Network
  Recording recording;          ///< as far as asked for
  Bytes lost;                   ///< sent in vain before flows were sent another way
  Duration detection;           ///< in which flows waited to be sent another way
  Duration resending;           ///< that the slowest rank needs for what it sends again, alone on its way
  std::vector<std::string> waiting;  ///< of a run that has stalled: which transfers wait for what, for people
};

/// Plays the jobs side by side. Throws Error{input} where the network lacks a route that a schedule uses, has no such rank,
/// or has another number of ranks than a schedule without `ranks`. ns-3's simulator is global to the process: never call
/// this from two threads at once.
SimulateResult simulate(const Network& network, std::span<const PlayedJob> jobs, const SimulateOptions& options = {});

/// Plays one schedule on all ranks of a network that does not change.
SimulateResult simulate(const Network& network, const Schedule& schedule, const MessageLayout& layout,
                        const SimulateOptions& options = {});

}  // namespace slackline
