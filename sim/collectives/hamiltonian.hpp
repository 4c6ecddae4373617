// Hamiltonian cycles and paths, which are what NCCL makes its rings and chains of.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "collectives/tree_packing.hpp"

namespace slackline {

/// The largest set of edge-disjoint Hamiltonian cycles, as orders of the vertices; a link can be used as often as it
/// has whole links of capacity, both ways. Exact up to 8 vertices or so; the search is cut off beyond a million
/// steps, when the set is only a good one. Needs 3 vertices or more.
std::vector<std::vector<int>> disjoint_hamiltonian_cycles(const CapacityGraph& graph);

/// A path through all vertices along which joined(u, v) holds, starting at `from` (-1: anywhere), and `closed`, if
/// asked for. The lexicographically first; nothing if there is none or the search takes over a million steps.
std::optional<std::vector<int>> hamiltonian_path(int vertices, int from, bool closed,
                                                 const std::function<bool(int, int)>& joined);

}  // namespace slackline
