// Choosing the number of pipelined segments of a schedule by timing candidates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/units.hpp"
#include "collectives/algorithm.hpp"

namespace slackline {

/// The candidate with the least `time(segments)` among multiples of `granule` and the numbers below it, 1 to
/// `highest`. Brackets the minimum on a geometric ladder (a finer pipeline gains less and less and costs
/// more and more, so the time has one valley but for small ripples), then searches the bracket, until it is
/// no wider than `tolerance` times the number. Among equals the smallest wins.
int64_t best_segments(int64_t granule, int64_t highest, const std::function<Duration(int64_t)>& time, double tolerance = 0);

/// Makes a function of the number of segments for best_segments() out of `time(segments, shown)`, the time of the first
/// `shown` segments of a message cut into `segments`, without timing long pipelines whole: once a pipeline is
/// full, after `base` segments, every `period` more add the same time.
std::function<Duration(int64_t)> extrapolated(int64_t base, int64_t period,
                                              const std::function<Duration(int64_t segments, int64_t shown)>& time);

/// Time of a schedule on the request's network: simulated, or in list order where the request has no simulator.
Duration time_of(const GenerateRequest& request, const Schedule& schedule);

/// The option `segments`: a number from 1, or nothing for "auto" or where it is absent.
std::optional<int64_t> segments_option(const JsonCursor& options);
/// The option `max_transfers`, up to which "auto" may go; 67108864 where it is absent.
int64_t max_transfers_option(const JsonCursor& options);

/// For Generated::notes.
std::string chosen_segments_note(int64_t segments);

}  // namespace slackline
