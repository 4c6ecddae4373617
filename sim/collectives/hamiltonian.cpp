#include "collectives/hamiltonian.hpp"

#include <algorithm>

namespace slackline {

namespace {

constexpr int64_t step_limit = 1'000'000;
constexpr size_t cycle_limit = 20'000;

// Calls visit with every path from `from`, depth first, until it returns false.
class PathSearch {
 public:
  PathSearch(int vertices, const std::function<bool(int, int)>& joined, const std::function<bool(const std::vector<int>&)>& visit)
      : n_(static_cast<size_t>(vertices)), joined_(joined), visit_(visit), used_(n_, false) {}

  bool run(int from) {
    path_.push_back(from);
    used_[static_cast<size_t>(from)] = true;
    const bool go_on = extend();
    used_[static_cast<size_t>(from)] = false;
    path_.pop_back();
    return go_on;
  }

 private:
  bool extend() {
    if (path_.size() == n_) return visit_(path_);
    const int last = path_.back();
    for (int v = 0; v < static_cast<int>(n_); ++v) {
      if (used_[static_cast<size_t>(v)] || !joined_(last, v)) continue;
      if (++steps_ > step_limit || !run(v)) return false;
    }
    return true;
  }

  size_t n_;
  const std::function<bool(int, int)>& joined_;
  const std::function<bool(const std::vector<int>&)>& visit_;
  std::vector<bool> used_;
  std::vector<int> path_;
  int64_t steps_ = 0;
};

// Takes cycles while they fit and there can be enough; keeps the largest set.
class CyclePacking {
 public:
  CyclePacking(const CapacityGraph& graph, const std::vector<std::vector<int>>& cycles) : cycles_(cycles) {
    const auto n = static_cast<size_t>(graph.vertices());
    left_.assign(n, std::vector<int64_t>(n));
    for (size_t u = 0; u < n; ++u)
      for (size_t v = 0; v < n; ++v) {
        const Fraction c = std::min(graph.capacity[u][v], graph.capacity[v][u]);
        left_[u][v] = c.numerator() / c.denominator();
      }
  }

  std::vector<std::vector<int>> run() {
    search(0);
    std::vector<std::vector<int>> result;
    for (const size_t c : best_) result.push_back(cycles_[c]);
    return result;
  }

 private:
  // Every vertex needs two links for each cycle.
  int64_t bound() const {
    int64_t least = INT64_MAX;
    for (const auto& row : left_) {
      int64_t degree = 0;
      for (const int64_t links : row) degree += links;
      least = std::min(least, degree / 2);
    }
    return least;
  }
  bool take(const std::vector<int>& cycle, int64_t links) {
    bool fits = true;
    for (size_t i = 0; i < cycle.size(); ++i) {
      const auto u = static_cast<size_t>(cycle[i]), v = static_cast<size_t>(cycle[(i + 1) % cycle.size()]);
      left_[u][v] -= links;
      left_[v][u] -= links;
      fits = fits && left_[u][v] >= 0;
    }
    return fits;
  }
  void search(size_t from) {
    if (taken_.size() > best_.size()) best_ = taken_;
    for (size_t c = from; c < cycles_.size(); ++c) {
      if (static_cast<int64_t>(taken_.size()) + bound() <= static_cast<int64_t>(best_.size())) return;
      if (++steps_ > step_limit) return;
      if (take(cycles_[c], 1)) {
        taken_.push_back(c);
        search(c);
        taken_.pop_back();
      }
      take(cycles_[c], -1);
    }
  }

  const std::vector<std::vector<int>>& cycles_;
  std::vector<std::vector<int64_t>> left_;
  std::vector<size_t> taken_, best_;
  int64_t steps_ = 0;
};

}  // namespace

std::vector<std::vector<int>> disjoint_hamiltonian_cycles(const CapacityGraph& graph) {
  const std::function<bool(int, int)> joined = [&](int u, int v) {
    return std::min(graph.at(u, v), graph.at(v, u)) >= Fraction(1);
  };
  std::vector<std::vector<int>> cycles;
  const std::function<bool(const std::vector<int>&)> visit = [&](const std::vector<int>& path) {
    // Each cycle is found in both directions: keep one.
    if (joined(path.back(), path.front()) && path[1] < path.back()) cycles.push_back(path);
    return cycles.size() < cycle_limit;
  };
  PathSearch(graph.vertices(), joined, visit).run(0);
  return CyclePacking(graph, cycles).run();
}

std::optional<std::vector<int>> hamiltonian_path(int vertices, int from, bool closed,
                                                 const std::function<bool(int, int)>& joined) {
  std::optional<std::vector<int>> found;
  const std::function<bool(const std::vector<int>&)> visit = [&](const std::vector<int>& path) {
    if (closed && !joined(path.back(), path.front())) return true;
    found = path;
    return false;
  };
  PathSearch search(vertices, joined, visit);
  for (int start = std::max(from, 0); start < (from < 0 ? vertices : from + 1) && !found; ++start)
    if (!search.run(start)) break;
  return found;
}

}  // namespace slackline
