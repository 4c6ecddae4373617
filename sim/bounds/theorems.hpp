// OptCC's lower bounds for AllReduce with stragglers, by the paper's numbers.
#pragma once

#include "bounds/bounds.hpp"

namespace slackline {

/// Theorem 1 (at most one straggler) or 2 (several), where every server has one rank, and 3 (g
/// ranks a server, at most one slow server), on a network whose servers meet in one non-blocking
/// fabric. Source: Chen et al., arXiv 2606.01680. B and l are taken from the capacities, which are
/// whole b/s.
void add_theorems(const BoundRequest& request, std::vector<Bound>& bounds);

}  // namespace slackline
