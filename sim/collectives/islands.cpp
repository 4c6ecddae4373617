#include "collectives/islands.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace slackline {

namespace {

class Groups {
 public:
  explicit Groups(int n) : leader_(static_cast<size_t>(n)) { std::iota(leader_.begin(), leader_.end(), 0); }
  int find(int v) const {
    while (leader_[static_cast<size_t>(v)] != v) v = leader_[static_cast<size_t>(v)];
    return v;
  }
  // The lower rank leads.
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    leader_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> leader_;
};

// The ranks on an NVSwitch (with a link each way), and their bandwidths.
struct SwitchPorts {
  std::vector<int> ranks;
  Bandwidth slowest;
  bool equal = true;
};

std::optional<SwitchPorts> ports_of(const Network& network, int vertex) {
  std::map<int, Bandwidth> out, in;
  for (const uint32_t l : network.in_links(vertex)) {
    const NetworkLink& link = network.links()[l];
    if (link.kind == LinkKind::nvlink && link.from < network.ranks()) out[link.from] += link.capacity;
  }
  for (const uint32_t l : network.out_links(vertex)) {
    const NetworkLink& link = network.links()[l];
    if (link.kind == LinkKind::nvlink && link.to < network.ranks()) in[link.to] += link.capacity;
  }
  SwitchPorts ports;
  for (const auto& [rank, rate] : out) {
    if (!in.contains(rank)) continue;
    const Bandwidth slower = std::min(rate, in[rank]);
    if (!ports.ranks.empty() && slower != ports.slowest) ports.equal = false;
    if (rate != in[rank]) ports.equal = false;
    ports.slowest = ports.ranks.empty() ? slower : std::min(ports.slowest, slower);
    ports.ranks.push_back(rank);
  }
  if (ports.ranks.size() < 2) return std::nullopt;
  return ports;
}

}  // namespace

std::vector<Island> nvlink_islands(const Network& network) {
  const int n = network.ranks();
  const auto direct = [&](const NetworkLink& link) { return link.kind == LinkKind::nvlink && link.from < n && link.to < n; };
  Groups groups(n);
  for (const NetworkLink& link : network.links())
    if (direct(link)) groups.join(link.from, link.to);
  const Groups by_direct_links = groups;
  std::map<int, SwitchPorts> switches;  // by leader, once all groups are joined
  std::vector<SwitchPorts> all;
  for (int v = n; v < static_cast<int>(network.vertices().size()); ++v) {
    auto ports = ports_of(network, v);
    if (!ports) continue;
    for (const int rank : ports->ranks) groups.join(rank, ports->ranks.front());
    all.push_back(std::move(*ports));
  }
  std::map<int, std::vector<int>> members;
  for (int rank = 0; rank < n; ++rank) members[groups.find(rank)].push_back(rank);

  std::vector<Island> islands;
  for (const auto& [leader, ranks] : members) {
    // Direct links where they suffice; a switch where it reaches all; what is left is taken apart into its direct parts.
    const bool joined = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
      return by_direct_links.find(rank) == by_direct_links.find(ranks.front());
    });
    const auto whole = std::find_if(all.begin(), all.end(), [&](const SwitchPorts& ports) { return ports.ranks == ranks; });
    if (!joined && whole != all.end()) {
      Island island;
      island.ranks = ranks;
      island.server = network.server_of(ranks.front());
      island.switched = true;
      island.equal_ports = whole->equal;
      island.link_bytes_per_second = static_cast<double>(whole->slowest.count()) / 8;
      islands.push_back(std::move(island));
      continue;
    }
    std::map<int, std::vector<int>> parts;
    for (const int rank : ranks) parts[by_direct_links.find(rank)].push_back(rank);
    for (const auto& [part_leader, part] : parts) {
      Island island;
      island.ranks = part;
      island.server = network.server_of(part.front());
      island.graph = CapacityGraph(static_cast<int>(part.size()));
      const auto local = [&](int rank) {
        return static_cast<int>(std::lower_bound(part.begin(), part.end(), rank) - part.begin());
      };
      const auto inside = [&](const NetworkLink& link) {
        return direct(link) && by_direct_links.find(link.from) == part_leader;
      };
      Fraction unit(0);
      for (const NetworkLink& link : network.links())
        if (inside(link)) unit = std::max(unit, Fraction(link.capacity.count(), link.count));
      for (const NetworkLink& link : network.links())
        if (inside(link)) island.graph.at(local(link.from), local(link.to)) += Fraction(link.capacity.count()) / unit;
      island.link_bytes_per_second = unit.to_double() / 8;
      islands.push_back(std::move(island));
    }
  }
  std::sort(islands.begin(), islands.end(), [](const Island& a, const Island& b) { return a.ranks.front() < b.ranks.front(); });
  return islands;
}

std::string rank_set(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "{" + text + "}";
}

std::string missing_route(const Network& network, const std::vector<Island>& islands) {
  for (const Island& a : islands)
    for (const Island& b : islands)
      if (&a != &b && !network.has_route(a.ranks.front(), b.ranks.front()))
        return "ranks " + rank_set(a.ranks) + " and " + rank_set(b.ranks) +
               " have no NVLinks between them, and there is no PCIe or network path either";
  return {};
}

}  // namespace slackline
