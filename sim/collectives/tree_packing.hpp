// TreeGen: packing spanning trees into the links among the ranks of a job (Wang et al., "Blink: Fast and
// Generic Collectives for Distributed ML", MLSys 2020): exact optima, a fast approximation, few whole trees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fraction.hpp"

namespace slackline {

/// Directed capacities among ranks, in links: capacity[u][v] >= 0 is what u can send to v.
struct CapacityGraph {
  explicit CapacityGraph(int vertices)
      : capacity(static_cast<size_t>(vertices), std::vector<Fraction>(static_cast<size_t>(vertices))) {}
  int vertices() const { return static_cast<int>(capacity.size()); }
  const Fraction& at(int u, int v) const { return capacity[static_cast<size_t>(u)][static_cast<size_t>(v)]; }
  Fraction& at(int u, int v) { return capacity[static_cast<size_t>(u)][static_cast<size_t>(v)]; }
  /// Adds links between u and v, both ways.
  void add(int u, int v, const Fraction& links);
  /// All arcs turned around.
  CapacityGraph reversed() const;

  std::vector<std::vector<Fraction>> capacity;
};

/// Hops from `from` to every vertex along arcs with capacity; -1 where there is no way.
std::vector<int> hops_from(const CapacityGraph& graph, int from);
/// The vertices from which the farthest vertex is nearest, ascending; empty if no vertex reaches all.
std::vector<int> best_roots(const CapacityGraph& graph);

/// A spanning tree: parent[root] is -1. Directed from the root to the leaves, unless it is used both ways.
struct Tree {
  int root = 0;
  std::vector<int> parent;
  bool operator==(const Tree&) const = default;
};

/// Hops from the root to each vertex.
std::vector<int> depths(const Tree& tree);
/// Hops from the root to the farthest vertex.
int depth(const Tree& tree);
/// The same undirected tree with another root.
Tree rerooted(const Tree& tree, int root);
/// The same undirected tree with the root from which it is shallowest (the lowest-numbered such vertex).
Tree centred(const Tree& tree);

/// The highest rate at which `root` can reach every vertex, and the set that limits it.
struct BroadcastOptimum {
  Fraction rate;         ///< in links: min over v of maxflow(root, v) (Edmonds 1973)
  std::vector<int> cut;  ///< vertices without the root; the capacity entering it is `rate`
};
/// Exact. Rate 0 where `root` does not reach all.
BroadcastOptimum broadcast_optimum(const CapacityGraph& graph, int root);

/// The highest total weight of undirected spanning trees, and the partition that limits it.
struct AllreduceOptimum {
  Fraction rate;  ///< in links: min over partitions P of cap(P)/(|P|-1) (Tutte 1961, Nash-Williams 1961)
  std::vector<std::vector<int>> partition;
};
/// Exact, by Newton's method on the ratio with one Dilworth truncation (a min-cut for each vertex) a step
/// (Cunningham 1985). An undirected edge has the lesser capacity of its two arcs.
AllreduceOptimum allreduce_optimum(const CapacityGraph& graph);

/// Trees that share the capacities.
struct WeightedTree {
  Tree tree;
  Fraction weight;  ///< in links
};

/// What is to be packed: arborescences from `root` for broadcast (for reduce, in the reversed graph), or
/// undirected trees for AllReduce, each rooted at its centre.
struct PackingGoal {
  bool undirected = false;
  int root = 0;  ///< not used if undirected
};

/// Multiplicative weights (Garg, Koenemann 1998): the tree of least length is taken at its narrowest link's
/// capacity and its links become longer, again and again, until the scaled total is at least (1 - eps) of
/// the optimum. 0 < eps < 1. Empty if the optimum is 0.
std::vector<WeightedTree> pack_multiplicative(const CapacityGraph& graph, const PackingGoal& goal,
                                              const Fraction& eps);

/// One stage of TreeGen, for reports.
struct PackingStage {
  std::string name;
  Fraction rate;       ///< in links
  int trees = 0;       ///< number of trees, copies counted
  int depth = 0;       ///< of the deepest tree
  double seconds = 0;  ///< wall clock; the only thing here that may differ between runs
};

/// Unit trees: each carries 1/denominator of a link, and a tree may occur several times.
struct TreePacking {
  std::vector<Tree> trees;
  int denominator = 1;
  Fraction optimum;  ///< in links
  Fraction rate() const { return Fraction(static_cast<int64_t>(trees.size()), denominator); }
  std::vector<PackingStage> stages;
};

struct PackingOptions {
  Fraction eps{1, 10};         ///< of the multiplicative weights, between 0 and 1
  Fraction threshold{1, 20};   ///< accept a packing within this of the optimum
  int highest_denominator = 64;
};

/// All stages: optimum, multiplicative weights, few trees. The last looks for the most trees of weight 1 link,
/// then 1/2, 1/3, .. of a link until they are within the threshold. With weights in units of 1/k the most is
/// known beforehand (Edmonds; Tutte, Nash-Williams), and so is whether choosing a tree spoils it (one
/// connectivity test), so that the integer program needs no search: candidates are taken shallow ones first as
/// long as the rest stays packable, and an exact construction supplies what the candidates lack (Lovasz 1976;
/// matroid union: Roskind, Tarjan 1985). A last stage exchanges links between trees to make them shallower.
/// Rate 0 and no trees where the graph is not connected. Deterministic.
TreePacking pack_trees(const CapacityGraph& graph, const PackingGoal& goal, const PackingOptions& options = {});

}  // namespace slackline
