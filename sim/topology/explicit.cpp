#include <array>
#include <map>

#include "topology/builders.hpp"

namespace slackline {

namespace {

class ExplicitBuilder {
 public:
  explicit ExplicitBuilder(const JsonCursor& object) : object_(object) {}
  Topology build();

 private:
  using Names = std::map<std::string, TopologyVertexId>;

  void add_vertices(const JsonCursor& list, int server, Names& names);
  void add_links(const JsonCursor& list, const Names* server_names);
  void add_link(const JsonCursor& entry, const TopologyLink& link, const JsonCursor& from, const JsonCursor& to,
                const Names* server_names);
  TopologyVertexId vertex(const JsonCursor& cursor, const Names* server_names) const;
  Bandwidth bandwidth(const JsonCursor& cursor) const;

  const JsonCursor& object_;
  Topology topology_;
  Names names_;  // of vertices outside the template
};

// Within the template `server` is that of the copy at hand, else -1 and vertices name theirs.
void ExplicitBuilder::add_vertices(const JsonCursor& list, int server, Names& names) {
  static constexpr std::array<std::string_view, 6> kinds = {"gpu", "nic", "nvswitch", "switch", "cpu", "pcie_switch"};
  const bool in_template = server >= 0;
  for (const JsonCursor& entry : list.elements()) {
    if (in_template)
      entry.expect_object({"name", "kind", "count"});
    else
      entry.expect_object({"name", "kind", "server", "count"});
    const VertexKind kind = vertex_kind(entry.at("kind").one_of(kinds, "kind of vertex"));
    int home = server;
    if (in_template) {
      if (kind == VertexKind::net_switch)
        entry.at("kind").fail("a switch stands between servers: put it into the topology's own \"vertices\"");
    } else if (entry.has("server")) {
      // Server numbers are dense, so the next new one is the highest that makes sense.
      home = static_cast<int>(entry.at("server").integer(0, static_cast<int64_t>(topology_.servers.size())));
    } else if (kind != VertexKind::net_switch) {
      entry.fail("needs the key \"server\": only a switch stands between servers");
    }
    const std::string name = entry.at("name").string();
    if (name.empty()) entry.at("name").fail("a name must not be empty");
    const int64_t count = entry.has("count") ? entry.at("count").integer(1, 65536) : 0;
    for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i) {
      const std::string numbered = entry.has("count") ? name + std::to_string(i) : name;
      if (names.contains(numbered) || names_.contains(numbered)) entry.at("name").fail("the name \"" + numbered + "\" is taken");
      const std::string full = in_template ? "server" + std::to_string(server) + "/" + numbered : numbered;
      names.emplace(numbered, topology_.add_vertex(kind, home, full));
    }
  }
}

TopologyVertexId ExplicitBuilder::vertex(const JsonCursor& cursor, const Names* server_names) const {
  const std::string name = cursor.string();
  std::vector<std::string_view> known;
  for (const Names* names : {server_names, &names_}) {
    if (!names) continue;
    if (const auto found = names->find(name); found != names->end()) return found->second;
    for (const auto& [other, id] : *names) known.push_back(other);
  }
  const std::string near = nearest_name(name, known);
  cursor.fail("there is no vertex \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

// A quantity, or the name of an entry of "bandwidths".
Bandwidth ExplicitBuilder::bandwidth(const JsonCursor& cursor) const {
  if (const auto named = object_.find("bandwidths"); named && cursor.value().is_string())
    if (const auto entry = named->find(cursor.string())) return entry->bandwidth();
  return cursor.bandwidth();
}

void ExplicitBuilder::add_link(const JsonCursor& entry, const TopologyLink& link, const JsonCursor& from_name,
                               const JsonCursor& to_name, const Names* server_names) {
  const TopologyVertexId from = vertex(from_name, server_names), to = vertex(to_name, server_names);
  if (from == to) to_name.fail("a link must join two different vertices");
  const int a = topology_.graph[from].server, b = topology_.graph[to].server;
  if (link.kind != LinkKind::network && (a != b || a < 0))
    entry.fail("only a network link can leave a server, not one of kind " + std::string(to_string(link.kind)));
  if (link.kind == LinkKind::network) {
    for (const TopologyVertexId end : {from, to}) {
      const VertexKind kind = topology_.graph[end].kind;
      if (kind != VertexKind::nic && kind != VertexKind::net_switch)
        entry.fail("a network link joins NICs and switches, and \"" + topology_.graph[end].name + "\" is a " +
                   std::string(to_string(kind)));
    }
  }
  if (entry.has("one_way") && entry.at("one_way").boolean())
    boost::add_edge(from, to, link, topology_.graph);
  else
    topology_.add_link(from, to, link);
}

void ExplicitBuilder::add_links(const JsonCursor& list, const Names* server_names) {
  static constexpr std::array<std::string_view, 3> kinds = {"nvlink", "pcie", "network"};
  for (const JsonCursor& entry : list.elements()) {
    entry.expect_object({"from", "to", "pairs", "kind", "bandwidth", "latency", "count", "one_way"});
    TopologyLink link;
    link.kind = link_kind(entry.at("kind").one_of(kinds, "kind of link"));
    link.count = entry.has("count") ? static_cast<int>(entry.at("count").integer(1, 1024)) : 1;
    const Bandwidth single = bandwidth(entry.at("bandwidth"));
    if (single.count() > INT64_MAX / link.count) entry.at("bandwidth").fail("times the count is too large");
    link.bandwidth = single * link.count;
    if (entry.has("latency")) link.latency = entry.at("latency").duration();
    if (const auto pairs = entry.find("pairs")) {
      if (entry.has("from") || entry.has("to")) pairs->fail("stands in place of \"from\" and \"to\"");
      for (const JsonCursor& pair : pairs->elements()) {
        const std::vector<JsonCursor> ends = pair.elements();
        if (ends.size() != 2) pair.fail("a link joins two vertices");
        add_link(entry, link, ends[0], ends[1], server_names);
      }
    } else {
      add_link(entry, link, entry.at("from"), entry.at("to"), server_names);
    }
  }
}

Topology ExplicitBuilder::build() {
  object_.expect_object({"builder", "name", "description", "message_overhead", "bandwidths", "vertices", "links", "servers", "server"});
  topology_.name = object_.has("name") ? object_.at("name").string() : "explicit";
  if (object_.has("message_overhead")) topology_.message_overhead = object_.at("message_overhead").duration();
  if (const auto named = object_.find("bandwidths"))
    for (const auto& [name, value] : named->members()) {
      if (name.empty() || name[0] < 'a' || name[0] > 'z' || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
        value.fail("a bandwidth's name starts with a lower-case letter and goes on with such letters, digits and _");
      value.bandwidth();
    }
  const auto server = object_.find("server");
  if (!server) object_.at("links");  // with a server to copy, what is outside it may be nothing
  if (!server || object_.has("vertices")) add_vertices(object_.at("vertices"), -1, names_);
  if (server) {
    server->expect_object({"vertices", "links"});
    const auto first = static_cast<int>(topology_.servers.size());
    const int copies = object_.has("servers") ? static_cast<int>(object_.at("servers").integer(1, 65536)) : 1;
    for (int copy = first; copy < first + copies; ++copy) {
      Names names;
      add_vertices(server->at("vertices"), copy, names);
      if (const auto links = server->find("links")) add_links(*links, &names);
    }
  } else if (object_.has("servers")) {
    object_.at("servers").fail("counts copies of a \"server\", which is not given");
  }
  if (topology_.servers.empty()) object_.at("vertices").fail("has no server");
  if (const auto links = object_.find("links")) add_links(*links, nullptr);
  return std::move(topology_);
}

}  // namespace

Topology build_explicit(const JsonCursor& object) { return ExplicitBuilder(object).build(); }

}  // namespace slackline
