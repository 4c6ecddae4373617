// Minimum cuts between two vertices of a directed graph, exactly, for graphs that are asked again
// and again with other capacities.
#pragma once

#include <memory>
#include <vector>

#include "bounds/exact.hpp"

namespace slackline {

/// Boost.Graph's push-relabel on 128-bit capacities.
class MinCut {
public:
  explicit MinCut(int vertices);
  MinCut(MinCut&&) noexcept;
  ~MinCut();

  /// Returns the arc's number, 0, 1, .. Capacities must not be negative, and their sum must stay
  /// below 2^126.
  size_t add_arc(int from, int to, Wide capacity = 0);
  void set_capacity(size_t arc, Wide capacity);
  /// The value of a maximum flow.
  Wide solve(int source, int sink);
  /// After solve(): the smallest set of vertices around the source that a minimum cut separates
  /// from the sink.
  std::vector<bool> source_side() const;

private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
  int source_ = 0;
};

}  // namespace slackline
