#include <array>
#include <map>

#include "topology/builders.hpp"

namespace slackline {

Topology build_explicit(const JsonCursor& object) {
  object.expect_object({"builder", "name", "description", "message_overhead", "vertices", "links"});
  static constexpr std::array<std::string_view, 6> vertex_kinds = {"gpu",    "nic", "nvswitch",
                                                                   "switch", "cpu", "pcie_switch"};
  static constexpr std::array<std::string_view, 3> link_kinds = {"nvlink", "pcie", "network"};
  Topology topology;
  topology.name = object.has("name") ? object.at("name").string() : "explicit";
  if (object.has("message_overhead")) topology.message_overhead = object.at("message_overhead").duration();

  std::map<std::string, TopologyVertexId> by_name;
  for (const JsonCursor& entry : object.at("vertices").elements()) {
    entry.expect_object({"name", "kind", "server"});
    const VertexKind kind = vertex_kind(entry.at("kind").one_of(vertex_kinds, "kind of vertex"));
    int server = -1;
    if (entry.has("server")) {
      // Server numbers are dense, so the next new one is the highest that makes sense.
      server = static_cast<int>(entry.at("server").integer(0, static_cast<int64_t>(topology.servers.size())));
    } else if (kind != VertexKind::net_switch) {
      entry.fail("needs the key \"server\": only a switch stands between servers");
    }
    const std::string name = entry.at("name").string();
    if (name.empty()) entry.at("name").fail("a name must not be empty");
    if (by_name.contains(name)) entry.at("name").fail("the name \"" + name + "\" is taken");
    by_name.emplace(name, topology.add_vertex(kind, server, name));
  }
  if (topology.servers.empty()) object.at("vertices").fail("has no server");

  const auto vertex = [&](const JsonCursor& cursor) {
    const std::string name = cursor.string();
    const auto found = by_name.find(name);
    if (found != by_name.end()) return found->second;
    std::vector<std::string_view> names;
    for (const auto& [known, id] : by_name) names.push_back(known);
    const std::string near = nearest_name(name, names);
    cursor.fail("there is no vertex \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
  };
  for (const JsonCursor& entry : object.at("links").elements()) {
    entry.expect_object({"from", "to", "kind", "bandwidth", "latency", "count", "one_way"});
    TopologyLink link;
    link.kind = link_kind(entry.at("kind").one_of(link_kinds, "kind of link"));
    link.count = entry.has("count") ? static_cast<int>(entry.at("count").integer(1, 1024)) : 1;
    const Bandwidth single = entry.at("bandwidth").bandwidth();
    if (single.count() > INT64_MAX / link.count) entry.at("bandwidth").fail("times the count is too large");
    link.bandwidth = single * link.count;
    if (entry.has("latency")) link.latency = entry.at("latency").duration();
    const TopologyVertexId from = vertex(entry.at("from")), to = vertex(entry.at("to"));
    if (from == to) entry.at("to").fail("a link must join two different vertices");
    const int a = topology.graph[from].server, b = topology.graph[to].server;
    if (link.kind != LinkKind::network && (a != b || a < 0))
      entry.fail("only a network link can leave a server, not one of kind " + std::string(to_string(link.kind)));
    if (link.kind == LinkKind::network) {
      for (const TopologyVertexId end : {from, to}) {
        const VertexKind kind = topology.graph[end].kind;
        if (kind != VertexKind::nic && kind != VertexKind::net_switch)
          entry.fail("a network link joins NICs and switches, and \"" + topology.graph[end].name + "\" is a " +
                     std::string(to_string(kind)));
      }
    }
    if (entry.has("one_way") && entry.at("one_way").boolean())
      boost::add_edge(from, to, link, topology.graph);
    else
      topology.add_link(from, to, link);
  }
  return topology;
}

}  // namespace slackline
