// Choosing the number of pipelined segments of a schedule by timing candidates.
#pragma once

#include <cstdint>
#include <functional>

#include "base/units.hpp"

namespace slackline {

/// The candidate with the least `time(segments)` among multiples of `granule` and the numbers below it, 1 to
/// `highest`. Brackets the minimum on a geometric ladder (a finer pipeline gains less and less and costs
/// more and more, so the time has one valley but for small ripples), then searches the bracket. Among equals
/// the smallest wins.
int64_t best_segments(int64_t granule, int64_t highest, const std::function<Duration(int64_t)>& time);

}  // namespace slackline
