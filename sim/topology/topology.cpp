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

}  // namespace

std::string_view to_string(VertexKind kind) { return vertex_kind_names[static_cast<size_t>(kind)]; }
std::string_view to_string(LinkKind kind) { return link_kind_names[static_cast<size_t>(kind)]; }
VertexKind vertex_kind(std::string_view name) { return find_kind<VertexKind>(name, vertex_kind_names); }
LinkKind link_kind(std::string_view name) { return find_kind<LinkKind>(name, link_kind_names); }

TopologyVertexId Topology::add_vertex(VertexKind kind, int server, const std::string& name) {
  TopologyVertex vertex{kind, server, 0, name, {}};
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

}  // namespace slackline
