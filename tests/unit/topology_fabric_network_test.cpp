// Ways of transfers through fabrics with every NIC and switch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.hpp"
#include "topology/builders.hpp"
#include "topology/fabric_network.hpp"
#include "topology/failures.hpp"

namespace slackline {
namespace {

// `keys` beside those that all builders need; two servers of 2 GPUs and 2 NICs unless they say
// otherwise.
Topology fabric(const std::string& builder, const std::string& keys = "", int servers = 2,
                int gpus = 2, int nics = 2) {
  const Json json = parse_json(
      "{\"builder\": \"" + builder + "\", \"servers\": " + std::to_string(servers) +
          ", \"gpus_per_server\": " + std::to_string(gpus) +
          ", \"nics_per_server\": " + std::to_string(nics) +
          R"(, "nic_bandwidth": "50 GB/s", "nic_latency": "2 us", "message_overhead": "0 ns", "nvlink_bandwidth": "450 GB/s",
                                       "nvlink_latency": "1 us")" +
          keys + "}",
      "test");
  return build_topology(JsonCursor(json, "test"), {});
}

Topology with_dead_nic(Topology topology, int server, int nic, Fraction remaining = Fraction(0)) {
  Failure failure;
  failure.server = server;
  failure.nic_indices = {nic};
  failure.remaining = remaining;
  apply_failures(topology, {failure});
  return topology;
}

// The parts of its rate that a transfer has on each link, by name; "way" links, which stand for
// unknown PCIe, left out.
std::map<std::string, double> parts(const Topology& topology, int from, int to,
                                    const FabricOptions& options = {}) {
  const Network network = build_fabric_network(topology, {}, options);
  const Route& route = network.route(from, to);
  std::map<std::string, double> result;
  std::map<int, double> balance;  // what comes into a vertex less what leaves it
  for (size_t i = 0; i < route.links.size(); ++i) {
    const NetworkLink& link = network.links()[route.links[i]];
    const double part =
        route.weights.empty() ? 1 : static_cast<double>(route.weights[i]) / Route::whole;
    EXPECT_GT(link.capacity.count(), 0) << link.name;
    if (!link.name.starts_with("way ")) result[link.name] = part;
    balance[link.from] -= part;
    balance[link.to] += part;
  }
  // What passes through the way is whole everywhere.
  for (const auto& [vertex, sum] : balance)
    EXPECT_NEAR(sum,
                vertex == from ? -1
                : vertex == to ? 1
                               : 0,
                1e-5)
        << network.vertices()[static_cast<size_t>(vertex)].name;
  return result;
}

using Parts = std::map<std::string, double>;
constexpr const char* up0 = "network server0/nic0 -> rail0";
constexpr const char* down0 = "network rail0 -> server1/nic0";

TEST(FabricNetwork, RailsAreKept) {
  // Ranks 0, 1 are on server 0, 2 and 3 on server 1.
  EXPECT_EQ(parts(fabric("rail_fabric"), 0, 2), (Parts{{up0, 1}, {down0, 1}}));
}

TEST(FabricNetwork, OtherRailsAreReachedOverNvlinkOrOverTheSpine) {
  const std::string spine =
      R"(, "spine": {"switches": 2, "oversubscription": 1, "latency": "1 us"})";
  const Parts pxn = parts(fabric("rail_fabric", spine), 0, 3);
  EXPECT_EQ(pxn, (Parts{{"nvlink server0/gpu0 -> server0/nvswitch0", 1},
                        {"nvlink server0/nvswitch0 -> server0/gpu1", 1},
                        {"network server0/nic1 -> rail1", 1},
                        {"network rail1 -> server1/nic1", 1}}));
  FabricOptions over;
  over.pxn = false;
  const Parts ecmp = parts(fabric("rail_fabric", spine), 0, 3, over);
  EXPECT_EQ(ecmp.size(), 4u);  // one spine of the two
  EXPECT_EQ(ecmp, parts(fabric("rail_fabric", spine), 0, 3, over));
  over.spray = true;
  const Parts spray = parts(fabric("rail_fabric", spine), 0, 3, over);
  EXPECT_EQ(spray.at(up0), 1);
  EXPECT_EQ(spray.at("network rail0 -> spine0"), 0.5);
  EXPECT_EQ(spray.at("network spine1 -> rail1"), 0.5);
}

TEST(FabricNetwork, EcmpSpreadsFlowsBySeed) {
  // 8 pairs of servers over 4 spines: some seed gives another choice, and all spines are used by
  // some.
  const Topology topology = fabric(
      "leaf_spine",
      R"(, "servers_per_leaf": 8, "spine": {"switches": 4, "oversubscription": 1, "latency": "1 us"})",
      16, 1, 1);
  std::map<std::string, int> used;
  std::vector<Parts> first, second;
  for (int server = 0; server < 8; ++server)
    for (const uint64_t seed : {1, 2}) {
      FabricOptions options;
      options.seed = seed;
      const Parts way = parts(topology, server, 8 + server, options);
      for (const auto& [name, part] : way)
        if (name.starts_with("network leaf0 -> spine")) ++used[name];
      (seed == 1 ? first : second).push_back(way);
    }
  EXPECT_EQ(used.size(), 4u);
  EXPECT_NE(first, second);
}

TEST(FabricNetwork, ADeadNicsTrafficIsSharedOut) {
  // 1 of 4 NICs dead: GPU 0 takes a third of each other NIC, and whoever sends to it follows.
  const Topology topology = with_dead_nic(fabric("rail_fabric", "", 2, 4, 4), 0, 0);
  for (const auto& [from, to] : {std::pair(0, 4), std::pair(4, 0)}) {
    const Parts way = parts(topology, from, to);
    for (int rail = 1; rail < 4; ++rail)
      for (const auto& [name, part] : way)
        if (name.find("rail" + std::to_string(rail)) != std::string::npos) {
          EXPECT_NEAR(part, 1.0 / 3, 1e-6) << name;
        }
    for (const auto& [name, part] : way) EXPECT_EQ(name.find("rail0"), std::string::npos) << name;
  }
  EXPECT_EQ(parts(topology, 1, 5).size(), 2u);  // the others stay where they are
}

TEST(FabricNetwork, ASlowNicIsRelieved) {
  // NIC 0 of 4 at half its rate: the server has 3.5 of 4, so GPU 0 is due 7/8, of which its NIC has
  // 4/7 and the others 1/7 each.
  for (const std::string builder : {"single_switch", "rail_fabric"}) {
    const Topology topology = with_dead_nic(fabric(builder, "", 2, 4, 4), 0, 0, Fraction(1, 2));
    const Network network = build_fabric_network(topology, {}, {});
    std::map<std::string, double> load;  // of all four GPUs sending at the same rate
    for (int gpu = 0; gpu < 4; ++gpu)
      for (const auto& [name, part] : parts(topology, gpu, 4 + gpu))
        if (name.starts_with("network server0/")) load[name] += part;
    ASSERT_EQ(load.size(), 4u);
    for (const NetworkLink& link : network.links())
      if (load.contains(link.name)) {
        EXPECT_NEAR(load[link.name] / static_cast<double>(link.capacity.count()) * 400e9, 8.0 / 7,
                    1e-5)
            << builder << " " << link.name;
      }
  }
}

TEST(FabricNetwork, StripingTakesAllNics) {
  FabricOptions options;
  options.stripe = true;
  const Parts way = parts(fabric("rail_fabric"), 0, 2, options);
  EXPECT_EQ(way.at(up0), 0.5);
  EXPECT_EQ(way.at("network server0/nic1 -> rail1"), 0.5);
}

TEST(FabricNetwork, SeveralNicsAGpuAndSeveralGpusANic) {
  const Parts many = parts(fabric("rail_fabric", "", 2, 1, 4), 0, 1);
  EXPECT_EQ(many.size(), 8u);
  EXPECT_EQ(many.at(up0), 0.25);
  const Topology few = fabric("rail_fabric", "", 2, 4, 2);
  EXPECT_EQ(parts(few, 0, 4), parts(few, 1, 5));  // GPUs 0 and 1 have NIC 0
  EXPECT_EQ(parts(few, 2, 6).begin()->first, "network rail1 -> server1/nic1");
}

TEST(FabricNetwork, PortsOfANicShareEqually) {
  const Topology topology = fabric("dual_tor", R"(, "servers_per_rack": 2)");
  const Parts way = parts(topology, 0, 2);
  EXPECT_EQ(way.size(), 4u);
  for (const auto& [name, part] : way) EXPECT_EQ(part, 0.5) << name;
  // One port dead: its NIC has 1/2 of the server's 3/2, so that GPU 0, due 3/4, takes 2/3 of its
  // traffic by the other port.
  Topology damaged = topology;
  Failure port;
  port.server = 0;
  port.nic_indices = {0};
  port.port = 0;
  apply_failures(damaged, {port});
  const Parts left = parts(damaged, 0, 2);
  EXPECT_NEAR(left.at("network server0/nic0 -> tor0b"), 2.0 / 3, 1e-6);
  EXPECT_FALSE(left.contains("network server0/nic0 -> tor0a"));
}

TEST(FabricNetwork, PcieIsALimitWhereItIsKnown) {
  const Topology topology = fabric("rail_fabric", R"(, "pcie_bandwidth": "32 GB/s")");
  const Parts way = parts(topology, 0, 2);
  EXPECT_EQ(way.size(), 6u);  // GPU, PCIe switch, NIC, rail, NIC, PCIe switch, GPU
}

TEST(FabricNetwork, StatesHaveTheSameLinks) {
  const Topology whole = fabric(
      "fat_tree",
      R"(, "servers_per_leaf": 1, "leaves_per_pod": 2, "aggregations_per_pod": 2, "cores": 2, "switch_latency": "1 us")",
      4);
  const Network a = build_fabric_network(whole, {}, {}),
                b = build_fabric_network(with_dead_nic(whole, 1, 1), {}, {});
  ASSERT_EQ(a.links().size(), b.links().size());
  size_t dead = 0;
  for (size_t i = 0; i < a.links().size(); ++i) {
    EXPECT_EQ(a.links()[i].name, b.links()[i].name);
    dead += b.links()[i].capacity.count() == 0;
  }
  EXPECT_EQ(dead, 2u);
  EXPECT_TRUE(b.has_route(3, 7));
}

TEST(FabricNetwork, NoWayIsSaid) {
  Topology topology = with_dead_nic(fabric("rail_fabric", "", 2, 1, 2), 0, 0);
  topology = with_dead_nic(topology, 1, 1);  // one has only rail 1 left, the other only rail 0
  EXPECT_FALSE(build_fabric_network(topology, {}, {}).has_route(0, 1));
}

}  // namespace
}  // namespace slackline
