// Nested rings: a bandwidth-optimal AllReduce for servers of unequal NIC bandwidths (design/bounds.md).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// One class of the message: its part runs around the `ring` fastest servers, and all others, its leaves, hand their data
/// to servers of that ring and get the result from them.
struct NestedRing {
  int ring = 0;   ///< servers
  Fraction part;  ///< of the message, > 0
};

/// The classes that load every server for exactly T* = max(2(p-1) / sum c_v, 1 / c_min) * N/B, c_v being a server's
/// bandwidth over the fastest's (where the second bound binds, fast servers may have time to spare). `bandwidths`
/// are the c_v, ascending, at least two, the last of them 1. Largest ring first. Throws Error{input} where the exact
/// fractions leave 64 bits.
std::vector<NestedRing> nested_ring_classes(const std::vector<Fraction>& bandwidths);

/// AllReduce for servers with equally many ranks each and NICs of any bandwidths. Under `fair` sharing and without
/// latency it takes about (k+1)/k T* with k segments. Under `exclusive` sharing a slow server's message holds up a healthy
/// port, and the schedule is valid but slower.
///
/// How the rates come about. Under fair sharing the flows of a port have equal rates, so bandwidth is given out in flows:
/// there are F channels, and a server of bandwidth c takes part in the first F*c of them. Then all flows have the rate
/// 1/F, and every channel is a network of equal servers with one flow in and out of each. On a channel of the fastest R
/// servers a ring of R hops along; on the channels that all servers have, a leaf takes its turn between two neighbours of
/// the ring, receives a result from the one and hands raw data to the other, while the hop between them waits.
/// Options:
///   `segments`       from 1, or "auto" (the default), with `max_transfers` as limit (default 67108864)
///   `channels`       F, 1 to 64; the default is the least with which T* is missed by at most 1/400
extern const Algorithm nested_rings_algorithm;

}  // namespace slackline
