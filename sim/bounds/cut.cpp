#include "bounds/cut.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "bounds/demand.hpp"
#include "bounds/max_flow.hpp"

namespace slackline {

namespace {

constexpr size_t exact_vertices = 400;  // as many maximum flows, or twice that
constexpr int exhaustive_ranks = 10;    // 1022 sets

// A set of ranks (with whatever switches make it cheapest) and what must leave or enter it.
struct Cut {
  Load load{0, 1};
  std::vector<int> ranks;
  bool entering = false;
  int server = -1;
};

class Cuts {
public:
  explicit Cuts(const BoundRequest& request)
      : request_(request), network_(request.network), demand_(request), ranks_(network_.ranks()) {}

  // Disjoint sets of vertices, each with the ranks in it.
  struct Groups {
    std::vector<int> of_vertex;  // -1: in none
    std::vector<std::vector<int>> ranks;
  };

  Groups by_rank() const {
    Groups groups;
    groups.of_vertex.assign(network_.vertices().size(), -1);
    for (int rank = 0; rank < ranks_; ++rank) {
      groups.of_vertex[static_cast<size_t>(rank)] = rank;
      groups.ranks.push_back({rank});
    }
    return groups;
  }

  // Servers with all that stands in them.
  Groups by_server() const {
    Groups groups;
    std::map<int, int> number;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto [entry, is_new] =
          number.emplace(network_.server_of(rank), static_cast<int>(groups.ranks.size()));
      if (is_new) groups.ranks.emplace_back();
      groups.ranks[static_cast<size_t>(entry->second)].push_back(rank);
    }
    for (const NetworkVertex& vertex : network_.vertices()) {
      const auto found = number.find(vertex.server);
      groups.of_vertex.push_back(found == number.end() ? -1 : found->second);
    }
    return groups;
  }

  Cut best_group(const Groups& groups) const {
    const auto [out, in] = around(groups);
    Cut best;
    for (size_t g = 0; g < groups.ranks.size(); ++g) {
      const Demand::Set set = demand_.set_of(groups.ranks[g]);
      consider(best, groups.ranks[g], false, demand_.leaving(set), out[g]);
      consider(best, groups.ranks[g], true, demand_.entering(set), in[g]);
    }
    return best;
  }

  // The largest over all sets, at least `start`.
  Cut best_set(const Cut& start) const {
    const CollectiveType type = request_.collective.type;
    switch (type) {
      case CollectiveType::broadcast:
        return from_root(start, false);
      case CollectiveType::reduce:
        return from_root(start, true);
      case CollectiveType::allreduce:
        return from_all(start);
      case CollectiveType::allgather:
      case CollectiveType::gather:
        return weighted(start, false);
      case CollectiveType::reduce_scatter:
      case CollectiveType::scatter:
        return weighted(start, true);
      case CollectiveType::alltoall:
        return exhaustive(start);
    }
    return start;
  }

  // Of unions of groups that begin with those of least capacity for each rank; for alltoall, where
  // several together may be worse off than each alone.
  Cut best_union(const Groups& groups, const Cut& start) const {
    const auto [out, in] = around(groups);
    std::vector<std::vector<int>> vertices(groups.ranks.size());
    for (size_t v = 0; v < groups.of_vertex.size(); ++v)
      if (groups.of_vertex[v] >= 0)
        vertices[static_cast<size_t>(groups.of_vertex[v])].push_back(static_cast<int>(v));
    Cut best = start;
    for (const std::vector<Wide>* capacity : {&out, &in}) {
      std::vector<size_t> order(groups.ranks.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return (*capacity)[a] * static_cast<Wide>(groups.ranks[b].size()) <
               (*capacity)[b] * static_cast<Wide>(groups.ranks[a].size());
      });
      std::vector<bool> inside(groups.of_vertex.size());
      Wide leaving = 0, entering = 0;
      std::vector<int> ranks;
      for (const size_t next : order) {
        for (const int v : vertices[next]) {
          // Its links from and to what is inside already no longer cross; the others begin to.
          inside[static_cast<size_t>(v)] = true;
          for (const uint32_t index : network_.out_links(v)) {
            const NetworkLink& link = network_.links()[index];
            if (!inside[static_cast<size_t>(link.to)])
              leaving += link.capacity.count();
            else if (link.to != v)
              entering -= link.capacity.count();
          }
          for (const uint32_t index : network_.in_links(v)) {
            const NetworkLink& link = network_.links()[index];
            if (!inside[static_cast<size_t>(link.from)])
              entering += link.capacity.count();
            else if (link.from != v)
              leaving -= link.capacity.count();
          }
        }
        ranks.insert(ranks.end(), groups.ranks[next].begin(), groups.ranks[next].end());
        const Demand::Set set = demand_.set_of(ranks);
        consider(best, ranks, false, demand_.leaving(set), leaving);
        consider(best, ranks, true, demand_.entering(set), entering);
      }
    }
    std::sort(best.ranks.begin(), best.ranks.end());
    return best;
  }

  void add(std::vector<Bound>& bounds, const std::string& name, Cut cut) const {
    if (cut.load.bytes == 0) return;
    if (static_cast<int>(cut.ranks.size()) * 2 > ranks_) {  // name the smaller side
      cut.ranks = complement(cut.ranks);
      cut.entering = !cut.entering;
      cut.server = -1;
    }
    const std::string who =
        cut.server >= 0 ? "server " + std::to_string(cut.server) : name_ranks(network_, cut.ranks);
    const std::string it = cut.ranks.size() > 1 && cut.server < 0 ? " them" : " it";
    const std::string certificate = "limited by " + who + ": " +
                                    show(Bytes(static_cast<int64_t>(cut.load.bytes))) + " must " +
                                    (cut.entering ? "enter" : "leave") + it + " through " +
                                    show(Bandwidth(static_cast<int64_t>(cut.load.capacity)));
    bounds.push_back(
        load_bound(request_, name, cut.load, {cut.ranks}, certificate,
                   "minimum cut (Ford and Fulkerson 1956; for broadcast Edmonds 1973)"));
  }

private:
  std::vector<int> complement(const std::vector<int>& ranks) const {
    std::vector<bool> inside(static_cast<size_t>(ranks_));
    for (const int rank : ranks) inside[static_cast<size_t>(rank)] = true;
    std::vector<int> rest;
    for (int rank = 0; rank < ranks_; ++rank)
      if (!inside[static_cast<size_t>(rank)]) rest.push_back(rank);
    return rest;
  }

  bool consider(Cut& best, const std::vector<int>& ranks, bool entering, Wide bytes,
                Wide capacity) const {
    if (bytes == 0) return false;
    if (capacity == 0) fail_unreachable(request_, ranks);
    const Load load{bytes, capacity};
    if (!(load > best.load)) return false;
    best = {load, ranks, entering, -1};
    return true;
  }

  // What leaves and enters each group.
  std::pair<std::vector<Wide>, std::vector<Wide>> around(const Groups& groups) const {
    std::vector<Wide> out(groups.ranks.size()), in(groups.ranks.size());
    for (const NetworkLink& link : network_.links()) {
      const int from = groups.of_vertex[static_cast<size_t>(link.from)];
      const int to = groups.of_vertex[static_cast<size_t>(link.to)];
      if (from == to) continue;
      if (from >= 0) out[static_cast<size_t>(from)] += link.capacity.count();
      if (to >= 0) in[static_cast<size_t>(to)] += link.capacity.count();
    }
    return {std::move(out), std::move(in)};
  }

  // The links as arcs, turned around if `reversed`, and two more vertices for those who need a
  // source and sink.
  MinCut arcs(bool reversed) const {
    MinCut cut(static_cast<int>(network_.vertices().size()) + 2);
    for (const NetworkLink& link : network_.links())
      reversed ? cut.add_arc(link.to, link.from, link.capacity.count())
               : cut.add_arc(link.from, link.to, link.capacity.count());
    return cut;
  }
  int source() const { return static_cast<int>(network_.vertices().size()); }
  int sink() const { return source() + 1; }

  std::vector<int> ranks_of(const std::vector<bool>& side) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < ranks_; ++rank)
      if (side[static_cast<size_t>(rank)]) ranks.push_back(rank);
    return ranks;
  }

  // In the reversed network what leaves a set is what enters it.
  void flows_from(Cut& best, MinCut& cut, int from, const std::vector<int>& to,
                  bool reversed) const {
    for (const int rank : to) {
      const Wide capacity = cut.solve(from, rank);
      const Load load{request_.size.count(), capacity};
      if (capacity > 0 && !(load > best.load)) continue;
      consider(best, ranks_of(cut.source_side()), reversed, load.bytes, capacity);
    }
  }

  Cut from_root(Cut best, bool reversed) const {
    MinCut cut = arcs(reversed);
    const int root = request_.collective.root;
    flows_from(best, cut, root, complement({root}), reversed);
    return best;
  }

  Cut from_all(Cut best) const {
    MinCut cut = arcs(false);
    const std::vector<int> others = complement({0});
    flows_from(best, cut, 0, others, false);
    for (const int rank : others) flows_from(best, cut, rank, {0}, false);
    return best;
  }

  // Most w(S) / (capacity leaving S) over S that miss a rank t; w adds up parts. For a ratio a/b
  // that S beats b w(S) - a cap(S) > 0, which a minimum cut with b w(q) from a source to every q
  // and the sink t finds (Dinkelbach's iteration). Where parts must enter, in the reversed network.
  Cut weighted(Cut best, bool reversed) const {
    const size_t links = network_.links().size();
    MinCut cut = arcs(reversed);
    std::vector<size_t> supply;
    for (int rank = 0; rank < ranks_; ++rank) supply.push_back(cut.add_arc(source(), rank));
    std::vector<int> missing;
    if (has_root(request_.collective.type)) {
      missing.push_back(request_.collective.root);
    } else {
      for (int rank = 0; rank < ranks_; ++rank) missing.push_back(rank);
    }
    bool scaled = false;
    for (const int t : missing) {
      while (true) {
        if (!scaled) {
          const Wide divisor = std::gcd(static_cast<int64_t>(best.load.bytes),
                                        static_cast<int64_t>(best.load.capacity));
          const Wide a = best.load.bytes / divisor, b = best.load.capacity / divisor;
          for (size_t i = 0; i < links; ++i)
            cut.set_capacity(i, a * network_.links()[i].capacity.count());
          for (int rank = 0; rank < ranks_; ++rank)
            cut.set_capacity(supply[static_cast<size_t>(rank)], b * demand_.part(rank));
          scaled = true;
        }
        cut.solve(source(), t);
        const std::vector<bool> side = cut.source_side();
        Wide capacity = 0;
        for (const NetworkLink& link : network_.links()) {
          const bool from = side[static_cast<size_t>(link.from)],
                     to = side[static_cast<size_t>(link.to)];
          if (reversed ? to && !from : from && !to) capacity += link.capacity.count();
        }
        const std::vector<int> ranks = ranks_of(side);
        if (!consider(best, ranks, reversed, demand_.set_of(ranks).parts, capacity)) break;
        scaled = false;
      }
    }
    return best;
  }

  Cut exhaustive(Cut best) const {
    if (ranks_ > exhaustive_ranks) return best;
    MinCut cut = arcs(false);
    Wide infinite = 1;
    for (const NetworkLink& link : network_.links()) infinite += link.capacity.count();
    std::vector<size_t> supply, drain;
    for (int rank = 0; rank < ranks_; ++rank) {
      supply.push_back(cut.add_arc(source(), rank));
      drain.push_back(cut.add_arc(rank, sink()));
    }
    for (uint32_t mask = 1; mask + 1 < uint32_t{1} << ranks_; ++mask) {
      std::vector<int> ranks;
      for (int rank = 0; rank < ranks_; ++rank) {
        const bool inside = mask >> rank & 1;
        if (inside) ranks.push_back(rank);
        cut.set_capacity(supply[static_cast<size_t>(rank)], inside ? infinite : 0);
        cut.set_capacity(drain[static_cast<size_t>(rank)], inside ? 0 : infinite);
      }
      consider(best, ranks, false, demand_.leaving(demand_.set_of(ranks)),
               cut.solve(source(), sink()));
    }
    return best;
  }

  const BoundRequest& request_;
  const Network& network_;
  Demand demand_;
  int ranks_;
};

// Every link leads from a rank to the one switch or from it to a rank. Then the rank cuts are the
// best of all: what leaves a set passes its ranks' links out or the others' links in, and the load
// of either is an average of single ranks' loads. (Not for alltoall.)
bool is_star(const Network& network) {
  if (network.vertices().size() != static_cast<size_t>(network.ranks()) + 1) return false;
  return std::all_of(network.links().begin(), network.links().end(), [&](const NetworkLink& link) {
    return (link.from == network.ranks()) != (link.to == network.ranks());
  });
}

}  // namespace

void add_cuts(const BoundRequest& request, std::vector<Bound>& bounds) {
  const Network& network = request.network;
  const Cuts cuts(request);
  Cut best = cuts.best_group(cuts.by_rank());
  cuts.add(bounds, "rank cut", best);
  const bool several_servers = network.servers() > 1 && network.servers() < network.ranks();
  if (several_servers) {
    Cut server = cuts.best_group(cuts.by_server());
    if (!server.ranks.empty()) server.server = network.server_of(server.ranks[0]);
    cuts.add(bounds, "server cut", server);
    if (server.load > best.load) best = server;
  }

  const Load simple = best.load;
  const bool alltoall = request.collective.type == CollectiveType::alltoall;
  const bool exact = network.vertices().size() <= exact_vertices &&
                     (alltoall ? network.ranks() <= exhaustive_ranks : !is_star(network));
  if (alltoall) best = cuts.best_union(cuts.by_rank(), best);
  if (alltoall && several_servers) best = cuts.best_union(cuts.by_server(), best);
  if (exact) best = cuts.best_set(best);
  if (exact || best.load > simple) cuts.add(bounds, "set cut", best);
}

}  // namespace slackline
