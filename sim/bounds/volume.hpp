// The volume bound: an AllReduce among r parts moves the message at least 2(r-1) times between
// them.
#pragma once

#include "bounds/exact.hpp"

namespace slackline {

/// For every partition of the ranks into r parts, an AllReduce of N takes at least 2(r-1)N /
/// (capacity between the parts). Proof, per unit: take the first part in which every contribution
/// has arrived. Every other part has sent before, or its contribution would be missing; and every
/// other part has yet to receive. These are 2(r-1) different transfers from one part to another.
/// Source: Chen et al., arXiv 2606.01680, Theorems 1-3, with parts for ranks; over all partitions
/// it is N over the strength of the graph (Tutte; Nash-Williams).
///
/// Tried are the ranks, the servers, the rails (equal places in the servers), each server's ranks
/// against all the rest; and all partitions, where every vertex is a rank and there are at most
/// 400, or at most 8 ranks.
void add_volumes(const BoundRequest& request, std::vector<Bound>& bounds);

/// A capacity (b/s) that every transfer between different parts uses some of: the links between the
/// parts, each switch counted on the side that is cheaper, given the others (a local optimum).
Wide capacity_between(const Network& network, const std::vector<int>& part_of_rank);

}  // namespace slackline
