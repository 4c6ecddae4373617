// The fabric builders: how many vertices and links, what is joined to what, how much fits through the middle, and errors.
#include <gtest/gtest.h>

#include <map>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"
#include "bounds/max_flow.hpp"

namespace slackline {
namespace {

constexpr const char* nic_parts = R"("nics_per_server": 4, "nic_bandwidth": "400 Gb/s", "nic_latency": "2 us", "message_overhead": "20 ns",
  "nvlink_bandwidth": "900 GB/s", "nvlink_latency": "500 ns")";

std::string fabric(const std::string& builder, int servers, const std::string& rest) {
  return R"({"builder": ")" + builder + R"(", "servers": )" + std::to_string(servers) + R"(, "gpus_per_server": 8, )" + nic_parts +
         (rest.empty() ? "" : ", " + rest) + "}";
}

std::string error(const std::string& builder, int servers, const std::string& rest) {
  return error_of([&] { topology_of(fabric(builder, servers, rest)); });
}

// How many vertices of a kind, and links (both directions counted) of a kind.
std::map<VertexKind, int> vertices_by_kind(const Topology& topology) {
  std::map<VertexKind, int> count;
  for (auto [v, end] = boost::vertices(topology.graph); v != end; ++v) ++count[topology.graph[*v].kind];
  return count;
}

std::map<LinkKind, int> links_by_kind(const Topology& topology) {
  std::map<LinkKind, int> count;
  for (auto [edge, end] = boost::edges(topology.graph); edge != end; ++edge) ++count[topology.graph[*edge].kind];
  return count;
}

TopologyVertexId vertex(const Topology& topology, const std::string& name) {
  for (auto [v, end] = boost::vertices(topology.graph); v != end; ++v)
    if (topology.graph[*v].name == name) return *v;
  ADD_FAILURE() << "no vertex " << name;
  return 0;
}

std::vector<std::string> neighbours(const Topology& topology, const std::string& name, LinkKind kind = LinkKind::network) {
  std::vector<std::string> names;
  for (auto [edge, end] = boost::out_edges(vertex(topology, name), topology.graph); edge != end; ++edge)
    if (topology.graph[*edge].kind == kind) names.push_back(topology.graph[boost::target(*edge, topology.graph)].name);
  return names;
}

const TopologyLink& link(const Topology& topology, const std::string& from, const std::string& to) {
  const auto [edge, found] = boost::edge(vertex(topology, from), vertex(topology, to), topology.graph);
  EXPECT_TRUE(found) << from << " " << to;
  return topology.graph[edge];
}

// What the network carries from the NICs of the servers that `left` accepts to those of the others, in Gb/s.
template <class Left>
int64_t cut_gbps(const Topology& topology, Left left) {
  const int count = static_cast<int>(boost::num_vertices(topology.graph)), source = count, sink = count + 1;
  MinCut cut(count + 2);
  for (auto [edge, end] = boost::edges(topology.graph); edge != end; ++edge)
    if (topology.graph[*edge].kind == LinkKind::network)
      cut.add_arc(static_cast<int>(boost::source(*edge, topology.graph)), static_cast<int>(boost::target(*edge, topology.graph)),
                  topology.graph[*edge].bandwidth.count());
  constexpr int64_t much = int64_t{1} << 60;
  for (size_t s = 0; s < topology.servers.size(); ++s)
    for (const TopologyVertexId nic : topology.servers[s].nics)
      left(s) ? cut.add_arc(source, static_cast<int>(nic), much) : cut.add_arc(static_cast<int>(nic), sink, much);
  return static_cast<int64_t>(cut.solve(source, sink) / 1'000'000'000);
}

// The first half of the servers against the second.
int64_t bisection_gbps(const Topology& topology) {
  return cut_gbps(topology, [&](size_t s) { return s < topology.servers.size() / 2; });
}

// Whether everything can be reached.
bool connected(const Topology& topology) {
  const size_t count = boost::num_vertices(topology.graph);
  std::vector<bool> seen(count);
  std::vector<TopologyVertexId> open{0};
  seen[0] = true;
  size_t reached = 0;
  while (!open.empty()) {
    const TopologyVertexId v = open.back();
    open.pop_back();
    ++reached;
    for (auto [edge, end] = boost::out_edges(v, topology.graph); edge != end; ++edge) {
      const TopologyVertexId next = boost::target(*edge, topology.graph);
      if (seen[next]) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  return reached == count;
}

// Whether all NICs reach each other without passing through a server.
bool network_connected(const Topology& topology) {
  for (size_t s = 1; s < topology.servers.size(); ++s)
    if (cut_gbps(topology, [&](size_t other) { return other == s; }) == 0) return false;
  return cut_gbps(topology, [](size_t s) { return s == 0; }) > 0;
}

const std::string some_pcie = R"("pcie_bandwidth": "64 GB/s", "pcie_latency": "100 ns")";

TEST(SingleSwitch, JoinsAllNics) {
  const Topology topology = topology_of(fabric("single_switch", 6, ""));
  EXPECT_EQ(topology.name, "single_switch");
  // Per server: 8 GPUs, 4 NICs, an NVSwitch; 8 NVLinks and 4 cables.
  EXPECT_EQ(boost::num_vertices(topology.graph), 1u + 6 * 13);
  EXPECT_EQ(links_by_kind(topology), (std::map<LinkKind, int>{{LinkKind::nvlink, 2 * 6 * 8}, {LinkKind::network, 2 * 6 * 4}}));
  EXPECT_EQ(neighbours(topology, "server5/nic3"), std::vector<std::string>{"switch0"});
  EXPECT_EQ(bisection_gbps(topology), 3 * 4 * 400);
  EXPECT_TRUE(network_connected(topology));
  // The whole latency of the way is on its first link.
  EXPECT_EQ(link(topology, "server0/nic0", "switch0").latency, parse_duration("2 us"));
  EXPECT_EQ(link(topology, "switch0", "server0/nic0").latency, Duration(0));
  EXPECT_EQ(link(topology, "server0/gpu0", "server0/nvswitch0").latency + link(topology, "server0/nvswitch0", "server0/gpu0").latency,
            parse_duration("500 ns"));
}

TEST(SingleSwitch, NicsOfTwoPortsHaveTwoLinksOfHalfTheRate) {
  const Topology topology = topology_of(fabric("single_switch", 2, R"("ports_per_nic": 2)"));
  EXPECT_EQ(neighbours(topology, "server0/nic0"), (std::vector<std::string>{"switch0", "switch0"}));
  EXPECT_EQ(link(topology, "server0/nic0", "switch0").bandwidth, parse_bandwidth("200 Gb/s"));
  EXPECT_EQ(bisection_gbps(topology), 4 * 400);
}

TEST(Servers, PcieSwitchesAreSharedByWhatIsAtTheirPlace) {
  // 8 GPUs and 4 NICs: two GPUs and a NIC at each of 4 switches.
  const Topology topology = topology_of(fabric("single_switch", 2, some_pcie));
  EXPECT_EQ(vertices_by_kind(topology)[VertexKind::pcie_switch], 2 * 4);
  EXPECT_EQ(vertices_by_kind(topology)[VertexKind::cpu], 2);
  EXPECT_EQ(links_by_kind(topology)[LinkKind::pcie], 2 * 2 * (8 + 4 + 4));
  EXPECT_EQ(neighbours(topology, "server1/pcie_switch2", LinkKind::pcie),
            (std::vector<std::string>{"server1/cpu0", "server1/gpu4", "server1/gpu5", "server1/nic2"}));
  EXPECT_EQ(link(topology, "server1/gpu4", "server1/pcie_switch2").bandwidth, parse_bandwidth("64 GB/s"));
  EXPECT_EQ(link(topology, "server1/pcie_switch2", "server1/cpu0").latency, parse_duration("100 ns"));
  EXPECT_TRUE(connected(topology));
}

TEST(Servers, PcieSwitchesWithOtherNumbersOfGpusAndNics) {
  const auto server = [](int gpus, int nics, const std::string& switches) {
    return topology_of(R"({"builder": "single_switch", "servers": 1, "gpus_per_server": )" + std::to_string(gpus) + R"(, "nics_per_server": )" +
                       std::to_string(nics) + R"(, "nic_bandwidth": "1 GB/s", "nic_latency": "1 us", "message_overhead": "1 ns",
                       "nvlink_bandwidth": "1 GB/s", "nvlink_latency": "1 ns", "pcie_bandwidth": "64 GB/s")" + switches + "}");
  };
  // Several NICs per GPU.
  const Topology many_nics = server(2, 4, "");
  EXPECT_EQ(neighbours(many_nics, "server0/pcie_switch1", LinkKind::pcie),
            (std::vector<std::string>{"server0/cpu0", "server0/gpu1", "server0/nic2", "server0/nic3"}));
  // Numbers without a common divisor: GPU i at switch i*3/8.
  const Topology odd = server(8, 3, "");
  EXPECT_EQ(neighbours(odd, "server0/pcie_switch2", LinkKind::pcie),
            (std::vector<std::string>{"server0/cpu0", "server0/gpu6", "server0/gpu7", "server0/nic2"}));
  // More switches than NICs: two of the four have none.
  const Topology spread = server(8, 2, R"(, "pcie_switches_per_server": 4)");
  EXPECT_EQ(neighbours(spread, "server0/pcie_switch1", LinkKind::pcie), (std::vector<std::string>{"server0/cpu0", "server0/gpu2", "server0/gpu3"}));
  EXPECT_EQ(neighbours(spread, "server0/nic1", LinkKind::pcie), std::vector<std::string>{"server0/pcie_switch2"});
}

TEST(Servers, Errors) {
  EXPECT_EQ(error("single_switch", 2, R"("pcie_latency": "1 ns")"),
            "topology.json: /pcie_latency: needs \"pcie_bandwidth\": without it the topology has no PCIe");
  EXPECT_EQ(error("single_switch", 2, R"("pcie_switches_per_server": 2)"),
            "topology.json: /pcie_switches_per_server: needs \"pcie_bandwidth\": without it the topology has no PCIe");
  EXPECT_EQ(error("single_switch", 2, some_pcie + R"(, "pcie_switches_per_server": 9)"),
            "topology.json: /pcie_switches_per_server: must be a whole number from 1 to 8, not 9");
  EXPECT_EQ(error("single_switch", 2, R"("ports_per_nic": 3)"), "topology.json: /ports_per_nic: must be a whole number from 1 to 2, not 3");
  EXPECT_EQ(error("single_switch", 2, R"("pcie_bandwith": "1 GB/s")"),
            "topology.json: /pcie_bandwith: unknown key \"pcie_bandwith\"; did you mean \"pcie_bandwidth\"?");
  std::string odd = fabric("single_switch", 2, R"("ports_per_nic": 2)");
  odd.replace(odd.find("400 Gb/s"), 8, "3 b/s");
  EXPECT_EQ(error_of([&] { topology_of(odd); }), "topology.json: /nic_bandwidth: does not divide into 2 ports of whole b/s");
}

TEST(RailFabric, ASpineJoinsTheRails) {
  const Topology rails = topology_of(fabric("rail_fabric", 4, ""));
  EXPECT_TRUE(connected(topology_of(fabric("rail_fabric", 4, some_pcie))));  // in the servers
  EXPECT_EQ(neighbours(rails, "rail3"), (std::vector<std::string>{"server0/nic3", "server1/nic3", "server2/nic3", "server3/nic3"}));
  EXPECT_EQ(bisection_gbps(rails), 2 * 4 * 400);

  const Topology topology =
      topology_of(fabric("rail_fabric", 4, R"("spine": {"switches": 2, "oversubscription": "2", "latency": "300 ns"})"));
  EXPECT_EQ(vertices_by_kind(topology)[VertexKind::net_switch], 4 + 2);
  EXPECT_EQ(links_by_kind(topology)[LinkKind::network], 2 * (4 * 4 + 4 * 2));
  EXPECT_TRUE(network_connected(topology));
  EXPECT_EQ(neighbours(topology, "rail3")[1], "spine1");
  // 4 NICs of 400 Gb/s a rail, half of it up, over two switches.
  EXPECT_EQ(link(topology, "rail3", "spine1").bandwidth, parse_bandwidth("400 Gb/s"));
  EXPECT_EQ(link(topology, "spine1", "rail3").bandwidth, parse_bandwidth("400 Gb/s"));
  EXPECT_EQ(link(topology, "rail3", "spine1").latency, parse_duration("300 ns"));
  EXPECT_EQ(bisection_gbps(topology), 2 * 4 * 400);  // still on the rails
  const Topology given = topology_of(fabric("rail_fabric", 4, R"("spine": {"switches": 2, "bandwidth": "123 Gb/s", "latency": "0 ns"})"));
  EXPECT_EQ(link(given, "rail3", "spine1").bandwidth, parse_bandwidth("123 Gb/s"));
}

TEST(RailFabric, ErrorsOfItsSpine) {
  const auto spine = [](const std::string& text) { return error("rail_fabric", 4, R"("spine": )" + text); };
  const std::string where = "topology.json: /spine";
  EXPECT_EQ(spine(R"({"latency": "1 us"})"), where + ": needs the key \"switches\"");
  EXPECT_EQ(spine(R"({"switches": 2})"), where + ": needs the key \"latency\"");
  EXPECT_EQ(spine(R"({"switches": 70000, "latency": "1 us"})"), where + "/switches: must be a whole number from 1 to 65536, not 70000");
  EXPECT_EQ(spine(R"({"switches": 2, "latency": "1 us", "oversubscription": "1/2"})"),
            where + "/oversubscription: an oversubscription is at least 1, not 1/2");
  EXPECT_EQ(spine(R"({"switches": 2, "latency": "1 us", "oversubscription": 2, "bandwidth": "1 Gb/s"})"),
            where + "/bandwidth: an uplink's bandwidth follows from \"oversubscription\"; give one of the two");
  EXPECT_EQ(spine(R"({"switches": 2, "latency": "1 us", "oversubscription": "10000000000000"})"),
            where + "/oversubscription: leaves less than 1 b/s for an uplink");
  EXPECT_EQ(spine(R"({"switches": 2, "latency": "1 us", "oversubscripton": 2})"),
            where + "/oversubscripton: unknown key \"oversubscripton\"; did you mean \"oversubscription\"?");
}

TEST(LeafSpine, CarriesWhatTheOversubscriptionLeaves) {
  const Topology topology =
      topology_of(fabric("leaf_spine", 8, R"("servers_per_leaf": 2, "spine": {"switches": 4, "oversubscription": "4", "latency": "300 ns"})"));
  EXPECT_EQ(topology.name, "leaf_spine");
  EXPECT_EQ(boost::num_vertices(topology.graph), 4u + 4 + 8 * 13);
  EXPECT_EQ(links_by_kind(topology)[LinkKind::network], 2 * (8 * 4 + 4 * 4));
  EXPECT_EQ(neighbours(topology, "server5/nic0"), std::vector<std::string>{"leaf2"});
  EXPECT_EQ(neighbours(topology, "server5/nic3"), std::vector<std::string>{"leaf2"});
  // 8 NICs of 400 Gb/s a leaf, a quarter of it up, over 4 spines.
  EXPECT_EQ(link(topology, "leaf2", "spine3").bandwidth, parse_bandwidth("200 Gb/s"));
  EXPECT_TRUE(network_connected(topology));
  EXPECT_EQ(bisection_gbps(topology), 2 * 8 * 400 / 4);
  // Within a leaf nothing is oversubscribed: every other server, so that both halves are on all leaves.
  EXPECT_EQ(cut_gbps(topology, [](size_t s) { return s % 2 == 0; }), 4 * 4 * 400);
  EXPECT_EQ(error("leaf_spine", 8, R"("servers_per_leaf": 3, "spine": {"switches": 4, "latency": "300 ns"})"),
            "topology.json: /servers_per_leaf: must divide the number of servers, and 8 is no multiple of 3");
  EXPECT_EQ(error("leaf_spine", 8, R"("servers_per_leaf": 2)"), "topology.json: /: needs the key \"spine\"");
  EXPECT_EQ(error("leaf_spine", 8, R"("server_per_leaf": 2)"),
            "topology.json: /server_per_leaf: unknown key \"server_per_leaf\"; did you mean \"servers_per_leaf\"?");
  EXPECT_EQ(error("leaf_spine", 8192, R"("servers_per_leaf": 1, "spine": {"switches": 65536, "latency": "300 ns"})"),
            "topology.json: /spine/switches: makes more than 4 million links between switches, which is more than slackline holds");
}

TEST(FatTree, HasThreeTiers) {
  const std::string tiers = R"("servers_per_leaf": 2, "leaves_per_pod": 2, "aggregations_per_pod": 2, "cores": 4, "switch_latency": "300 ns")";
  const Topology topology = topology_of(fabric("fat_tree", 16, tiers));
  // 8 leaves in 4 pods.
  EXPECT_EQ(vertices_by_kind(topology)[VertexKind::net_switch], 4 + 4 * 4);
  EXPECT_EQ(links_by_kind(topology)[LinkKind::network], 2 * (16 * 4 + 4 * (2 * 2 + 4)));
  EXPECT_EQ(neighbours(topology, "server7/nic2"), std::vector<std::string>{"pod1/leaf1"});
  EXPECT_EQ(neighbours(topology, "core2"), (std::vector<std::string>{"pod0/agg1", "pod1/agg1", "pod2/agg1", "pod3/agg1"}));
  EXPECT_EQ(link(topology, "pod1/leaf1", "pod1/agg0").bandwidth, parse_bandwidth("1.6 Tb/s"));  // 8 NICs over 2
  EXPECT_EQ(link(topology, "pod1/agg0", "core1").bandwidth, parse_bandwidth("1.6 Tb/s"));       // 2 leaves over 2
  EXPECT_EQ(link(topology, "pod1/agg0", "core1").latency, parse_duration("300 ns"));
  EXPECT_TRUE(network_connected(topology));
  EXPECT_EQ(bisection_gbps(topology), 8 * 4 * 400);  // does not block

  const Topology narrow = topology_of(fabric("fat_tree", 16, tiers + R"(, "oversubscription": "2", "core_oversubscription": "3/2")"));
  EXPECT_EQ(link(narrow, "pod1/leaf1", "pod1/agg0").bandwidth, parse_bandwidth("800 Gb/s"));
  EXPECT_EQ(bisection_gbps(narrow), 4266);  // a third of 12,800, every link rounded down
  // The two leaves of a pod against each other are over the first tier only.
  EXPECT_EQ(cut_gbps(narrow, [](size_t s) { return s % 4 < 2; }), 8 * 4 * 400 / 2);
}

TEST(FatTree, Errors) {
  const auto tree = [](int servers, int leaf, int pod, int aggregations, int cores) {
    return error("fat_tree", servers, R"("switch_latency": "1 ns", "servers_per_leaf": )" + std::to_string(leaf) + R"(, "leaves_per_pod": )" +
                                          std::to_string(pod) + R"(, "aggregations_per_pod": )" + std::to_string(aggregations) + R"(, "cores": )" +
                                          std::to_string(cores));
  };
  EXPECT_EQ(tree(8, 3, 1, 1, 1), "topology.json: /servers_per_leaf: must divide the number of servers, and 8 is no multiple of 3");
  EXPECT_EQ(tree(8, 2, 3, 1, 1), "topology.json: /leaves_per_pod: must divide the number of leaves, and 4 is no multiple of 3");
  EXPECT_EQ(tree(8, 2, 2, 2, 3), "topology.json: /cores: must be a multiple of \"aggregations_per_pod\", since each aggregation switch of a pod "
                                 "has its own share of them; 3 is no multiple of 2");
  EXPECT_EQ(tree(1024, 1, 1, 1, 65536),
            "topology.json: /cores: makes more than 4 million links between switches, which is more than slackline holds");
  EXPECT_EQ(error("fat_tree", 8, R"("servers_per_leaf": 2, "leaves_per_pod": 2, "aggregations_per_pod": 2, "cores": 2)"),
            "topology.json: /: needs the key \"switch_latency\"");
  EXPECT_EQ(error("fat_tree", 8, R"("aggregation_per_pod": 2)"),
            "topology.json: /aggregation_per_pod: unknown key \"aggregation_per_pod\"; did you mean \"aggregations_per_pod\"?");
}

TEST(DualTor, PutsTheTwoPortsOfANicOnTwoSwitches) {
  const Topology topology =
      topology_of(fabric("dual_tor", 4, R"("servers_per_rack": 2, "spine": {"switches": 2, "oversubscription": "2", "latency": "300 ns"})"));
  EXPECT_EQ(vertices_by_kind(topology)[VertexKind::net_switch], 2 * 2 + 2);
  EXPECT_EQ(links_by_kind(topology)[LinkKind::network], 2 * (2 * 4 * 4 + 4 * 2));
  EXPECT_EQ(neighbours(topology, "server3/nic1"), (std::vector<std::string>{"tor1a", "tor1b"}));
  EXPECT_EQ(link(topology, "server3/nic1", "tor1b").bandwidth, parse_bandwidth("200 Gb/s"));
  // 8 ports of 200 Gb/s a switch, half of it up, over 2 spines.
  EXPECT_EQ(link(topology, "tor1b", "spine0").bandwidth, parse_bandwidth("400 Gb/s"));
  EXPECT_TRUE(network_connected(topology));
  EXPECT_EQ(bisection_gbps(topology), 2 * 4 * 400 / 2);

  const Topology rack = topology_of(fabric("dual_tor", 2, R"("servers_per_rack": 2, "port_bandwidth": "400 Gb/s")"));
  EXPECT_EQ(bisection_gbps(rack), 4 * 2 * 400);
  EXPECT_EQ(error("dual_tor", 4, R"("servers_per_rack": 2)"), "topology.json: /: needs the key \"spine\"");
  EXPECT_EQ(error("dual_tor", 4, R"("servers_per_rack": 3)"),
            "topology.json: /servers_per_rack: must divide the number of servers, and 4 is no multiple of 3");
  EXPECT_EQ(error("dual_tor", 2, R"("servers_per_rack": 2, "ports_per_nic": 2)").substr(0, 60),
            "topology.json: /ports_per_nic: unknown key \"ports_per_nic\"; ");
}

TEST(Fabrics, UplinkRatesThatOverflowAreErrors) {
  std::string huge = fabric("leaf_spine", 64, R"("servers_per_leaf": 64, "spine": {"switches": 1, "latency": "1 ns"})");
  huge.replace(huge.find("400 Gb/s"), 8, "1000000 TB/s");
  EXPECT_EQ(error_of([&] { topology_of(huge); }),
            "topology.json: /spine: an exact fraction grew beyond 64 bits; use simpler slowdowns or weights");
}

}  // namespace
}  // namespace slackline
