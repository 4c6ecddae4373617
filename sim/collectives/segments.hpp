// Choosing the number of pipelined segments of a schedule by timing candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/json.hpp"
#include "base/units.hpp"

namespace slackline {

/// The candidate with the least `time(segments)` among multiples of `granule` and the numbers below it, 1 to
/// `highest`. Brackets the minimum on a geometric ladder (a finer pipeline gains less and less and costs
/// more and more, so the time has one valley but for small ripples), then searches the bracket. Among equals
/// the smallest wins.
int64_t best_segments(int64_t granule, int64_t highest, const std::function<Duration(int64_t)>& time);

/// Makes a function of the number of segments out of one of the number and the size of the message, without timing long
/// pipelines whole: once a pipeline is full every `granule` segments add the same time, so two short ones with
/// sections of the same size tell.
std::function<Duration(int64_t)> extrapolated(int64_t granule, Bytes size,
                                              const std::function<Duration(int64_t segments, Bytes size)>& time);

/// The option `segments`: a number from 1, or nothing for "auto" or where it is absent.
std::optional<int64_t> segments_option(const JsonCursor& options);
/// The option `max_transfers`, up to which "auto" may go; 67108864 where it is absent.
int64_t max_transfers_option(const JsonCursor& options);

}  // namespace slackline
