#include "topology/fabric_network.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace slackline {

namespace {

constexpr int64_t unlimited = int64_t{1} << 61;  // b/s

uint64_t mix(uint64_t x) {  // the finalizer of SplitMix64 (Steele, Lea, Flood 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

struct ServerParts {
  std::vector<int> gpus, nics;             // vertices of the network
  std::vector<std::vector<int>> own_nics;  // by GPU, as positions in `nics`
  std::vector<int> owner;                  // of each NIC, as a position in `gpus`
};

// Links that a route collects, with the part of its rate on each.
class Collected {
 public:
  void add(uint32_t link, uint64_t part) {
    const auto [place, is_new] = position_.try_emplace(link, links_.size());
    if (is_new) {
      links_.push_back(link);
      parts_.push_back(0);
    }
    parts_[place->second] += part;
  }
  Route finish(Duration latency) {
    Route route{std::move(links_), {}, latency};
    if (std::any_of(parts_.begin(), parts_.end(), [](uint64_t part) { return part != Route::whole; }))
      for (const uint64_t part : parts_) route.weights.push_back(static_cast<uint32_t>(std::clamp<uint64_t>(part, 1, Route::whole)));
    return route;
  }

 private:
  std::vector<uint32_t> links_;
  std::vector<uint64_t> parts_;
  std::map<uint32_t, size_t> position_;
};

class FabricRouter : public Router {
 public:
  FabricRouter(const FabricOptions& options, std::vector<VertexKind> kinds, std::vector<ServerParts> servers,
               std::vector<int> position)
      : options_(options), kinds_(std::move(kinds)), servers_(std::move(servers)), position_(std::move(position)) {}

  std::optional<Route> route(const Network& network, int from, int to) const override {
    const ServerParts& source = servers_[static_cast<size_t>(network.server_of(from))];
    const ServerParts& target = servers_[static_cast<size_t>(network.server_of(to))];
    std::vector<NicPair> pairs = nic_pairs(network, source, from, target, to);
    // What has no way between two NICs goes by those that have.
    std::erase_if(pairs, [&](const NicPair& p) {
      Collected unused;
      Duration ignored;
      return !between(network, source.nics[static_cast<size_t>(p.source)], target.nics[static_cast<size_t>(p.target)], from, to, p.part, unused, ignored);
    });
    if (pairs.empty()) return std::nullopt;
    uint64_t sum = 0, given = 0;
    for (const NicPair& p : pairs) sum += p.part;
    for (NicPair& p : pairs) given += p.part = p.part * Route::whole / sum;
    pairs.front().part += Route::whole - given;
    Collected collected;
    Duration latency;
    for (const auto& [x, y, part] : pairs) {
      Duration sum;
      if (!inside(network, source, from, x, true, part, collected, sum)) return std::nullopt;
      if (!between(network, source.nics[static_cast<size_t>(x)], target.nics[static_cast<size_t>(y)], from, to, part, collected, sum))
        return std::nullopt;
      if (!inside(network, target, to, y, false, part, collected, sum)) return std::nullopt;
      latency = std::max(latency, sum);
    }
    return collected.finish(latency);
  }

 private:
  static bool alive(const NetworkLink& link) { return link.capacity.count() > 0; }
  bool is_switch(int vertex) const { return kinds_[static_cast<size_t>(vertex)] == VertexKind::net_switch; }

  // A NIC of a server, by position, and the part of a transfer that it takes.
  struct NicPart {
    int nic;
    uint64_t part;
  };
  struct NicPair {
    int source, target;
    uint64_t part;
  };

  // What is left of a NIC's way to the network, both directions considered.
  static int64_t width(const Network& network, int nic) {
    const auto sum = [&](std::span<const uint32_t> links) {
      int64_t total = 0;
      for (const uint32_t l : links)
        if (network.links()[l].kind == LinkKind::network) total += network.links()[l].capacity.count();
      return total;
    };
    return std::min(sum(network.out_links(nic)), sum(network.in_links(nic)));
  }
  static bool living(const Network& network, int nic) { return width(network, nic) > 0; }

  // The NICs that a GPU uses, and how much of each: its own, as far as they make up its share of the server's bandwidth.
  // What is missing is taken from those that have more than their GPUs' shares, so that all GPUs of the server are
  // equally well off.
  std::vector<NicPart> nics_of(const Network& network, const ServerParts& server, int gpu) const {
    const size_t nics = server.nics.size(), gpus = server.gpus.size();
    std::vector<int64_t> widths(nics);
    int64_t total = 0;
    for (size_t n = 0; n < nics; ++n) total += widths[n] = width(network, server.nics[n]);
    if (total == 0) return {};
    std::vector<__int128> wanted(nics, 0);  // of each NIC, times total
    if (options_.stripe) {
      for (size_t n = 0; n < nics; ++n) wanted[n] = widths[n];
    } else {
      // Each NIC's width is divided among its owners; a GPU's share is total / gpus.
      std::vector<int64_t> owners(nics, 0);
      for (const std::vector<int>& own : server.own_nics)
        for (const int n : own) ++owners[static_cast<size_t>(n)];
      const auto of_gpu = [&](size_t g) {
        int64_t has = 0;
        for (const int n : server.own_nics[g]) has += widths[static_cast<size_t>(n)] / owners[static_cast<size_t>(n)];
        return has;
      };
      const auto me = static_cast<size_t>(position_[static_cast<size_t>(gpu)]);
      const __int128 mine = of_gpu(me), share = total / static_cast<int64_t>(gpus);
      for (const int n : server.own_nics[me])
        if (mine > 0) wanted[static_cast<size_t>(n)] = std::min(mine, share) * (widths[static_cast<size_t>(n)] / owners[static_cast<size_t>(n)]) / mine;
      if (mine < share) {
        std::vector<__int128> surplus(nics, 0);
        __int128 all = 0;
        for (size_t n = 0; n < nics; ++n) {
          __int128 used = 0;  // by its owners
          for (size_t g = 0; g < gpus; ++g)
            if (const __int128 has = of_gpu(g); has > 0 && std::find(server.own_nics[g].begin(), server.own_nics[g].end(), static_cast<int>(n)) != server.own_nics[g].end())
              used += std::min(has, share) * (widths[n] / owners[n]) / has;
          all += surplus[n] = std::max<__int128>(widths[n] - used, 0);
        }
        for (size_t n = 0; n < nics && all > 0; ++n) wanted[n] += (share - mine) * surplus[n] / all;
      }
    }
    __int128 sum = 0;
    for (const __int128 w : wanted) sum += w;
    std::vector<NicPart> result;
    uint64_t left = Route::whole;
    for (size_t n = 0; n < nics; ++n) {
      const auto part = static_cast<uint64_t>(wanted[n] * Route::whole / sum);
      // Less than a millionth comes from rounding.
      if (part > 5) result.push_back({static_cast<int>(n), part});
    }
    for (const NicPart& entry : result) left -= entry.part;
    const auto largest = std::max_element(result.begin(), result.end(), [](const NicPart& a, const NicPart& b) { return a.part < b.part; });
    largest->part += left;
    return result;
  }

  // Whether a switch stands between the two NICs, dead or alive.
  static bool linked(const Network& network, int a, int b) {
    for (const uint32_t up : network.out_links(a))
      for (const uint32_t down : network.in_links(b))
        if (network.links()[up].kind == LinkKind::network && network.links()[down].kind == LinkKind::network &&
            network.links()[up].to == network.links()[down].from)
          return true;
    return false;
  }

  // Whether a switch links the two NICs directly.
  bool meet(const Network& network, int a, int b) const {
    for (const uint32_t up : network.out_links(a)) {
      const NetworkLink& link = network.links()[up];
      if (link.kind != LinkKind::network || !alive(link)) continue;
      if (link.to == b) return true;
      for (const uint32_t down : network.in_links(b))
        if (network.links()[down].from == link.to && network.links()[down].kind == LinkKind::network && alive(network.links()[down]))
          return true;
    }
    return false;
  }

  std::vector<NicPair> nic_pairs(const Network& network, const ServerParts& source, int from, const ServerParts& target, int to) const {
    std::vector<NicPart> x = nics_of(network, source, from), y = nics_of(network, target, to);
    if (x.empty() || y.empty()) return {};
    const auto vertex = [](const ServerParts& server, int nic) { return server.nics[static_cast<size_t>(nic)]; };
    std::vector<NicPair> pairs;
    const auto pair = [&](NicPart& a, NicPart& b) {
      const uint64_t part = std::min(a.part, b.part);
      if (part == 0) return;
      pairs.push_back({a.nic, b.nic, part});
      a.part -= part;
      b.part -= part;
    };
    // First what meets without a detour, NICs of the same rail before others, then the rest in order.
    for (NicPart& a : x)
      for (NicPart& b : y)
        if (a.nic == b.nic && meet(network, vertex(source, a.nic), vertex(target, b.nic))) pair(a, b);
    for (NicPart& a : x)
      for (NicPart& b : y)
        if (meet(network, vertex(source, a.nic), vertex(target, b.nic))) pair(a, b);
    const size_t direct = pairs.size();
    for (NicPart& a : x)
      for (NicPart& b : y) pair(a, b);
    if (!options_.pxn) return pairs;
    // The living NIC of the target that meets a NIC of the source, or -1.
    const auto receiver = [&](int nic) {
      for (int other = 0; other < static_cast<int>(target.nics.size()); ++other)
        if (living(network, vertex(target, other)) && meet(network, vertex(source, nic), vertex(target, other))) return other;
      return -1;
    };
    std::vector<NicPair> result(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(direct));
    for (size_t i = direct; i < pairs.size(); ++i) {
      const NicPair& p = pairs[i];
      // Over NVLink to the GPU on the target's rail, which sends as it sends its own: if its NIC is slow or dead, by others too.
      int mate = -1;
      for (int nic = 0; nic < static_cast<int>(source.nics.size()) && mate < 0; ++nic)
        if (linked(network, vertex(source, nic), vertex(target, p.target))) mate = nic;
      // What its own GPU has spread over other NICs already stays there, and the target follows.
      const bool own = mate >= 0 && source.gpus[static_cast<size_t>(source.owner[static_cast<size_t>(mate)])] == from;
      if (mate < 0 || own) {
        const int other = receiver(p.source);
        result.push_back({p.source, other >= 0 ? other : p.target, p.part});
        continue;
      }
      uint64_t left = p.part;
      std::vector<NicPart> ways = nics_of(network, source, source.gpus[static_cast<size_t>(source.owner[static_cast<size_t>(mate)])]);
      for (size_t w = 0; w < ways.size(); ++w) {
        const uint64_t mine = w + 1 == ways.size() ? left : ways[w].part * p.part / Route::whole;
        left -= mine;
        if (mine == 0) continue;
        const int direct_to = meet(network, vertex(source, ways[w].nic), vertex(target, p.target)) ? p.target : receiver(ways[w].nic);
        result.push_back({ways[w].nic, direct_to >= 0 ? direct_to : p.target, mine});
      }
    }
    return result;
  }

  // Links from `from` to `to` over the fewest links of the kinds allowed, none of whose inner vertices is a GPU or NIC.
  static std::optional<std::vector<uint32_t>> search(const Network& network, const std::vector<VertexKind>& kinds, int from, int to,
                                                     bool nvlink, bool pcie) {
    if (from == to) return std::vector<uint32_t>();
    std::map<int, uint32_t> via;
    std::deque<int> queue = {from};
    while (!queue.empty() && !via.contains(to)) {
      const int here = queue.front();
      queue.pop_front();
      const VertexKind kind = kinds[static_cast<size_t>(here)];
      if (here != from && (kind == VertexKind::gpu || kind == VertexKind::nic)) continue;
      for (const uint32_t index : network.out_links(here)) {
        const NetworkLink& link = network.links()[index];
        if (!alive(link) || link.to == from || !((link.kind == LinkKind::nvlink && nvlink) || (link.kind == LinkKind::pcie && pcie))) continue;
        if (const auto found = via.find(link.to); found == via.end()) {
          via.emplace(link.to, index);
          queue.push_back(link.to);
        } else if (network.links()[found->second].from == here && network.links()[found->second].capacity < link.capacity) {
          found->second = index;  // of parallel links the widest
        }
      }
    }
    if (!via.contains(to)) return std::nullopt;
    std::vector<uint32_t> path;
    for (int v = to; v != from; v = network.links()[via.at(v)].from) path.push_back(via.at(v));
    std::reverse(path.begin(), path.end());
    return path;
  }

  // Between a GPU and a NIC of its server. False where there is no way.
  bool inside(const Network& network, const ServerParts& server, int gpu, int nic, bool outward, uint64_t part, Collected& collected,
              Duration& latency) const {
    const int nic_vertex = server.nics[static_cast<size_t>(nic)];
    const std::vector<int>& own = server.own_nics[static_cast<size_t>(position_[static_cast<size_t>(gpu)])];
    const int owner = server.gpus[static_cast<size_t>(server.owner[static_cast<size_t>(nic)])];
    const auto path = [&](int a, int b, bool nvlink, bool pcie) {
      return outward ? search(network, kinds_, a, b, nvlink, pcie) : search(network, kinds_, b, a, nvlink, pcie);
    };
    const auto take = [&](const std::vector<uint32_t>& links) {
      for (const uint32_t link : links) {
        collected.add(link, part);
        latency += network.links()[link].latency;
      }
    };
    const std::span<const uint32_t> gpu_links = outward ? network.out_links(gpu) : network.in_links(gpu);
    const bool on_nvlink = std::any_of(gpu_links.begin(), gpu_links.end(), [&](uint32_t l) { return network.links()[l].kind == LinkKind::nvlink; });
    if (std::find(own.begin(), own.end(), nic) == own.end() && on_nvlink) {
      // Over NVLink to the GPU next to the NIC, and from there on.
      const auto hop = path(gpu, owner, true, false);
      const auto rest = path(owner, nic_vertex, false, true);
      if (hop && rest) {
        take(*hop);
        take(*rest);
        return true;
      }
    }
    const auto direct = path(gpu, nic_vertex, false, true);
    if (!direct) return false;
    take(*direct);
    return true;
  }

  bool between(const Network& network, int x, int y, int from, int to, uint64_t part, Collected& collected, Duration& latency) const {
    // Hops to y, searched backwards from it through switches.
    std::map<int, int> hops = {{y, 0}};
    std::deque<int> queue = {y};
    while (!queue.empty() && !hops.contains(x)) {
      const int here = queue.front();
      queue.pop_front();
      for (const uint32_t index : network.in_links(here)) {
        const NetworkLink& link = network.links()[index];
        if (link.kind != LinkKind::network || !alive(link) || (!is_switch(link.from) && link.from != x)) continue;
        if (hops.try_emplace(link.from, hops.at(here) + 1).second) queue.push_back(link.from);
      }
    }
    if (!hops.contains(x)) return false;
    // Down the hops, level by level.
    std::map<int, uint64_t> level = {{x, part}};
    while (!level.contains(y)) {
      std::map<int, uint64_t> next;
      Duration slowest;
      for (const auto& [here, amount] : level) {
        std::vector<uint32_t> ways;
        for (const uint32_t index : network.out_links(here)) {
          const NetworkLink& link = network.links()[index];
          const auto far = hops.find(link.to);
          if (link.kind == LinkKind::network && alive(link) && far != hops.end() && far->second == hops.at(here) - 1) ways.push_back(index);
        }
        if (here != x && !options_.spray && ways.size() > 1) {
          // One neighbour, by all links to it.
          std::vector<int> neighbours;
          for (const uint32_t way : ways)
            if (std::find(neighbours.begin(), neighbours.end(), network.links()[way].to) == neighbours.end()) neighbours.push_back(network.links()[way].to);
          const uint64_t hash = mix(mix(mix(mix(options_.seed) ^ static_cast<uint64_t>(from)) ^ static_cast<uint64_t>(to)) ^ static_cast<uint64_t>(here));
          const int chosen = neighbours[hash % neighbours.size()];
          std::erase_if(ways, [&](uint32_t way) { return network.links()[way].to != chosen; });
        }
        // In proportion to what the links can carry.
        __int128 together = 0;
        for (const uint32_t way : ways) together += network.links()[way].capacity.count();
        uint64_t left = amount;
        for (size_t i = 0; i < ways.size(); ++i) {
          const uint64_t mine = i + 1 == ways.size() ? left : static_cast<uint64_t>(amount * static_cast<__int128>(network.links()[ways[i]].capacity.count()) / together);
          left -= mine;
          if (mine == 0) continue;
          collected.add(ways[i], mine);
          next[network.links()[ways[i]].to] += mine;
          slowest = std::max(slowest, network.links()[ways[i]].latency);
        }
      }
      latency += slowest;
      level = std::move(next);
    }
    return true;
  }

  FabricOptions options_;
  std::vector<VertexKind> kinds_;     // by vertex of the network
  std::vector<ServerParts> servers_;  // those without ranks are empty
  std::vector<int> position_;         // of each GPU vertex in its server
};

// Which NICs are nearest to each GPU over PCIe; all where there is no PCIe.
std::vector<std::vector<int>> nearest_nics(const Topology& topology, const TopologyServer& server) {
  std::vector<std::vector<int>> result;
  for (const TopologyVertexId gpu : server.gpus) {
    std::map<TopologyVertexId, int> distance = {{gpu, 0}};
    std::deque<TopologyVertexId> queue = {gpu};
    while (!queue.empty()) {
      const TopologyVertexId here = queue.front();
      queue.pop_front();
      for (auto [edge, end] = boost::out_edges(here, topology.graph); edge != end; ++edge) {
        if (topology.graph[*edge].kind != LinkKind::pcie) continue;
        if (distance.try_emplace(boost::target(*edge, topology.graph), distance.at(here) + 1).second)
          queue.push_back(boost::target(*edge, topology.graph));
      }
    }
    std::vector<int> nearest;
    int least = INT32_MAX;
    for (int nic = 0; nic < static_cast<int>(server.nics.size()); ++nic) {
      const auto found = distance.find(server.nics[static_cast<size_t>(nic)]);
      const int far = found == distance.end() ? INT32_MAX : found->second;
      if (far < least) {
        least = far;
        nearest.clear();
      }
      if (far == least) nearest.push_back(nic);
    }
    result.push_back(std::move(nearest));
  }
  return result;
}

// GPUs that are equally near to the same NICs divide them by position.
void assign_nics(const Topology& topology, const TopologyServer& server, ServerParts& parts) {
  const std::vector<std::vector<int>> nearest = nearest_nics(topology, server);
  parts.own_nics.resize(server.gpus.size());
  parts.owner.assign(server.nics.size(), 0);
  std::map<std::vector<int>, std::vector<int>> groups;
  for (int gpu = 0; gpu < static_cast<int>(server.gpus.size()); ++gpu) groups[nearest[static_cast<size_t>(gpu)]].push_back(gpu);
  std::vector<char> owned(server.nics.size(), 0);
  const auto own = [&](int gpu, int nic) {
    parts.own_nics[static_cast<size_t>(gpu)].push_back(nic);
    if (!owned[static_cast<size_t>(nic)]) parts.owner[static_cast<size_t>(nic)] = gpu;
    owned[static_cast<size_t>(nic)] = 1;
  };
  for (const auto& [nics, gpus] : groups) {
    const size_t g = gpus.size(), n = nics.size();
    for (size_t i = 0; i < std::max(g, n) && n > 0; ++i) own(gpus[n >= g ? i * g / n : i], nics[n >= g ? i : i * n / g]);
  }
  // A NIC that no GPU is nearest to belongs to the GPU at its place.
  for (size_t nic = 0; nic < server.nics.size() && !server.gpus.empty(); ++nic)
    if (!owned[nic]) parts.owner[nic] = static_cast<int>(nic * server.gpus.size() / server.nics.size());
}

}  // namespace

Network build_fabric_network(const Topology& topology, const RankSelection& selection, const FabricOptions& options) {
  const TopologyGraph& graph = topology.graph;
  const std::vector<std::vector<int>> chosen = chosen_gpus(topology, selection);
  std::vector<NetworkVertex> vertices;
  std::vector<VertexKind> kinds;
  std::vector<int> vertex_of(boost::num_vertices(graph), -1);
  std::vector<NetworkLink> links;
  const auto add = [&](TopologyVertexId id, bool relays) {
    vertex_of[id] = static_cast<int>(vertices.size());
    vertices.push_back({graph[id].name, graph[id].server, relays});
    kinds.push_back(graph[id].kind);
  };
  for (size_t s = 0; s < chosen.size(); ++s)
    for (const int gpu : chosen[s]) add(topology.servers[s].gpus[static_cast<size_t>(gpu)], false);
  const int ranks = static_cast<int>(vertices.size());
  for (TopologyVertexId id = 0; id < boost::num_vertices(graph); ++id) {
    if (vertex_of[id] >= 0) continue;
    const TopologyVertex& vertex = graph[id];
    if (vertex.server >= 0 && chosen[static_cast<size_t>(vertex.server)].empty()) continue;
    add(id, vertex.kind != VertexKind::gpu && vertex.kind != VertexKind::nic);
  }
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const TopologyLink& link = graph[*edge];
    const TopologyVertexId from = boost::source(*edge, graph), to = boost::target(*edge, graph);
    if (vertex_of[from] < 0 || vertex_of[to] < 0) continue;
    const Fraction capacity = Fraction(link.bandwidth.count()) * link.health;
    links.push_back({std::string(to_string(link.kind)) + " " + graph[from].name + " -> " + graph[to].name, vertex_of[from],
                     vertex_of[to], Bandwidth(capacity.numerator() / capacity.denominator()), link.latency, link.kind, link.count});
  }
  std::vector<ServerParts> servers(topology.servers.size());
  std::vector<int> position(vertices.size(), -1);
  for (size_t s = 0; s < servers.size(); ++s) {
    if (chosen[s].empty()) continue;
    const TopologyServer& server = topology.servers[s];
    for (const TopologyVertexId gpu : server.gpus) {
      position[static_cast<size_t>(vertex_of[gpu])] = static_cast<int>(servers[s].gpus.size());
      servers[s].gpus.push_back(vertex_of[gpu]);
    }
    for (const TopologyVertexId nic : server.nics) servers[s].nics.push_back(vertex_of[nic]);
    assign_nics(topology, server, servers[s]);
    // Where PCIe is not known a GPU has a way to each of its own NICs that is twice as wide, and so no limit; without NVLink, to
    // all.
    for (size_t nic = 0; nic < server.nics.size(); ++nic) {
      Bandwidth width;
      bool on_pcie = false;
      for (auto [edge, end] = boost::out_edges(server.nics[nic], graph); edge != end; ++edge) {
        if (graph[*edge].kind == LinkKind::network) width = width + graph[*edge].bandwidth * 2;
        on_pcie = on_pcie || graph[*edge].kind == LinkKind::pcie;
      }
      for (size_t gpu = 0; gpu < server.gpus.size() && !on_pcie && width.count() > 0; ++gpu) {
        const std::vector<int>& own = servers[s].own_nics[gpu];
        const auto [edge, end] = boost::out_edges(server.gpus[gpu], graph);
        const bool has_nvlink = std::any_of(edge, end, [&](const auto& e) { return graph[e].kind == LinkKind::nvlink; });
        if (has_nvlink && std::find(own.begin(), own.end(), static_cast<int>(nic)) == own.end()) continue;
        const int a = servers[s].gpus[gpu], b = servers[s].nics[nic];
        const std::string &g = graph[server.gpus[gpu]].name, &n = graph[server.nics[nic]].name;
        links.push_back({"way " + g + " -> " + n, a, b, width, Duration(), LinkKind::pcie});
        links.push_back({"way " + n + " -> " + g, b, a, width, Duration(), LinkKind::pcie});
      }
    }
  }
  for (int rank = 0; rank < ranks && options.reductions; ++rank) {
    const size_t server = static_cast<size_t>(vertices[static_cast<size_t>(rank)].server);
    size_t first = 0;  // rank of the server's first GPU
    for (size_t s = 0; s < server; ++s) first += chosen[s].size();
    const int gpu = chosen[server][static_cast<size_t>(rank) - first];
    const std::optional<Bandwidth> limit = graph[topology.servers[server].gpus[static_cast<size_t>(gpu)]].reduction;
    links.push_back({"reductions of " + vertices[static_cast<size_t>(rank)].name, rank, rank, limit ? *limit : Bandwidth(unlimited),
                     Duration(0), LinkKind::pcie});
  }

  Network network(std::move(vertices), ranks, std::move(links), topology.message_overhead);
  network.set_router(std::make_shared<FabricRouter>(options, std::move(kinds), std::move(servers), std::move(position)));
  return network;
}

}  // namespace slackline
