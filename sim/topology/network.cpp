#include "topology/network.hpp"

#include <algorithm>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <map>

#include "base/error.hpp"

namespace slackline {

namespace {

// Cost of a link in the choice of routes; see Network::route.
int route_cost(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return 1;
    case LinkKind::pcie: return 16;
    case LinkKind::network: return 256;
  }
  return 1;
}

}  // namespace

Network::Network(std::vector<NetworkVertex> vertices, int ranks, std::vector<NetworkLink> links,
                 Duration message_overhead)
    : vertices_(std::move(vertices)),
      ranks_(ranks),
      links_(std::move(links)),
      message_overhead_(message_overhead),
      slowdowns_(static_cast<size_t>(ranks), Fraction(1)),
      out_(vertices_.size()),
      in_(vertices_.size()),
      reduction_links_(static_cast<size_t>(ranks), -1) {
  for (uint32_t i = 0; i < links_.size(); ++i) {
    if (links_[i].from == links_[i].to) {
      reduction_links_[static_cast<size_t>(links_[i].from)] = static_cast<int>(i);
      continue;
    }
    out_[static_cast<size_t>(links_[i].from)].push_back(i);
    in_[static_cast<size_t>(links_[i].to)].push_back(i);
  }
  std::map<int, int> count;
  for (int rank = 0; rank < ranks_; ++rank) ++count[server_of(rank)];
  servers_ = static_cast<int>(count.size());
  ranks_per_server_ = count.empty() ? 0 : count.begin()->second;
  for (const auto& [server, members] : count)
    if (members != ranks_per_server_) ranks_per_server_ = 0;
}

Network Network::clone() const {
  Network copy(vertices_, ranks_, links_, message_overhead_);
  copy.slowdowns_ = slowdowns_;
  copy.router_ = router_;
  return copy;
}

std::vector<int> Network::stragglers() const {
  std::vector<int> result;
  for (int rank = 0; rank < ranks_; ++rank)
    if (slowdown(rank) > Fraction(1)) result.push_back(rank);
  return result;
}

const Route& Network::route(int from, int to) const {
  if (const Route* found = find_route(from, to)) return *found;
  throw Error(ErrorKind::input, "there is no path from rank " + std::to_string(from) + " (" +
                                    vertices_[static_cast<size_t>(from)].name + ") to rank " +
                                    std::to_string(to) + " (" + vertices_[static_cast<size_t>(to)].name + ")");
}

const Route* Network::find_route(int from, int to) const {
  const uint64_t key = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  if (const auto found = routes_.find(key); found != routes_.end()) return found->second.get();

  // A star's routes, by far the most common, need no search: out to a switch and in from it.
  std::unique_ptr<Route> result;
  const auto add = [&](Route& route, uint32_t link) {
    route.links.push_back(link);
    route.latency += links_[link].latency;
  };
  struct Arc {
    uint32_t link;
    int cost;
  };
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  // One graph for all sources would need a filter that forbids passing through ranks; leaving out the
  // out-links of the other ranks does the same.
  std::vector<uint32_t> via(vertices_.size(), UINT32_MAX);
  std::vector<int> distance(vertices_.size(), INT32_MAX);
  if (router_ && from != to && server_of(from) != server_of(to)) {
    if (std::optional<Route> found = router_->route(*this, from, to)) result = std::make_unique<Route>(std::move(*found));
  } else if (servers_ == ranks_ && out_links(from).size() == 1 && in_links(to).size() == 1 &&
      links_[out_links(from)[0]].to == links_[in_links(to)[0]].from) {
    result = std::make_unique<Route>();  // of a rank to itself: no link
    if (from != to) add(*result, out_links(from)[0]);
    if (from != to) add(*result, in_links(to)[0]);
  } else {
    Graph graph(vertices_.size());
    for (uint32_t i = 0; i < links_.size(); ++i) {
      const NetworkLink& link = links_[i];
      const bool relays = link.from >= ranks_ && vertices_[static_cast<size_t>(link.from)].relays;
      if (link.capacity.count() > 0 && link.from != link.to && (relays || link.from == from))
        boost::add_edge(static_cast<size_t>(link.from), static_cast<size_t>(link.to),
                        Arc{i, route_cost(link.kind)}, graph);
    }
    std::vector<size_t> previous(vertices_.size());
    boost::dijkstra_shortest_paths(
        graph, static_cast<size_t>(from),
        boost::weight_map(boost::get(&Arc::cost, graph))
            .predecessor_map(boost::make_iterator_property_map(previous.begin(), boost::get(boost::vertex_index, graph)))
            .distance_map(boost::make_iterator_property_map(distance.begin(), boost::get(boost::vertex_index, graph))));
    if (distance[static_cast<size_t>(to)] != INT32_MAX) {
      result = std::make_unique<Route>();
      std::vector<uint32_t> reversed;
      for (size_t v = static_cast<size_t>(to); v != static_cast<size_t>(from); v = previous[v]) {
        // Of parallel links the widest, then the first.
        uint32_t best = UINT32_MAX;
        for (const uint32_t link : in_[v])
          if (static_cast<size_t>(links_[link].from) == previous[v] && links_[link].capacity.count() > 0 &&
              distance[previous[v]] + route_cost(links_[link].kind) == distance[v] &&
              (best == UINT32_MAX || links_[link].capacity > links_[best].capacity))
            best = link;
        reversed.push_back(best);
      }
      for (auto link = reversed.rbegin(); link != reversed.rend(); ++link) add(*result, *link);
    }
  }
  return routes_.emplace(key, std::move(result)).first->second.get();
}

std::vector<std::vector<int>> chosen_gpus(const Topology& topology, const RankSelection& selection) {
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorKind::input, message, selection.where);
  };
  const size_t servers = topology.servers.size();
  std::vector<std::vector<int>> result(servers);
  size_t ranks = 0;
  if (selection.gpus.size() > 1 && selection.gpus.size() != servers)
    fail("lists GPUs for " + std::to_string(selection.gpus.size()) + " servers, but the topology has " +
         std::to_string(servers));
  for (size_t s = 0; s < servers; ++s) {
    const TopologyServer& server = topology.servers[s];
    std::vector<int> chosen;
    if (!selection.gpus.empty()) {
      chosen = selection.gpus.size() == 1 ? selection.gpus[0] : selection.gpus[s];
    } else {
      const int count = selection.gpus_per_server ? selection.gpus_per_server : static_cast<int>(server.gpus.size());
      for (int i = 0; i < count; ++i) chosen.push_back(i);
    }
    for (const int gpu : chosen) {
      if (gpu < 0 || static_cast<size_t>(gpu) >= server.gpus.size())
        fail("server " + std::to_string(s) + " has no GPU " + std::to_string(gpu) + "; it has GPUs 0 to " +
             std::to_string(static_cast<int>(server.gpus.size()) - 1));
      if (std::find(result[s].begin(), result[s].end(), gpu) != result[s].end())
        fail("GPU " + std::to_string(gpu) + " of server " + std::to_string(s) + " is listed twice");
      result[s].push_back(gpu);
    }
    ranks += result[s].size();
  }
  if (ranks < 2) fail("a collective needs at least 2 ranks, and " + std::to_string(ranks) + " is chosen");
  return result;
}

Network build_network(const Topology& topology, const RankSelection& selection) {
  const TopologyGraph& graph = topology.graph;
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorKind::input, message, selection.where);
  };

  // The ranks.
  std::vector<NetworkVertex> vertices;
  std::vector<int> vertex_of(boost::num_vertices(graph), -1);
  const size_t servers = topology.servers.size();
  std::vector<std::vector<int>> ranks_of(servers);
  const std::vector<std::vector<int>> chosen = chosen_gpus(topology, selection);
  std::vector<NetworkLink> reductions;
  for (size_t s = 0; s < servers; ++s) {
    for (const int gpu : chosen[s]) {
      const TopologyVertexId id = topology.servers[s].gpus[static_cast<size_t>(gpu)];
      const int rank = static_cast<int>(vertices.size());
      vertex_of[id] = rank;
      ranks_of[s].push_back(rank);
      vertices.push_back({graph[id].name, static_cast<int>(s)});
      if (graph[id].reduction)
        reductions.push_back({"reductions of " + graph[id].name, rank, rank, *graph[id].reduction, Duration(0), LinkKind::pcie});
    }
  }
  const int ranks = static_cast<int>(vertices.size());
  const size_t servers_used = static_cast<size_t>(
      std::count_if(ranks_of.begin(), ranks_of.end(), [](const auto& members) { return !members.empty(); }));

  // Links inside servers.
  const auto inside = [&](TopologyVertexId v) {
    const TopologyVertex& vertex = graph[v];
    if (vertex.server < 0 || ranks_of[static_cast<size_t>(vertex.server)].size() < 2) return false;
    return vertex.kind != VertexKind::nic && (vertex.kind != VertexKind::gpu || vertex_of[v] >= 0);
  };
  std::vector<NetworkLink> links;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const TopologyLink& link = graph[*edge];
    if (link.kind == LinkKind::network || link.health <= Fraction(0)) continue;
    const TopologyVertexId from = boost::source(*edge, graph), to = boost::target(*edge, graph);
    if (!inside(from) || !inside(to)) continue;
    for (const TopologyVertexId v : {from, to}) {
      if (vertex_of[v] >= 0) continue;
      vertex_of[v] = static_cast<int>(vertices.size());
      vertices.push_back({graph[v].name, graph[v].server});
    }
    const Fraction capacity = Fraction(link.bandwidth.count()) * link.health;
    // Dead links of a bundle count no more; a bundle that is slowed down keeps its number.
    const Fraction living = Fraction(link.count) * link.health;
    links.push_back({std::string(to_string(link.kind)) + " " + graph[from].name + " -> " + graph[to].name,
                     vertex_of[from], vertex_of[to],
                     Bandwidth(capacity.numerator() / capacity.denominator()), link.latency, link.kind,
                     living.denominator() == 1 ? static_cast<int>(living.numerator()) : link.count});
  }

  // Each rank's share of its server's NICs.
  std::vector<Fraction> slowdowns(static_cast<size_t>(ranks), Fraction(1));
  if (servers_used > 1) {
    const int fabric = static_cast<int>(vertices.size());
    vertices.push_back({"fabric", -1});
    std::vector<Fraction> share(servers);
    Fraction largest(0);
    for (size_t s = 0; s < servers; ++s) {
      if (ranks_of[s].empty()) continue;
      Fraction total(0);
      Duration latency;
      for (const TopologyVertexId nic : topology.servers[s].nics) {
        for (auto [edge, end] = boost::out_edges(nic, graph); edge != end; ++edge) {
          const TopologyLink& link = graph[*edge];
          if (link.kind != LinkKind::network || link.health <= Fraction(0)) continue;
          total += Fraction(link.bandwidth.count()) * link.health;
          latency = std::max(latency, link.latency);
        }
      }
      if (total == Fraction(0))
        fail("server " + std::to_string(s) + " has no living NIC and so no path to the other servers");
      share[s] = total / Fraction(static_cast<int64_t>(topology.servers[s].gpus.size()));
      largest = std::max(largest, share[s]);
      const Bandwidth capacity(share[s].numerator() / share[s].denominator());
      for (const int rank : ranks_of[s]) {
        const std::string name = "NIC share of " + vertices[static_cast<size_t>(rank)].name;
        links.push_back({name + " (transmit)", rank, fabric, capacity, latency, LinkKind::network});
        links.push_back({name + " (receive)", fabric, rank, capacity, Duration(0), LinkKind::network});
      }
    }
    for (size_t s = 0; s < servers; ++s)
      for (const int rank : ranks_of[s]) slowdowns[static_cast<size_t>(rank)] = largest / share[s];
  }
  links.insert(links.end(), reductions.begin(), reductions.end());
  for (const NetworkLink& link : links)
    if (link.capacity.count() <= 0) fail(link.name + " is left with less than 1 b/s");

  Network network(std::move(vertices), ranks, std::move(links), topology.message_overhead);
  network.set_slowdowns(std::move(slowdowns));
  return network;
}

}  // namespace slackline
