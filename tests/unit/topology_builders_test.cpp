#include "topology/builders.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"
#include "base/files.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

constexpr const char* fabric = R"({"builder": "rail_fabric", "servers": 2, "gpus_per_server": 4, "nics_per_server": 3,
  "nic_bandwidth": "100 GB/s", "nic_latency": "2 us", "message_overhead": "20 ns", "nvlink_bandwidth": "900 GB/s",
  "nvlink_latency": "500 ns"})";

constexpr const char* by_hand = R"({"builder": "explicit", "message_overhead": "1 us", "vertices": [
  {"name": "a", "kind": "gpu", "server": 0}, {"name": "na", "kind": "nic", "server": 0},
  {"name": "b", "kind": "gpu", "server": 1}, {"name": "nb", "kind": "nic", "server": 1},
  {"name": "top", "kind": "switch"}],
  "links": [
  {"from": "a", "to": "na", "kind": "pcie", "bandwidth": "32 GB/s"},
  {"from": "b", "to": "nb", "kind": "pcie", "bandwidth": "32 GB/s"},
  {"from": "na", "to": "top", "kind": "network", "bandwidth": "50 GB/s", "latency": "1 us", "count": 2},
  {"from": "nb", "to": "top", "kind": "network", "bandwidth": "100 GB/s", "one_way": true}]})";

// The error of `text` with its first `from` replaced by `to`.
std::string error_with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return error_of([&] { topology_of(text); });
}

TEST(RailFabric, HasWhatItsParametersSay) {
  const Topology topology = topology_of(fabric);
  EXPECT_EQ(topology.name, "rail_fabric");
  EXPECT_EQ(topology.message_overhead, parse_duration("20 ns"));
  ASSERT_EQ(topology.servers.size(), 2u);
  for (const TopologyServer& server : topology.servers) {
    EXPECT_EQ(server.gpus.size(), 4u);
    EXPECT_EQ(server.nics.size(), 3u);
  }
  // 3 rails; per server 4 GPUs, 3 NICs and an NVSwitch, joined by 7 links in both directions.
  EXPECT_EQ(boost::num_vertices(topology.graph), 3u + 2 * 8);
  EXPECT_EQ(boost::num_edges(topology.graph), 2u * 2 * 7);
  EXPECT_EQ(topology.graph[topology.servers[1].gpus[2]].name, "server1/gpu2");
  // NIC n of every server is on rail n.
  for (size_t n = 0; n < 3; ++n)
    for (const TopologyServer& server : topology.servers) {
      const auto [edge, end] = boost::out_edges(server.nics[n], topology.graph);
      ASSERT_EQ(std::distance(edge, end), 1);
      EXPECT_EQ(topology.graph[boost::target(*edge, topology.graph)].name, "rail" + std::to_string(n));
      EXPECT_EQ(topology.graph[*edge].bandwidth, parse_bandwidth("100 GB/s"));
    }
}

TEST(RailFabric, Errors) {
  EXPECT_EQ(error_with(fabric, R"("servers": 2)", R"("servers": 0)"),
            "topology.json: /servers: must be a whole number from 1 to 65536, not 0");
  EXPECT_EQ(error_with(fabric, R"("servers": 2)", R"("server": 2)"),
            "topology.json: /server: unknown key \"server\"; did you mean \"servers\"?");
  EXPECT_EQ(error_with(fabric, R"("servers": 2, )", ""), "topology.json: /: needs the key \"servers\"");
  EXPECT_EQ(error_with(fabric, R"("servers": 2, "gpus_per_server": 4)", R"("servers": 60000, "gpus_per_server": 64)"),
            "topology.json: /servers: makes more than 4 million GPUs and NICs, which is more than slackline holds");
  EXPECT_EQ(error_with(fabric, R"("100 GB/s")", R"("0 GB/s")"), "topology.json: /nic_bandwidth: a rate must be above 0");
  EXPECT_EQ(error_with(fabric, R"("2 us")", "2"),
            "topology.json: /nic_latency: must be a string with a unit, such as \"2 us\", not the bare number 2");
  EXPECT_EQ(error_with(fabric, "rail_fabric", "rail-fabric"),
            "topology.json: /builder: unknown topology builder \"rail-fabric\"; did you mean \"rail_fabric\"?");
}

TEST(ExplicitTopology, HasWhatItLists) {
  const Topology topology = topology_of(by_hand);
  EXPECT_EQ(topology.message_overhead, parse_duration("1 us"));
  ASSERT_EQ(topology.servers.size(), 2u);
  EXPECT_EQ(boost::num_vertices(topology.graph), 5u);
  EXPECT_EQ(boost::num_edges(topology.graph), 7u);  // three both ways and one one way
  const auto [edge, found] = boost::edge(topology.servers[0].nics[0], 4, topology.graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(topology.graph[edge].bandwidth, parse_bandwidth("100 GB/s"));  // 2 links of 50
  EXPECT_EQ(topology.graph[edge].count, 2);
  EXPECT_EQ(topology.graph[edge].latency, parse_duration("1 us"));
  EXPECT_FALSE(boost::edge(4, topology.servers[1].nics[0], topology.graph).second);
}

TEST(ExplicitTopology, Errors) {
  EXPECT_EQ(error_with(by_hand, R"("name": "b")", R"("name": "a")"),
            "topology.json: /vertices/2/name: the name \"a\" is taken");
  EXPECT_EQ(error_with(by_hand, R"("name": "b")", R"("name": "")"),
            "topology.json: /vertices/2/name: a name must not be empty");
  EXPECT_EQ(error_with(by_hand, R"("kind": "gpu", "server": 1)", R"("kind": "gpu", "server": 2)"),
            "topology.json: /vertices/2/server: must be a whole number from 0 to 1, not 2");
  EXPECT_EQ(error_with(by_hand, R"("kind": "gpu", "server": 0)", R"("kind": "gpu")"),
            "topology.json: /vertices/0: needs the key \"server\": only a switch stands between servers");
  EXPECT_EQ(error_with(by_hand, R"("kind": "switch")", R"("kind": "swicth")"),
            "topology.json: /vertices/4/kind: unknown kind of vertex \"swicth\"; did you mean \"switch\"?");
  EXPECT_EQ(error_with(by_hand, R"("to": "top")", R"("to": "topp")"),
            "topology.json: /links/2/to: there is no vertex \"topp\"; did you mean \"top\"?");
  EXPECT_EQ(error_with(by_hand, R"("to": "na")", R"("to": "a")"),
            "topology.json: /links/0/to: a link must join two different vertices");
  EXPECT_EQ(error_with(by_hand, R"("to": "na", "kind": "pcie")", R"("to": "b", "kind": "nvlink")"),
            "topology.json: /links/0: only a network link can leave a server, not one of kind nvlink");
  EXPECT_EQ(error_with(by_hand, R"("from": "na", "to": "top")", R"("from": "a", "to": "top")"),
            "topology.json: /links/2: a network link joins NICs and switches, and \"a\" is a gpu");
  EXPECT_EQ(error_with(by_hand, R"("count": 2)", R"("count": 0)"),
            "topology.json: /links/2/count: must be a whole number from 1 to 1024, not 0");
  EXPECT_EQ(error_with(by_hand, R"("50 GB/s", "latency": "1 us", "count": 2)", R"("1000000 TB/s", "count": 2)"),
            "topology.json: /links/2/bandwidth: times the count is too large");
  EXPECT_EQ(error_with(by_hand, R"("one_way")", R"("oneway")"),
            "topology.json: /links/3/oneway: unknown key \"oneway\"; did you mean \"one_way\"?");
  EXPECT_EQ(error_of([] {
              topology_of(R"({"builder": "explicit", "vertices": [{"name": "s", "kind": "switch"}], "links": []})");
            }),
            "topology.json: /vertices: has no server");
}

TEST(TopologyFiles, AreFoundBesideTheScenario) {
  const fs::path folder = fs::temp_directory_path() / ("slackline_topology_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file_atomically(folder / name, [&](std::ostream& stream) { stream << text; });
  };
  const auto build = [&](const std::string& text) {
    const Json json = parse_json(text, "s.json");
    return build_topology(JsonCursor(json, "s.json"), folder);
  };
  write("hand.json", by_hand);
  EXPECT_EQ(build(R"({"file": "hand.json"})").servers.size(), 2u);
  EXPECT_EQ(error_of([&] { build(R"({"file": "none.json"})"); }),
            "s.json: /file: there is no file \"" + (folder / "none.json").string() + "\"");
  write("loop.json", R"({"file": "loop.json"})");
  EXPECT_EQ(error_of([&] { build(R"({"file": "loop.json"})"); }),
            (folder / "loop.json").string() + ": /file: a topology file cannot point to another one");
  write("bad.json", R"({"builder": "explicit"})");
  EXPECT_EQ(error_of([&] { build(R"({"file": "bad.json"})"); }),
            (folder / "bad.json").string() + ": /: needs the key \"links\"");
  EXPECT_EQ(error_of([&] { build(R"({"file": "hand.json", "servers": 2})"); }),
            "s.json: /servers: the topology file describes no \"server\" that could be copied");
  fs::remove_all(folder);
}

TEST(TopologyKinds, NamesAndKindsBelongTogether) {
  for (const VertexKind kind : {VertexKind::gpu, VertexKind::nic, VertexKind::nvswitch, VertexKind::net_switch,
                                VertexKind::cpu, VertexKind::pcie_switch})
    EXPECT_EQ(vertex_kind(to_string(kind)), kind);
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::pcie, LinkKind::network})
    EXPECT_EQ(link_kind(to_string(kind)), kind);
  EXPECT_THROW(vertex_kind("tpu"), std::out_of_range);
}

}  // namespace
}  // namespace slackline
