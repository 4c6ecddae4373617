// Recursive halving and doubling: partners at distances of powers of two exchange halves, quarters, ..
// (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// allreduce for any number of ranks; reduce_scatter and allgather for powers of two. With latency a a message and b
/// seconds a byte, T = 2 log2(p) a + 2(p-1)/p N b for powers of two, else 2 ceil(log2 p) a + 2 N b (1.5 - 2^-floor(log2 p))
/// (design/baselines.md): the ranks beyond the power of two pair up with others and share the work of a node with
/// them. No options.
extern const Algorithm recursive_halving_doubling_algorithm;

}  // namespace slackline
