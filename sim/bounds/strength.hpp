// The strength of a graph: the partition of its vertices with the least capacity between the parts
// for each part but one. It limits how many spanning trees can be packed.
#pragma once

#include <vector>

#include "bounds/exact.hpp"

namespace slackline {

/// Capacity between two vertices, both directions together.
struct Edge {
  int a = 0, b = 0;
  Wide capacity = 0;
};

struct Partition {
  std::vector<int> part_of;  ///< by vertex, numbered from 0 in order of their first vertices
  int parts = 0;
  Wide capacity = 0;  ///< between the parts
};

/// A partition into at least 2 parts that minimises capacity / (parts - 1), exactly: packing
/// spanning trees reaches this rate (Tutte 1961; Nash-Williams 1961). Found by maximum flows
/// (Cunningham, "Optimal attack and reinforcement of a network", JACM 1985). Needs at least 2
/// vertices.
Partition weakest_partition(int vertices, const std::vector<Edge>& edges);

}  // namespace slackline
