// Nested rings: a bandwidth-optimal AllReduce for servers of unequal NIC bandwidths (design/bounds.md).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// One class of the message: its part runs around the `ring` fastest servers, and all others hand their data to a server
/// of that ring and get the result from one.
struct NestedRing {
  int ring = 0;    ///< servers
  Fraction part;   ///< of the message, > 0
};

/// The classes that load every server for exactly T* = max(2(p-1) / sum c_v, 1 / c_min) * N/B, c_v being a server's
/// bandwidth over the fastest's (where the second bound binds, healthy servers may have time to spare). `bandwidths`
/// are the c_v, ascending, at least two, the last of them 1. Largest ring first. Throws Error{input} where the exact
/// fractions leave 64 bits.
std::vector<NestedRing> nested_ring_classes(const std::vector<Fraction>& bandwidths);

/// AllReduce for servers with equally many ranks each and NICs of any bandwidths. Tends to T* with the number of
/// segments under `fair` sharing; under `exclusive` sharing a slow server's message holds up a healthy port, and the
/// schedule is valid but slower.
/// Options: `segments`, from 1, or "auto" (the default), with `max_transfers` as limit (default 67108864).
extern const Algorithm nested_rings_algorithm;

}  // namespace slackline
