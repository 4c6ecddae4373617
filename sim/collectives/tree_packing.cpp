#include "collectives/tree_packing.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.hpp"

namespace slackline {

namespace {

using Matrix = std::vector<std::vector<int64_t>>;

Matrix matrix(int n) { return Matrix(static_cast<size_t>(n), std::vector<int64_t>(static_cast<size_t>(n))); }
int size(const Matrix& m) { return static_cast<int>(m.size()); }
int64_t& at(Matrix& m, int u, int v) { return m[static_cast<size_t>(u)][static_cast<size_t>(v)]; }
int64_t at(const Matrix& m, int u, int v) { return m[static_cast<size_t>(u)][static_cast<size_t>(v)]; }

struct Cut {
  int64_t value = 0;
  std::vector<bool> source_side;
};

// A minimum cut between two vertices of a dense graph.
Cut min_cut(const Matrix& capacity, int source, int sink) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Arc {
    int64_t capacity = 0, residual = 0;
    Traits::edge_descriptor reverse;
  };
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  const int n = size(capacity);
  Graph graph(static_cast<size_t>(n));
  for (int u = 0; u < n; ++u) {
    for (int v = u + 1; v < n; ++v) {
      const int64_t there = at(capacity, u, v), back = at(capacity, v, u);
      if (there == 0 && back == 0) continue;
      const auto forward = boost::add_edge(static_cast<size_t>(u), static_cast<size_t>(v), graph).first;
      const auto backward = boost::add_edge(static_cast<size_t>(v), static_cast<size_t>(u), graph).first;
      graph[forward] = {there, 0, backward};
      graph[backward] = {back, 0, forward};
    }
  }
  Cut cut;
  cut.value = boost::edmonds_karp_max_flow(
      graph, static_cast<size_t>(source), static_cast<size_t>(sink),
      boost::capacity_map(boost::get(&Arc::capacity, graph))
          .residual_capacity_map(boost::get(&Arc::residual, graph))
          .reverse_edge_map(boost::get(&Arc::reverse, graph)));
  cut.source_side.assign(static_cast<size_t>(n), false);
  cut.source_side[static_cast<size_t>(source)] = true;
  std::vector<size_t> queue{static_cast<size_t>(source)};
  for (size_t i = 0; i < queue.size(); ++i)
    for (auto [edge, end] = boost::out_edges(queue[i], graph); edge != end; ++edge)
      if (const size_t v = boost::target(*edge, graph); graph[*edge].residual > 0 && !cut.source_side[v]) {
        cut.source_side[v] = true;
        queue.push_back(v);
      }
  return cut;
}

// The lesser of both directions, which is what a tree that is used both ways can have.
CapacityGraph symmetric(const CapacityGraph& graph) {
  CapacityGraph result(graph.vertices());
  for (int u = 0; u < graph.vertices(); ++u)
    for (int v = 0; v < graph.vertices(); ++v) result.at(u, v) = std::min(graph.at(u, v), graph.at(v, u));
  return result;
}

// Whole numbers of 1/denominator.
struct Scaled {
  Matrix capacity;
  int64_t denominator = 1;
};
Scaled scale(const CapacityGraph& graph) {
  Fraction common(1);  // as a fraction: its arithmetic is checked
  for (const auto& row : graph.capacity)
    for (const Fraction& c : row)
      common *= Fraction(c.denominator() / std::gcd(c.denominator(), common.numerator()));
  Scaled result{matrix(graph.vertices()), common.numerator()};
  for (int u = 0; u < graph.vertices(); ++u)
    for (int v = 0; v < graph.vertices(); ++v)
      if (u != v) at(result.capacity, u, v) = (graph.at(u, v) * common).numerator();
  return result;
}

// Whole units of 1/k of a link, rounded down.
Matrix whole_units(const CapacityGraph& graph, int k) {
  Matrix result = matrix(graph.vertices());
  for (int u = 0; u < graph.vertices(); ++u)
    for (int v = 0; v < graph.vertices(); ++v) {
      const Fraction units = graph.at(u, v) * Fraction(k);
      if (u != v) at(result, u, v) = units.numerator() / units.denominator();
    }
  return result;
}

// min over v of maxflow(root, v), and the side away from the root; stops below `enough`.
Cut narrowest_cut(const Matrix& capacity, int root, int64_t enough = -1) {
  Cut best;
  best.value = std::numeric_limits<int64_t>::max();
  for (int v = 0; v < size(capacity); ++v) {
    if (v == root) continue;
    Cut cut = min_cut(capacity, root, v);
    if (cut.value < best.value) best = std::move(cut);
    if (best.value < enough) break;
  }
  return best;
}

using Partition = std::vector<std::vector<int>>;

int64_t capacity_between(const Matrix& capacity, const Partition& partition) {
  std::vector<size_t> part(capacity.size());
  for (size_t p = 0; p < partition.size(); ++p)
    for (const int v : partition[p]) part[static_cast<size_t>(v)] = p;
  int64_t total = 0;
  for (int u = 0; u < size(capacity); ++u)
    for (int v = u + 1; v < size(capacity); ++v)
      if (part[static_cast<size_t>(u)] != part[static_cast<size_t>(v)]) total += at(capacity, u, v);
  return total;
}

// The partition P of least cap(P) - x (|P| - 1). Twice that is 2x plus the sum over the parts S of
// g(S) = d(S) - 2x, d being the capacity leaving S. g is intersecting submodular, so that the greedy algorithm
// finds the partition: y_v = min over S containing v and earlier vertices of g(S) - y(S \ v); sets where the
// minimum is attained are unions of parts (Dilworth truncation; Cunningham 1985).
Partition worst_partition(const Matrix& capacity, int64_t x) {
  const int n = size(capacity);
  std::vector<int64_t> y(static_cast<size_t>(n));
  std::vector<int> part(static_cast<size_t>(n));
  std::iota(part.begin(), part.end(), 0);
  for (int v = 0; v < n; ++v) {
    // The cut network: later vertices belong to the sink (vertex n); an earlier u with y > 0 costs y where it is
    // left out (an arc from v, which is in), one with y < 0 costs -y where it is taken.
    const int sink = n;
    Matrix network = matrix(n + 1);
    for (int u = 0; u < n; ++u)
      for (int w = 0; w < n; ++w) {
        const int a = u > v ? sink : u, b = w > v ? sink : w;
        if (u != w && a != b) at(network, a, b) += at(capacity, u, w);
      }
    int64_t left_out = 0;
    for (int u = 0; u < v; ++u) {
      const int64_t value = y[static_cast<size_t>(u)];
      if (value > 0) {
        at(network, v, u) += value;
        left_out += value;
      } else {
        at(network, u, sink) -= value;
      }
    }
    const Cut cut = min_cut(network, v, sink);
    y[static_cast<size_t>(v)] = cut.value - left_out - 2 * x;
    for (int u = 0; u < v; ++u) {
      if (!cut.source_side[static_cast<size_t>(u)]) continue;
      const int merged = part[static_cast<size_t>(u)];
      for (int w = 0; w < v; ++w)
        if (part[static_cast<size_t>(w)] == merged) part[static_cast<size_t>(w)] = v;
    }
  }
  std::map<int, std::vector<int>> parts;
  for (int v = 0; v < n; ++v) parts[part[static_cast<size_t>(v)]].push_back(v);
  Partition result;
  for (auto& [id, members] : parts) result.push_back(std::move(members));
  std::sort(result.begin(), result.end());
  return result;
}

// True where `count` edge-disjoint spanning trees exist.
bool holds_trees(const Matrix& capacity, int64_t count) {
  const Partition partition = worst_partition(capacity, count);
  return capacity_between(capacity, partition) >= count * (static_cast<int64_t>(partition.size()) - 1);
}

// The same for arborescences from root.
bool holds_arborescences(const Matrix& capacity, int root, int64_t count) {
  // The in-degrees first: they settle most cases without a flow.
  for (int v = 0; v < size(capacity); ++v) {
    int64_t entering = 0;
    for (int u = 0; u < size(capacity); ++u) entering += at(capacity, u, v);
    if (v != root && entering < count) return false;
  }
  return narrowest_cut(capacity, root, count).value >= count;
}

// Units of capacity that are left, with the goal that says how trees use them.
class Residual {
 public:
  Residual(Matrix capacity, const PackingGoal& goal) : capacity_(std::move(capacity)), goal_(goal) {}
  const Matrix& capacity() const { return capacity_; }
  int64_t at(int u, int v) const { return slackline::at(capacity_, u, v); }
  void change(int u, int v, int64_t units) {
    slackline::at(capacity_, u, v) += units;
    if (goal_.undirected) slackline::at(capacity_, v, u) += units;
  }
  void change(const Tree& tree, int64_t units) {
    for (int v = 0; v < size(capacity_); ++v)
      if (v != tree.root) change(tree.parent[static_cast<size_t>(v)], v, units);
  }
  bool fits(const Tree& tree) const {
    for (int v = 0; v < size(capacity_); ++v)
      if (v != tree.root && at(tree.parent[static_cast<size_t>(v)], v) < 1) return false;
    return true;
  }
  bool holds(int64_t trees) const {
    if (trees <= 0) return true;
    return goal_.undirected ? holds_trees(capacity_, trees) : holds_arborescences(capacity_, goal_.root, trees);
  }

 private:
  Matrix capacity_;
  PackingGoal goal_;
};

// The most trees that whole capacities hold.
int64_t most_trees(const Matrix& capacity, const PackingGoal& goal) {
  if (!goal.undirected) return narrowest_cut(capacity, goal.root).value;
  CapacityGraph graph(size(capacity));
  for (int u = 0; u < size(capacity); ++u)
    for (int v = 0; v < size(capacity); ++v) graph.at(u, v) = Fraction(at(capacity, u, v));
  const Fraction rate = allreduce_optimum(graph).rate;
  return rate.numerator() / rate.denominator();
}

using Lengths = std::vector<std::vector<double>>;
constexpr double no_arc = std::numeric_limits<double>::infinity();

// The arborescence from `root` of least total length (Chu, Liu 1965; Edmonds 1967): every vertex takes its
// shortest incoming arc; a cycle becomes one vertex, whose incoming arcs cost what they cost more than the arc
// they replace. The root must reach all.
std::vector<int> shortest_arborescence(const Lengths& length, int root) {
  const int n = static_cast<int>(length.size());
  const auto len = [&](int u, int v) { return length[static_cast<size_t>(u)][static_cast<size_t>(v)]; };
  std::vector<int> parent(static_cast<size_t>(n), -1);
  for (int v = 0; v < n; ++v) {
    if (v == root) continue;
    for (int u = 0; u < n; ++u)
      if (u != v && (parent[static_cast<size_t>(v)] < 0 || len(u, v) < len(parent[static_cast<size_t>(v)], v)))
        parent[static_cast<size_t>(v)] = u;
  }
  // A cycle among the parents, if any.
  std::vector<int> seen(static_cast<size_t>(n), -1);
  std::vector<int> cycle;
  for (int start = 0; start < n && cycle.empty(); ++start) {
    int v = start;
    while (v >= 0 && seen[static_cast<size_t>(v)] < 0) {
      seen[static_cast<size_t>(v)] = start;
      v = parent[static_cast<size_t>(v)];
    }
    if (v >= 0 && seen[static_cast<size_t>(v)] == start) {
      int w = v;
      do {
        cycle.push_back(w);
        w = parent[static_cast<size_t>(w)];
      } while (w != v);
    }
  }
  if (cycle.empty()) return parent;

  std::vector<int> smaller(static_cast<size_t>(n), -1);  // number in the contracted graph
  std::vector<bool> in_cycle(static_cast<size_t>(n), false);
  for (const int v : cycle) in_cycle[static_cast<size_t>(v)] = true;
  int count = 0;
  for (int v = 0; v < n; ++v)
    if (!in_cycle[static_cast<size_t>(v)]) smaller[static_cast<size_t>(v)] = count++;
  const int contracted = count++;
  for (const int v : cycle) smaller[static_cast<size_t>(v)] = contracted;
  Lengths inner(static_cast<size_t>(count), std::vector<double>(static_cast<size_t>(count), no_arc));
  std::vector<std::vector<std::pair<int, int>>> arc(
      static_cast<size_t>(count), std::vector<std::pair<int, int>>(static_cast<size_t>(count), {-1, -1}));
  for (int u = 0; u < n; ++u) {
    for (int v = 0; v < n; ++v) {
      const auto a = static_cast<size_t>(smaller[static_cast<size_t>(u)]);
      const auto b = static_cast<size_t>(smaller[static_cast<size_t>(v)]);
      if (a == b || len(u, v) == no_arc) continue;
      const double cost =
          in_cycle[static_cast<size_t>(v)] ? len(u, v) - len(parent[static_cast<size_t>(v)], v) : len(u, v);
      if (arc[a][b].first < 0 || cost < inner[a][b]) {
        inner[a][b] = cost;
        arc[a][b] = {u, v};
      }
    }
  }
  const std::vector<int> solved = shortest_arborescence(inner, smaller[static_cast<size_t>(root)]);
  for (size_t b = 0; b < static_cast<size_t>(count); ++b) {
    if (solved[b] < 0) continue;
    const auto [u, v] = arc[static_cast<size_t>(solved[b])][b];
    parent[static_cast<size_t>(v)] = u;
  }
  return parent;
}

// Prim's algorithm from vertex 0. The graph must be connected.
std::vector<int> shortest_tree(const Lengths& length) {
  const size_t n = length.size();
  std::vector<int> parent(n, -1);
  std::vector<double> distance(n, no_arc);
  std::vector<bool> done(n, false);
  for (size_t next = 0, left = n; left > 0; --left) {
    done[next] = true;
    size_t nearest = n;
    for (size_t v = 0; v < n; ++v) {
      if (done[v]) continue;
      if (length[next][v] < distance[v]) {
        distance[v] = length[next][v];
        parent[v] = static_cast<int>(next);
      }
      if (nearest == n || distance[v] < distance[nearest]) nearest = v;
    }
    next = nearest;
  }
  return parent;
}

// A tree that leaves the rest packable, grown from the root by the arc of least depth that keeps every later
// arborescence possible (Lovasz 1976). `residual` must hold `count` arborescences.
Tree grow_arborescence(Residual& residual, int root, int64_t count) {
  const int n = size(residual.capacity());
  Tree tree{root, std::vector<int>(static_cast<size_t>(n), -1)};
  std::vector<int> reached{root};
  std::vector<bool> in(static_cast<size_t>(n), false);
  in[static_cast<size_t>(root)] = true;
  while (static_cast<int>(reached.size()) < n) {
    bool grown = false;
    // `reached` is in the order of depth.
    for (size_t i = 0; i < reached.size() && !grown; ++i) {
      for (int v = 0; v < n && !grown; ++v) {
        const int u = reached[i];
        if (in[static_cast<size_t>(v)] || residual.at(u, v) < 1) continue;
        residual.change(u, v, -1);
        if (residual.holds(count - 1)) {
          in[static_cast<size_t>(v)] = true;
          tree.parent[static_cast<size_t>(v)] = u;
          grown = true;
          const std::vector<int> depth = depths(tree);
          const auto place = std::find_if(reached.begin(), reached.end(), [&](int w) {
            return depth[static_cast<size_t>(w)] > depth[static_cast<size_t>(v)];
          });
          reached.insert(place, v);
        } else {
          residual.change(u, v, 1);
        }
      }
    }
    if (!grown) throw Error(ErrorKind::internal, "tree packing: the residual graph lost its connectivity");
  }
  return tree;
}

// Edge-disjoint spanning trees by matroid union: each unit edge is put into one of `count` forests; where it
// closes a cycle in all of them, a shortest sequence of exchanges makes room (Roskind, Tarjan 1985).
class ForestUnion {
 public:
  ForestUnion(const Matrix& capacity, int64_t count) : n_(size(capacity)), forests_(static_cast<size_t>(count)) {
    for (int u = 0; u < n_; ++u)
      for (int v = u + 1; v < n_; ++v)
        for (int64_t unit = 0; unit < std::min(at(capacity, u, v), count); ++unit) edges_.push_back({u, v, -1});
    for (size_t e = 0; e < edges_.size(); ++e) insert(e);
  }

  /// Throws Error{internal} unless every forest spans.
  std::vector<Tree> trees() const {
    std::vector<Tree> result;
    for (size_t f = 0; f < forests_.size(); ++f) {
      Tree tree{0, search(f, 0)};
      for (int v = 1; v < n_; ++v)
        if (tree.parent[static_cast<size_t>(v)] < 0)
          throw Error(ErrorKind::internal, "tree packing: matroid union left a forest that does not span");
      result.push_back(centred(tree));
    }
    return result;
  }

 private:
  struct Edge {
    int u, v;
    int forest;
  };

  // Parents of a search from `from` in a forest.
  std::vector<int> search(size_t forest, int from, std::vector<int>* via = nullptr) const {
    std::vector<int> parent(static_cast<size_t>(n_), -1), queue{from};
    if (via) via->assign(static_cast<size_t>(n_), -1);
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const int e : forests_[forest]) {
        const Edge& edge = edges_[static_cast<size_t>(e)];
        if (edge.u != queue[i] && edge.v != queue[i]) continue;
        const int other = edge.u == queue[i] ? edge.v : edge.u;
        if (other == from || parent[static_cast<size_t>(other)] >= 0) continue;
        parent[static_cast<size_t>(other)] = queue[i];
        if (via) (*via)[static_cast<size_t>(other)] = e;
        queue.push_back(other);
      }
    }
    return parent;
  }

  void insert(size_t start) {
    constexpr size_t none = SIZE_MAX;
    std::vector<size_t> cause(edges_.size(), none);  // the edge that wants this one's place
    std::vector<size_t> queue{start};
    std::vector<bool> labelled(edges_.size(), false);
    labelled[start] = true;
    for (size_t i = 0; i < queue.size(); ++i) {
      const size_t e = queue[i];
      for (size_t f = 0; f < forests_.size(); ++f) {
        if (edges_[e].forest == static_cast<int>(f)) continue;
        std::vector<int> via;
        const std::vector<int> parent = search(f, edges_[e].u, &via);
        if (parent[static_cast<size_t>(edges_[e].v)] < 0) {
          // Room: everybody on the way moves up by one.
          size_t mover = e;
          int to = static_cast<int>(f);
          while (mover != none) {
            const int from = edges_[mover].forest;
            if (from >= 0) std::erase(forests_[static_cast<size_t>(from)], static_cast<int>(mover));
            forests_[static_cast<size_t>(to)].push_back(static_cast<int>(mover));
            edges_[mover].forest = to;
            to = from;
            mover = cause[mover];
          }
          return;
        }
        for (int v = edges_[e].v; v != edges_[e].u; v = parent[static_cast<size_t>(v)]) {
          const auto on_cycle = static_cast<size_t>(via[static_cast<size_t>(v)]);
          if (labelled[on_cycle]) continue;
          labelled[on_cycle] = true;
          cause[on_cycle] = e;
          queue.push_back(on_cycle);
        }
      }
    }
    // The edge is spanned by full forests: it is not needed.
  }

  int n_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> forests_;
};

// How deep a tree is, for comparing: a vertex counts four times as much as one a hop nearer, so that the
// deepest vertices matter most.
int64_t cost(const Tree& tree) {
  int64_t total = 0;
  for (const int d : depths(tree)) total += int64_t{1} << (2 * std::min(d, 28));
  return total;
}

// True where v is w or above it.
bool above(const Tree& tree, int v, int w) {
  while (w >= 0 && w != v) w = tree.parent[static_cast<size_t>(w)];
  return w == v;
}

int deepest(const std::vector<Tree>& trees) {
  int result = 0;
  for (const Tree& tree : trees) result = std::max(result, depth(tree));
  return result;
}

int64_t total_cost(const std::vector<Tree>& trees) {
  int64_t sum = 0;
  for (const Tree& tree : trees) sum += cost(tree);
  return sum;
}

// Iterated local search: gives a vertex another parent, or lets two trees swap links, as long as the trees become
// shallower; then disturbs the deepest tree at random (with a fixed seed) and tries again.
class Shallower {
 public:
  /// `least` is a depth that no tree can beat.
  Shallower(std::vector<Tree>& trees, Residual& residual, const PackingGoal& goal, int least)
      : trees_(trees), residual_(residual), goal_(goal), least_(least) {}

  void run() {
    descend(std::vector<bool>(trees_.size(), true));
    int64_t best = total_cost(trees_);
    for (int round = 0; round < rounds && budget_ > 0 && deepest(trees_) > least_; ++round) {
      const std::vector<Tree> saved = trees_;
      const Residual saved_residual = residual_;
      descend(disturb());
      const int64_t now = total_cost(trees_);
      if (now <= best) {
        best = now;
      } else {
        trees_ = saved;
        residual_ = saved_residual;
      }
    }
  }

 private:
  static constexpr int rounds = 100;

  // Knuth's MMIX generator; the high bits are the good ones.
  int random(size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % below);
  }

  // Improves until nothing helps; only pairs with at least one changed tree are looked at.
  void descend(std::vector<bool> changed) {
    while (budget_ > 0 && std::find(changed.begin(), changed.end(), true) != changed.end()) {
      std::vector<bool> next(trees_.size(), false);
      for (size_t a = 0; a < trees_.size(); ++a) {
        if ((changed[a] || next[a]) && improve_alone(a)) next[a] = true;
        for (size_t b = a + 1; b < trees_.size(); ++b)
          if ((changed[a] || changed[b] || next[a] || next[b]) && improve_pair(a, b)) next[a] = next[b] = true;
      }
      changed = std::move(next);
    }
  }

  // Lets one of the deepest trees and another swap links without regard to depth; returns which changed.
  std::vector<bool> disturb() {
    std::vector<bool> changed(trees_.size(), false);
    std::vector<size_t> deep;
    const int depth_now = deepest(trees_);
    for (size_t t = 0; t < trees_.size(); ++t)
      if (depth(trees_[t]) == depth_now) deep.push_back(t);
    const size_t n = trees_[0].parent.size();
    for (int kick = 0, kicks = 1 + random(4), tries = 0; kick < kicks && tries < 200; ++tries) {
      const auto a = deep[static_cast<size_t>(random(deep.size()))];
      const auto b = static_cast<size_t>(random(trees_.size()));
      const int v = random(n), w = goal_.undirected ? random(n) : v;
      if (a == b || !swap_links(a, v, b, w, false)) continue;
      changed[a] = changed[b] = true;
      ++kick;
    }
    return changed;
  }

  // Tree with the link above v replaced by (u, w): in a directed tree w = v; in an undirected one u and w are on
  // different sides. Nothing if that is no tree.
  std::optional<Tree> replaced(const Tree& tree, int v, int u, int w) {
    --budget_;
    if (!goal_.undirected) {
      if (above(tree, v, u)) return std::nullopt;
      Tree result = tree;
      result.parent[static_cast<size_t>(v)] = u;
      return result;
    }
    // What hangs below v is one side. It is to hang from its end of the new link.
    if (above(tree, v, u) == above(tree, v, w)) return std::nullopt;
    if (above(tree, v, u)) std::swap(u, w);
    Tree result = tree;
    int new_parent = u;
    for (int x = w;;) {
      const int next = tree.parent[static_cast<size_t>(x)];
      result.parent[static_cast<size_t>(x)] = new_parent;
      if (x == v) break;
      new_parent = x;
      x = next;
    }
    return centred(result);
  }

  bool improve_alone(size_t a) {
    const int n = static_cast<int>(trees_[a].parent.size());
    bool any = false;
    for (int v = 0; v < n; ++v) {
      for (int u = 0; u < n; ++u) {
        for (int w = goal_.undirected ? 0 : v; w < (goal_.undirected ? n : v + 1); ++w) {
          if (v == trees_[a].root) continue;
          const int parent = trees_[a].parent[static_cast<size_t>(v)];
          if (u == w || (goal_.undirected && u > w) || residual_.at(u, w) < 1) continue;
          const std::optional<Tree> tree = replaced(trees_[a], v, u, w);
          if (!tree || cost(*tree) >= cost(trees_[a])) continue;
          residual_.change(parent, v, 1);
          residual_.change(u, w, -1);
          trees_[a] = *tree;
          any = true;
        }
      }
    }
    return any;
  }

  bool improve_pair(size_t a, size_t b) {
    const int n = static_cast<int>(trees_[a].parent.size());
    bool any = false;
    for (int v = 0; v < n; ++v)
      for (int w = goal_.undirected ? 0 : v; w < (goal_.undirected ? n : v + 1); ++w)
        any |= swap_links(a, v, b, w, true);
    return any;
  }

  // Tree a gives the link above v to tree b for the link above w, if both remain trees.
  bool swap_links(size_t a, int v, size_t b, int w, bool only_better) {
    if (v == trees_[a].root || w == trees_[b].root || budget_ <= 0) return false;
    const int above_v = trees_[a].parent[static_cast<size_t>(v)];
    const int above_w = trees_[b].parent[static_cast<size_t>(w)];
    const std::optional<Tree> first = replaced(trees_[a], v, above_w, w);
    if (!first) return false;
    const std::optional<Tree> second = replaced(trees_[b], w, above_v, v);
    if (!second) return false;
    if (only_better && cost(*first) + cost(*second) >= cost(trees_[a]) + cost(trees_[b])) return false;
    trees_[a] = *first;
    trees_[b] = *second;
    return true;
  }

  std::vector<Tree>& trees_;
  Residual& residual_;
  PackingGoal goal_;
  int least_;
  int64_t budget_ = 2'000'000;
  uint64_t state_ = 1;
};

Fraction optimum(const CapacityGraph& graph, const PackingGoal& goal) {
  return goal.undirected ? allreduce_optimum(graph).rate : broadcast_optimum(graph, goal.root).rate;
}

// No tree is shallower than this.
int least_depth(const CapacityGraph& graph, const PackingGoal& goal) {
  const std::vector<int> hops = hops_from(graph, goal.undirected ? best_roots(graph).front() : goal.root);
  return *std::max_element(hops.begin(), hops.end());
}

// `count` unit trees out of `residual`, candidates first.
std::vector<Tree> choose_trees(Residual& residual, const PackingGoal& goal, const std::vector<Tree>& candidates,
                               int64_t count) {
  std::vector<Tree> chosen;
  for (const Tree& candidate : candidates) {
    while (static_cast<int64_t>(chosen.size()) < count && residual.fits(candidate)) {
      residual.change(candidate, -1);
      if (!residual.holds(count - static_cast<int64_t>(chosen.size()) - 1)) {
        residual.change(candidate, 1);
        break;
      }
      chosen.push_back(candidate);
    }
  }
  const int64_t missing = count - static_cast<int64_t>(chosen.size());
  if (goal.undirected && missing > 0) {
    for (Tree& tree : ForestUnion(residual.capacity(), missing).trees()) {
      residual.change(tree, -1);
      chosen.push_back(std::move(tree));
    }
  } else {
    for (int64_t left = missing; left > 0; --left) chosen.push_back(grow_arborescence(residual, goal.root, left));
  }
  return chosen;
}

}  // namespace

void CapacityGraph::add(int u, int v, const Fraction& links) {
  at(u, v) += links;
  at(v, u) += links;
}

CapacityGraph CapacityGraph::reversed() const {
  CapacityGraph result(vertices());
  for (int u = 0; u < vertices(); ++u)
    for (int v = 0; v < vertices(); ++v) result.at(v, u) = at(u, v);
  return result;
}

std::vector<int> hops_from(const CapacityGraph& graph, int from) {
  std::vector<int> hops(static_cast<size_t>(graph.vertices()), -1), queue{from};
  hops[static_cast<size_t>(from)] = 0;
  for (size_t i = 0; i < queue.size(); ++i)
    for (int v = 0; v < graph.vertices(); ++v)
      if (hops[static_cast<size_t>(v)] < 0 && graph.at(queue[i], v) > Fraction(0)) {
        hops[static_cast<size_t>(v)] = hops[static_cast<size_t>(queue[i])] + 1;
        queue.push_back(v);
      }
  return hops;
}

std::vector<int> best_roots(const CapacityGraph& graph) {
  std::vector<int> best;
  int least = std::numeric_limits<int>::max();
  for (int v = 0; v < graph.vertices(); ++v) {
    const std::vector<int> hops = hops_from(graph, v);
    if (std::find(hops.begin(), hops.end(), -1) != hops.end()) continue;
    const int farthest = *std::max_element(hops.begin(), hops.end());
    if (farthest > least) continue;
    if (farthest < least) best.clear();
    least = farthest;
    best.push_back(v);
  }
  return best;
}

std::vector<int> depths(const Tree& tree) {
  const size_t n = tree.parent.size();
  std::vector<int> result(n, -1);
  result[static_cast<size_t>(tree.root)] = 0;
  std::vector<size_t> way;
  for (size_t v = 0; v < n; ++v) {
    way.clear();
    size_t w = v;
    while (result[w] < 0 && tree.parent[w] >= 0) {
      way.push_back(w);
      w = static_cast<size_t>(tree.parent[w]);
    }
    if (result[w] < 0) continue;  // not in the tree (yet)
    int d = result[w];
    for (auto x = way.rbegin(); x != way.rend(); ++x) result[*x] = ++d;
  }
  return result;
}

int depth(const Tree& tree) {
  const std::vector<int> all = depths(tree);
  return *std::max_element(all.begin(), all.end());
}

Tree rerooted(const Tree& tree, int root) {
  Tree result = tree;
  result.root = root;
  int above = -1;
  for (int v = root; v >= 0;) {
    const int next = tree.parent[static_cast<size_t>(v)];
    result.parent[static_cast<size_t>(v)] = above;
    above = v;
    v = next;
  }
  return result;
}

Tree centred(const Tree& tree) {
  // The middle of a longest path, which leads from the vertex farthest from anywhere to the one farthest from it.
  const auto farthest = [](const Tree& from) {
    const std::vector<int> all = depths(from);
    return static_cast<int>(std::max_element(all.begin(), all.end()) - all.begin());
  };
  const Tree end = rerooted(tree, farthest(tree));
  int v = farthest(end);
  const int length = depths(end)[static_cast<size_t>(v)];
  for (int i = 0; i < length / 2; ++i) v = end.parent[static_cast<size_t>(v)];
  Tree best = rerooted(tree, v);
  if (length % 2 == 1) {
    Tree other = rerooted(tree, end.parent[static_cast<size_t>(v)]);
    if (std::pair(cost(other), other.root) < std::pair(cost(best), best.root)) best = std::move(other);
  }
  return best;
}

BroadcastOptimum broadcast_optimum(const CapacityGraph& graph, int root) {
  const Scaled scaled = scale(graph);
  const Cut cut = narrowest_cut(scaled.capacity, root);
  BroadcastOptimum result{Fraction(cut.value, scaled.denominator), {}};
  for (int v = 0; v < graph.vertices(); ++v)
    if (!cut.source_side[static_cast<size_t>(v)]) result.cut.push_back(v);
  return result;
}

AllreduceOptimum allreduce_optimum(const CapacityGraph& graph) {
  const Scaled scaled = scale(symmetric(graph));
  AllreduceOptimum result;
  for (int v = 0; v < graph.vertices(); ++v) result.partition.push_back({v});
  for (;;) {
    const auto cuts = static_cast<int64_t>(result.partition.size()) - 1;
    const Fraction ratio(capacity_between(scaled.capacity, result.partition), cuts);
    result.rate = ratio / Fraction(scaled.denominator);
    Matrix multiplied = scaled.capacity;  // so that the ratio is whole
    for (auto& row : multiplied)
      for (int64_t& c : row) c *= ratio.denominator();
    Partition worse = worst_partition(multiplied, ratio.numerator());
    const auto worse_cuts = static_cast<int64_t>(worse.size()) - 1;
    if (capacity_between(multiplied, worse) >= ratio.numerator() * worse_cuts) return result;
    result.partition = std::move(worse);
  }
}

std::vector<WeightedTree> pack_multiplicative(const CapacityGraph& original, const PackingGoal& goal,
                                              const Fraction& eps) {
  const CapacityGraph graph = goal.undirected ? symmetric(original) : original;
  const int n = graph.vertices();
  const double enough = (optimum(graph, goal) * (Fraction(1) - eps)).to_double();
  if (enough <= 0) return {};
  const double step = eps.to_double() / 3;

  Lengths length(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n), no_arc));
  Lengths load(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n), 0));
  const auto each_link = [&](const Tree& tree, const auto& visit) {
    for (int v = 0; v < n; ++v) {
      const int u = tree.parent[static_cast<size_t>(v)];
      if (u < 0) continue;
      visit(u, v);
      if (goal.undirected) visit(v, u);
    }
  };
  for (int u = 0; u < n; ++u)
    for (int v = 0; v < n; ++v)
      if (u != v && graph.at(u, v) > Fraction(0))
        length[static_cast<size_t>(u)][static_cast<size_t>(v)] = 1 / graph.at(u, v).to_double();

  std::map<std::vector<int>, WeightedTree> taken;
  Fraction total(0);
  double congestion = 0;
  // The bound is far above what the analysis of the method allows; it ends the loop if arithmetic fails us.
  for (int64_t iteration = 0; iteration < 5'000'000; ++iteration) {
    Tree tree = goal.undirected ? centred(Tree{0, shortest_tree(length)})
                                : Tree{goal.root, shortest_arborescence(length, goal.root)};
    Fraction narrowest(std::numeric_limits<int64_t>::max());
    each_link(tree, [&](int u, int v) { narrowest = std::min(narrowest, graph.at(u, v)); });
    const double amount = narrowest.to_double();
    each_link(tree, [&](int u, int v) {
      const double capacity = graph.at(u, v).to_double();
      length[static_cast<size_t>(u)][static_cast<size_t>(v)] *= 1 + step * amount / capacity;
      double& l = load[static_cast<size_t>(u)][static_cast<size_t>(v)];
      l += amount;
      congestion = std::max(congestion, l / capacity);
    });
    total += narrowest;
    std::vector<int> key = tree.parent;
    auto [entry, is_new] = taken.try_emplace(std::move(key), WeightedTree{std::move(tree), Fraction(0)});
    entry->second.weight += narrowest;
    // Keep the lengths far from overflow.
    if (iteration % 4096 == 4095)
      for (auto& row : length) {
        for (double& l : row) l *= 0x1p-64;
      }
    if (total.to_double() >= enough * congestion) break;
  }

  // Scale by the exact congestion.
  CapacityGraph exact(n);
  for (const auto& [key, entry] : taken)
    each_link(entry.tree, [&](int u, int v) { exact.at(u, v) += entry.weight; });
  Fraction worst(0);
  for (int u = 0; u < n; ++u)
    for (int v = 0; v < n; ++v)
      if (exact.at(u, v) > Fraction(0)) worst = std::max(worst, exact.at(u, v) / graph.at(u, v));
  std::vector<WeightedTree> result;
  for (auto& [key, entry] : taken) result.push_back({entry.tree, entry.weight / worst});
  return result;
}

TreePacking pack_trees(const CapacityGraph& original, const PackingGoal& goal, const PackingOptions& options) {
  const CapacityGraph graph = goal.undirected ? symmetric(original) : original;
  TreePacking packing;
  auto mark = std::chrono::steady_clock::now();
  const auto stage = [&](std::string name, const Fraction& rate, size_t trees, int deep) {
    const auto now = std::chrono::steady_clock::now();
    packing.stages.push_back(
        {std::move(name), rate, static_cast<int>(trees), deep, std::chrono::duration<double>(now - mark).count()});
    mark = now;
  };

  packing.optimum = optimum(graph, goal);
  stage("optimum", packing.optimum, 0, 0);
  if (packing.optimum == Fraction(0)) return packing;

  const std::vector<WeightedTree> approximate = pack_multiplicative(graph, goal, options.eps);
  Fraction rate(0);
  std::vector<Tree> candidates;
  for (const WeightedTree& entry : approximate) {
    rate += entry.weight;
    candidates.push_back(entry.tree);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Tree& a, const Tree& b) {
    return std::pair(depth(a), cost(a)) < std::pair(depth(b), cost(b));
  });
  stage("multiplicative weights, eps " + options.eps.to_string(), rate, candidates.size(), deepest(candidates));

  int denominator = 0;
  for (int k = 1; k <= options.highest_denominator; ++k) {
    const Matrix capacity = whole_units(graph, k);
    const int64_t count = most_trees(capacity, goal);
    if (Fraction(count, k) <= packing.rate()) continue;
    Residual residual(capacity, goal);
    packing.trees = choose_trees(residual, goal, candidates, count);
    packing.denominator = denominator = k;
    const std::string unit = k == 1 ? "1 link" : "1/" + std::to_string(k) + " link";
    stage("trees of " + unit, packing.rate(), packing.trees.size(), deepest(packing.trees));
    if (packing.rate() >= packing.optimum * (Fraction(1) - options.threshold)) break;
  }
  if (denominator == 0) return packing;  // every link is thinner than the thinnest unit
  // Exchanges lead only so far from where they start, so that a second start, without the candidates, may do better.
  const int least = least_depth(graph, goal);
  Residual residual(whole_units(graph, denominator), goal);
  Residual rest = residual;
  for (const Tree& tree : packing.trees) rest.change(tree, -1);
  Shallower(packing.trees, rest, goal, least).run();
  if (deepest(packing.trees) > least) {
    std::vector<Tree> others = choose_trees(residual, goal, {}, static_cast<int64_t>(packing.trees.size()));
    Shallower(others, residual, goal, least).run();
    if (std::pair(deepest(others), total_cost(others)) < std::pair(deepest(packing.trees), total_cost(packing.trees)))
      packing.trees = std::move(others);
  }
  stage("shallower trees", packing.rate(), packing.trees.size(), deepest(packing.trees));
  return packing;
}

}  // namespace slackline
