// OptCC: an AllReduce in four pipelined stages that keeps both a straggler and the healthy ring busy
// (Chen et al., "Don't Let a Few Network Failures Slow the Entire AllReduce", arXiv 2606.01680).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// AllReduce for one GPU per server and at most one straggler, of any slowdown l >= 1. In the model without
/// latency, with k segments (a multiple of 4) on p ranks,
///     T = (k+1)/k * max(2(p-1)/(p-2+2/l), l) * N/B        (design/optcc.md, "Composition: one straggler").
/// Options: `segments`, a number from 1 or "auto" (the default), which takes the k of least simulated time for
/// which the schedule stays within `max_transfers` (default 67108864).
extern const Algorithm optcc_algorithm;

}  // namespace slackline
