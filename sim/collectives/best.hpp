// The best of all algorithms: generates with each that applies, with its best parameters, times the schedules and
// keeps the fastest.
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// Every algorithm that applies is tried with "auto" parameters; OptCC also with "pace": "asap" and "stragglers": "auto",
/// R2CCL in both forms, nested rings up to 64 servers with both exchanges. Among equals the first in the order of the registry wins. The notes say who won with what, and
/// what the others took, fastest first.
/// Options: `candidates`, an array of names of algorithms to try instead of all; `max_transfers`, as for those that know it.
extern const Algorithm best_algorithm;

}  // namespace slackline
