// Cut bounds: what a set of ranks must send to the others, or receive from them, over the capacity
// between.
#pragma once

#include "bounds/bounds.hpp"

namespace slackline {

/// For a set of vertices S, the bytes that must leave S (Demand::leaving) over the capacity of the
/// links that leave S. Tried are every rank and every server, leaving and entering; on a network
/// that is no star and has at most 400 vertices the maximum over all S by maximum flows ("set
/// cut"): for broadcast it is Edmonds' bound (1973), for allgather and reduce_scatter the optimum
/// of Zhao et al. (ForestColl, arXiv 2402.06787).
///
/// Over all S an alltoall asks for the sparsest cut, which is hard: all sets of at most 10 ranks
/// are tried, and unions of the servers with least capacity.
void add_cuts(const BoundRequest& request, std::vector<Bound>& bounds);

}  // namespace slackline
