// What happened in a run, in Chrome's trace event format, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.
// Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <ostream>

#include "scenario/run.hpp"

namespace slackline {

/// Writes the run as one JSON object, in the order of time. Needs the recording's times; counters also need its loads. Holds
/// a few words a transfer in memory, and none of the text.
///
/// Every group is a process with two tracks a rank, what it sends and what it receives; another process, "ports", has a
/// track for every link that was used. A transfer is a complete event ("X") on each of them, from when it begins to occupy
/// its ports until it has been sent; where several go on at once, a track has more lanes. On the links those that were
/// sent another way are shown on the way that they had at first. Failures, repairs and detections are instants
/// ("i"), utilisation in percent of the capacity counters ("C"). Times are microseconds, exact to the picosecond.
void write_trace(const PlayedRun& run, std::ostream& out);

}  // namespace slackline
