// OptCC: an AllReduce in four pipelined stages that keeps both the stragglers and the healthy ring busy
// (Chen et al., "Don't Let a Few Network Failures Slow the Entire AllReduce", arXiv 2606.01680).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// AllReduce for servers with equally many ranks each, any number of stragglers of any slowdowns. In the model without
/// latency, with k segments on p servers of one rank, h of them healthy (design/optcc.md),
///     one straggler, k a multiple of 4:   T = (k+1)/k * max(2(p-1)/(p-2+2/l), l) * N/B
///     m stragglers:                       T = (k+3)/k * W(h+m-1)/h * N/B,   W = max(2, l_max).
/// The second is an upper bound: it is met where W = 2, h >= m + 2 and the stragglers' messages can fill the first and
/// the last body. With g ranks a server, n/g crosses the network in each of g slices, between an NVLink
/// reduce-scatter and an NVLink allgather.
/// Options:
///   `segments`       a number from 1 or "auto" (the default): the k of least time that keeps the schedule within
///   `max_transfers`  (default 67108864)
///   `stragglers`     "slow" (the default): all servers that are slower than the fastest; a number: so many, the slowest
///                    first, the others stay in the ring; "auto": the number that makes the closed form least
///   `nvlink`         "overlapped" (the default): NVLink works on one segment while NICs work on others;
///                    "alternating": a server's NVLink and NICs take turns, as in the paper
///   `pace`           "slots" (the default): the paper's time slots, which the closed forms describe; latency hides in them, but
///                    for one latency about every h - 1 groups where there are several stragglers; "asap": transfers start as
///                    early as they can, which is never slower
extern const Algorithm optcc_algorithm;

}  // namespace slackline
