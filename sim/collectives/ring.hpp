// The ring: reduce-scatter and allgather around all ranks in order, as NCCL's ring algorithm.
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// allreduce, reduce_scatter and allgather. T = 2(p-1)/p N/B for an AllReduce (half of it for the others), times
/// the largest slowdown where a rank is slow. No options.
extern const Algorithm ring_algorithm;

/// The ring's transfers alone; chunk c is unit c of as many units as there are ranks.
void emit_ring(const Collective& collective, TransferSink& sink);

}  // namespace slackline
