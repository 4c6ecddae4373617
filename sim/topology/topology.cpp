#include "topology/topology.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.hpp"

namespace slackline {

namespace {

constexpr std::array<std::string_view, 6> vertex_kind_names = {"gpu",    "nic", "nvswitch",
                                                               "switch", "cpu", "pcie_switch"};
constexpr std::array<std::string_view, 3> link_kind_names = {"nvlink", "pcie", "network"};

template <class Kind>
Kind find_kind(std::string_view name, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Kind>(i);
  throw std::out_of_range(std::string(name));
}

// The NIC's links to the network, both directions.
template <class Visit>
void for_each_network_link(TopologyGraph& graph, TopologyVertexId nic, Visit visit) {
  for (auto [edge, end] = boost::out_edges(nic, graph); edge != end; ++edge)
    if (graph[*edge].kind == LinkKind::network) visit(graph[*edge]);
  for (auto [edge, end] = boost::in_edges(nic, graph); edge != end; ++edge)
    if (graph[*edge].kind == LinkKind::network) visit(graph[*edge]);
}

bool alive(TopologyGraph& graph, TopologyVertexId nic) {
  bool any = false;
  for_each_network_link(graph, nic, [&](TopologyLink& link) { any |= link.health > Fraction(0); });
  return any;
}

// The NVLinks that a failure names, in one direction.
std::vector<TopologyGraph::edge_descriptor> nvlinks(const Topology& topology, const Failure& failure, bool outward) {
  const TopologyGraph& graph = topology.graph;
  const std::vector<TopologyVertexId>& gpus = topology.servers[static_cast<size_t>(failure.server)].gpus;
  std::vector<TopologyGraph::edge_descriptor> found;
  const TopologyVertexId a = gpus[static_cast<size_t>(failure.nvlink[0])];
  const auto wanted = [&](TopologyVertexId other) {
    return failure.nvlink.size() == 2 ? other == gpus[static_cast<size_t>(failure.nvlink[1])]
                                      : graph[other].kind == VertexKind::nvswitch;
  };
  if (outward) {
    for (auto [edge, end] = boost::out_edges(a, graph); edge != end; ++edge)
      if (graph[*edge].kind == LinkKind::nvlink && wanted(boost::target(*edge, graph))) found.push_back(*edge);
  } else {
    for (auto [edge, end] = boost::in_edges(a, graph); edge != end; ++edge)
      if (graph[*edge].kind == LinkKind::nvlink && wanted(boost::source(*edge, graph))) found.push_back(*edge);
  }
  return found;
}

void fail_nvlinks(Topology& topology, const Failure& failure) {
  const auto fail = [&](const std::string& message) { throw Error(ErrorKind::input, message, failure.where); };
  const std::string server = "server " + std::to_string(failure.server);
  const size_t gpus = topology.servers[static_cast<size_t>(failure.server)].gpus.size();
  if (failure.nvlink.size() > 2) fail("an NVLink is named by the two GPUs that it joins, or by one GPU on an NVSwitch");
  for (const int gpu : failure.nvlink)
    if (gpu < 0 || static_cast<size_t>(gpu) >= gpus)
      fail(server + " has no GPU " + std::to_string(gpu) + "; it has GPUs 0 to " + std::to_string(static_cast<int>(gpus) - 1));
  if (failure.nvlink_remaining < Fraction(0) || failure.nvlink_remaining > Fraction(1))
    fail("what remains of an NVLink is a fraction from 0 to 1, not " + failure.nvlink_remaining.to_string());
  const std::string what = failure.nvlink.size() == 2 ? "between GPU " + std::to_string(failure.nvlink[0]) + " and GPU " +
                                                            std::to_string(failure.nvlink[1])
                                                      : "from GPU " + std::to_string(failure.nvlink[0]) + " to an NVSwitch";
  for (const bool outward : {true, false}) {
    const auto links = nvlinks(topology, failure, outward);
    if (links.empty()) fail(server + " has no NVLink " + what);
    int left = failure.nvlink_count;
    Fraction living(0);
    for (const auto& edge : links) {
      TopologyLink& link = topology.graph[edge];
      const Fraction alive = Fraction(link.count) * link.health;
      living += alive;
      if (failure.nvlink_count == 0) {
        link.health *= failure.nvlink_remaining;
      } else {
        const Fraction dying = std::min(alive, Fraction(left));
        link.health -= dying / Fraction(link.count);
        left -= static_cast<int>(dying.numerator() / dying.denominator());
      }
    }
    if (left > 0)
      fail(server + " has " + living.to_string() + " living NVLinks " + what + ": " +
           std::to_string(failure.nvlink_count) + " cannot fail");
  }
}

}  // namespace

std::string_view to_string(VertexKind kind) { return vertex_kind_names[static_cast<size_t>(kind)]; }
std::string_view to_string(LinkKind kind) { return link_kind_names[static_cast<size_t>(kind)]; }
VertexKind vertex_kind(std::string_view name) { return find_kind<VertexKind>(name, vertex_kind_names); }
LinkKind link_kind(std::string_view name) { return find_kind<LinkKind>(name, link_kind_names); }

TopologyVertexId Topology::add_vertex(VertexKind kind, int server, const std::string& name) {
  TopologyVertex vertex{kind, server, 0, name};
  std::vector<TopologyVertexId>* list = nullptr;
  if (server >= 0) {
    if (static_cast<size_t>(server) >= servers.size()) servers.resize(static_cast<size_t>(server) + 1);
    TopologyServer& home = servers[static_cast<size_t>(server)];
    if (kind == VertexKind::gpu) list = &home.gpus;
    if (kind == VertexKind::nic) list = &home.nics;
  }
  if (list) vertex.index = static_cast<int>(list->size());
  if (vertex.name.empty()) {
    vertex.name = std::string(to_string(kind)) + std::to_string(vertex.index);
    if (server >= 0) vertex.name = "server" + std::to_string(server) + "/" + vertex.name;
  }
  const TopologyVertexId id = boost::add_vertex(vertex, graph);
  if (list) list->push_back(id);
  return id;
}

void Topology::add_link(TopologyVertexId a, TopologyVertexId b, const TopologyLink& link) {
  boost::add_edge(a, b, link, graph);
  boost::add_edge(b, a, link, graph);
}

void apply_failures(Topology& topology, const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    const auto fail = [&](const std::string& message) {
      throw Error(ErrorKind::input, message, failure.where);
    };
    if (failure.server < 0 || static_cast<size_t>(failure.server) >= topology.servers.size())
      fail("server " + std::to_string(failure.server) + " does not exist; the topology has servers 0 to " +
           std::to_string(static_cast<int>(topology.servers.size()) - 1));
    if (!failure.nvlink.empty()) fail_nvlinks(topology, failure);
    const std::vector<TopologyVertexId>& nics = topology.servers[static_cast<size_t>(failure.server)].nics;
    const auto kill = [&](TopologyVertexId nic) {
      for_each_network_link(topology.graph, nic, [](TopologyLink& link) { link.health = Fraction(0); });
    };
    if (failure.nic_count < 0) fail("a number of NICs cannot be negative");
    int left = failure.nic_count;
    for (const TopologyVertexId nic : nics) {
      if (left == 0) break;
      if (!alive(topology.graph, nic)) continue;
      kill(nic);
      --left;
    }
    if (left > 0)
      fail("server " + std::to_string(failure.server) + " has " + std::to_string(nics.size()) +
           " NICs, of which " + std::to_string(failure.nic_count - left) +
           " were still alive: " + std::to_string(failure.nic_count) + " cannot fail");
    for (const int index : failure.nic_indices) {
      if (index < 0 || static_cast<size_t>(index) >= nics.size())
        fail("server " + std::to_string(failure.server) + " has no NIC " + std::to_string(index) +
             "; it has NICs 0 to " + std::to_string(static_cast<int>(nics.size()) - 1));
      if (!alive(topology.graph, nics[static_cast<size_t>(index)]))
        fail("NIC " + std::to_string(index) + " of server " + std::to_string(failure.server) +
             " has failed already");
      kill(nics[static_cast<size_t>(index)]);
    }
    if (failure.slowdown < Fraction(1))
      fail("a slowdown is at least 1, not " + failure.slowdown.to_string());
    if (failure.slowdown == Fraction(1)) continue;
    if (std::none_of(nics.begin(), nics.end(), [&](TopologyVertexId nic) { return alive(topology.graph, nic); }))
      fail("server " + std::to_string(failure.server) + " has no living NIC that could be slow");
    try {
      for (const TopologyVertexId nic : nics)
        for_each_network_link(topology.graph, nic,
                              [&](TopologyLink& link) { link.health /= failure.slowdown; });
    } catch (const Error& error) {
      fail(error.message());
    }
  }
}

}  // namespace slackline
