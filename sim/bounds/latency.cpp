#include "bounds/latency.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <limits>
#include <set>

#include "bounds/demand.hpp"

namespace slackline {

namespace {

struct Arc {
  int64_t weight;  // ps
};
using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;

Graph latency_graph(const Network& network, bool reversed) {
  Graph graph(network.vertices().size());
  for (const NetworkLink& link : network.links()) {
    if (link.capacity.count() <= 0) continue;
    const bool sends = link.from < network.ranks();
    const Arc arc{link.latency.count() + (sends ? network.message_overhead().count() : 0)};
    const auto from = static_cast<size_t>(link.from), to = static_cast<size_t>(link.to);
    reversed ? boost::add_edge(to, from, arc, graph) : boost::add_edge(from, to, arc, graph);
  }
  return graph;
}

std::vector<int64_t> distances(const Graph& graph, int start) {
  std::vector<int64_t> distance(boost::num_vertices(graph));
  boost::dijkstra_shortest_paths(graph, static_cast<size_t>(start),
                                 boost::weight_map(boost::get(&Arc::weight, graph))
                                     .distance_map(boost::make_iterator_property_map(
                                         distance.begin(), boost::get(boost::vertex_index, graph)))
                                     .distance_inf(std::numeric_limits<int64_t>::max()));
  return distance;
}

// Above so many steps of all searches together only some ranks are started from.
constexpr size_t all_pairs_limit = 2'000'000;

}  // namespace

void add_latency(const BoundRequest& request, std::vector<Bound>& bounds) {
  const Network& network = request.network;
  const int ranks = network.ranks();
  const Demand demand(request);
  const Graph forward = latency_graph(network, false), backward = latency_graph(network, true);

  int64_t longest = -1;
  int from = 0, to = 0;
  // Looks at all pairs that start (or, backward, end) at `rank`; returns the rank farthest away, or
  // -1.
  const auto look = [&](int rank, bool is_backward) {
    const std::vector<int64_t> distance = distances(is_backward ? backward : forward, rank);
    int farthest = -1;
    for (int other = 0; other < ranks; ++other) {
      const int source = is_backward ? other : rank, sink = is_backward ? rank : other;
      if (!demand.must_reach(source, sink)) continue;
      const int64_t d = distance[static_cast<size_t>(other)];
      if (d == std::numeric_limits<int64_t>::max()) fail_unreachable(request, {rank});
      if (farthest < 0 || d > distance[static_cast<size_t>(farthest)]) farthest = other;
      if (d > longest) {
        longest = d;
        from = source;
        to = sink;
      }
    }
    return farthest;
  };

  const CollectiveType type = request.collective.type;
  if (has_root(type)) {
    look(request.collective.root, type == CollectiveType::reduce || type == CollectiveType::gather);
  } else if (static_cast<size_t>(ranks) * network.links().size() <= all_pairs_limit) {
    for (int rank = 0; rank < ranks; ++rank) look(rank, false);
  } else {
    // From any rank to the one farthest away, from where it is farthest, and so on until nothing
    // changes.
    std::set<std::pair<int, bool>> seen;
    for (int start : {0, ranks - 1}) {
      bool is_backward = false;
      while (start >= 0 && seen.insert({start, is_backward}).second) {
        start = look(start, is_backward);
        is_backward = !is_backward;
      }
    }
  }

  Bound bound;
  bound.name = "latency";
  bound.source = "LogGP (Alexandrov et al., SPAA 1995) along a shortest path";
  if (longest < 0) {
    bound.certificate = "no rank needs anything of another";
  } else {
    bound.time = Duration(longest);
    bound.parts = {{from}, {to}};
    bound.certificate = "limited by the way from " + name_ranks(network, {from}) + " to " +
                        name_ranks(network, {to}) + ": latencies and message overhead add up to " +
                        to_string(bound.time);
  }
  bounds.push_back(std::move(bound));
}

}  // namespace slackline
