// What a run did with its network, and why it took as long as it took: port utilisation, bytes by kind of link, the
// critical path, and why the bottleneck stood idle.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "scenario/run.hpp"

namespace slackline {

/// bytes x 8 / (capacity x time), with the capacity that the link has as the run begins.
struct PortUse {
  uint32_t link = 0;
  double utilisation = 0;
};

/// What has to end before a transfer can start. `start` and what follows is no other transfer.
enum class Wait : uint8_t {
  send_queue,     ///< the transfer before it that its source sends on its channel
  receive_queue,  ///< the transfer before it that its destination receives on its channel
  port,           ///< a transfer that holds a port of its route; sharing is exclusive
  dependency,     ///< a transfer in its `after`
  start,          ///< nothing: it starts as the run does
  late_rank,      ///< a rank that arrives late
  failure,        ///< a change of the network or its detection
  other,          ///< traffic that is in no schedule
};
std::string_view to_string(Wait wait);

/// A transfer on the critical path. It explains the time [from, to]; the steps follow each other without a gap.
struct CriticalStep {
  uint32_t flow = 0;
  TimePoint from, to;
  Wait waited_for = Wait::start;
  std::string waited_for_what;  ///< for late_rank, failure, other: which, for people
  Duration waiting;             ///< until it starts, for what is no transfer
  Duration stalled;             ///< on a dead link
  Duration overhead;            ///< the message's fixed cost
  Duration sending;             ///< its bytes, at the rate that `link` leaves to it
  Duration latency;             ///< until it has arrived, where the next step waits for that
  uint32_t link = UINT32_MAX;   ///< that limited its rate last; UINT32_MAX: it had no bytes to send
};

/// A part of a time.
struct TimeShare {
  std::string what;
  Duration time;
};

struct Numbers {
  Duration time;               ///< of the run
  bool complete = true;        ///< false: the run has not finished, and all is about what has ended
  size_t used_ports = 0;       ///< ports of servers into the network that carried anything
  size_t unused_ports = 0;
  double mean_utilisation = 0;  ///< of the used ports
  std::optional<PortUse> lowest, highest;  ///< of the used ports
  Bytes sent_by_servers;        ///< out of their ports
  struct KindUse {
    LinkKind kind;
    size_t links = 0;  ///< that carried anything
    Bytes bytes;       ///< a transfer counts on each of its links
  };
  std::vector<KindUse> kinds;

  std::optional<PortUse> bottleneck;  ///< the link with the highest utilisation, of whatever kind; of equals the longest busy
  Duration bottleneck_idle;           ///< time in which nothing used it
  std::vector<TimeShare> idle_reasons;  ///< of the time in which nothing moved on it, the longest first

  std::vector<CriticalStep> path;      ///< from the start to the last arrival
  std::vector<TimeShare> path_shares;  ///< the path's time by what limited it, the longest first; add up to `time`
};

/// Needs the recording's times; stalls on dead links are only seen where loads were recorded too.
Numbers run_numbers(const PlayedRun& run);

/// Lines for people, in the form of result_table().
std::string numbers_text(const PlayedRun& run, const Numbers& numbers);
/// At most `most_steps` steps of the path, the last ones; "steps" says how many there are.
Json numbers_json(const PlayedRun& run, const Numbers& numbers, size_t most_steps = 1000);

}  // namespace slackline
