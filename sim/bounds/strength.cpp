#include "bounds/strength.hpp"

#include <numeric>

#include "bounds/max_flow.hpp"

namespace slackline {

namespace {

// Numbers parts in order of first appearance and adds up what runs between them.
Partition make_partition(std::vector<int> label, const std::vector<Edge>& edges) {
  Partition result;
  std::vector<int> number(label.size(), -1);
  for (int& part : label) {
    int& assigned = number[static_cast<size_t>(part)];
    if (assigned < 0) assigned = result.parts++;
    part = assigned;
  }
  result.part_of = std::move(label);
  for (const Edge& edge : edges)
    if (result.part_of[static_cast<size_t>(edge.a)] != result.part_of[static_cast<size_t>(edge.b)])
      result.capacity += edge.capacity;
  return result;
}

// The partition that minimises the sum over its parts A of f(A) = b d(A) - 2a, d(A) being the
// capacity around A. f is submodular on intersecting sets, so the greedy algorithm of Dilworth
// truncation finds it: give the vertices in turn the largest y with y(A) <= f(A) for all A so far;
// parts are unions of the sets that stop it.
class PartitionFinder {
public:
  PartitionFinder(int vertices, const std::vector<Edge>& edges)
      : vertices_(vertices), edges_(edges), cut_(vertices + 2) {
    for (const Edge& edge : edges) {
      cut_.add_arc(edge.a, edge.b);
      cut_.add_arc(edge.b, edge.a);
    }
    for (int v = 0; v < vertices; ++v) {
      from_source_.push_back(cut_.add_arc(source(), v));
      to_sink_.push_back(cut_.add_arc(v, sink()));
    }
  }

  Partition minimise(Wide a, Wide b) {
    Wide everything = 1;
    for (size_t i = 0; i < edges_.size(); ++i) {
      cut_.set_capacity(2 * i, b * edges_[i].capacity);
      cut_.set_capacity(2 * i + 1, b * edges_[i].capacity);
      everything += b * edges_[i].capacity;
    }
    std::vector<int> part(static_cast<size_t>(vertices_));
    std::iota(part.begin(), part.end(), 0);
    std::vector<Wide> y(static_cast<size_t>(vertices_));
    Wide positive = 0, negative = 0;  // sums over y
    for (int v = 0; v < vertices_; ++v) {
      // The least b d(A) - y(A - v) over A that contain v and no vertex after it.
      const Wide infinite = everything + positive - negative;
      for (int u = 0; u < vertices_; ++u) {
        const auto i = static_cast<size_t>(u);
        cut_.set_capacity(from_source_[i], u == v ? infinite : u < v && y[i] > 0 ? y[i] : 0);
        cut_.set_capacity(to_sink_[i], u > v ? infinite : u < v && y[i] < 0 ? -y[i] : 0);
      }
      // The last vertex may find no vertex after it: then the sink hangs on the negative y alone,
      // and the whole graph, around which nothing runs, is a candidate too.
      const Wide value = cut_.solve(source(), sink()) - positive;
      const std::vector<bool> inside = cut_.source_side();
      y[static_cast<size_t>(v)] = value - 2 * a;
      (y[static_cast<size_t>(v)] > 0 ? positive : negative) += y[static_cast<size_t>(v)];
      std::vector<bool> touched(static_cast<size_t>(vertices_));
      for (int u = 0; u <= v; ++u)
        if (inside[static_cast<size_t>(u)])
          touched[static_cast<size_t>(part[static_cast<size_t>(u)])] = true;
      for (int u = 0; u <= v; ++u) {
        int& label = part[static_cast<size_t>(u)];
        if (touched[static_cast<size_t>(label)]) label = v;
      }
    }
    return make_partition(std::move(part), edges_);
  }

private:
  int source() const { return vertices_; }
  int sink() const { return vertices_ + 1; }

  int vertices_;
  const std::vector<Edge>& edges_;
  MinCut cut_;
  std::vector<size_t> from_source_, to_sink_;
};

}  // namespace

Partition weakest_partition(int vertices, const std::vector<Edge>& edges) {
  std::vector<int> singletons(static_cast<size_t>(vertices));
  std::iota(singletons.begin(), singletons.end(), 0);
  Partition best = make_partition(std::move(singletons), edges);
  PartitionFinder finder(vertices, edges);
  // Newton's (Dinkelbach's) iteration on the ratio: each partition found is strictly weaker than
  // the last.
  while (best.parts > 1) {
    Partition next = finder.minimise(best.capacity, best.parts - 1);
    if (next.parts < 2 || next.capacity * (best.parts - 1) >= best.capacity * (next.parts - 1))
      break;
    best = std::move(next);
  }
  return best;
}

}  // namespace slackline
