#include "topology/network.hpp"

#include <gtest/gtest.h>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"

namespace slackline {
namespace {

Failure dead_nics(int server, int count) {
  Failure failure;
  failure.server = server;
  failure.nic_count = count;
  failure.where = "s.json: /failures/0";
  return failure;
}

Failure dead_nic_list(int server, std::vector<int> nics) {
  Failure failure = dead_nics(server, 0);
  failure.nic_indices = std::move(nics);
  return failure;
}

Failure slow(int server, Fraction slowdown) {
  Failure failure = dead_nics(server, 0);
  failure.slowdown = slowdown;
  return failure;
}

RankSelection first_gpus(int count) {
  RankSelection selection;
  selection.gpus_per_server = count;
  selection.where = "s.json: /ranks";
  return selection;
}

RankSelection listed_gpus(std::vector<std::vector<int>> gpus) {
  RankSelection selection;
  selection.gpus = std::move(gpus);
  selection.where = "s.json: /ranks";
  return selection;
}

// A fabric of 4 servers with 8 GPUs and 8 NICs, after failures.
Topology damaged(const std::vector<Failure>& failures) {
  Topology topology = rail_fabric(4, 8, 8);
  apply_failures(topology, failures);
  return topology;
}

Bandwidth transmit_capacity(const Network& network, int rank) {
  for (const uint32_t link : network.out_links(rank))
    if (network.links()[link].kind == LinkKind::network) return network.links()[link].capacity;
  return Bandwidth(0);
}

TEST(Failures, OneDeadNicOfEightSlowsItsServerByEightSevenths) {
  const Network network = build_network(damaged({dead_nics(1, 1)}), first_gpus(1));
  ASSERT_EQ(network.ranks(), 4);
  EXPECT_EQ(network.slowdown(0), Fraction(1));
  EXPECT_EQ(network.slowdown(1), Fraction(8, 7));
  EXPECT_EQ(network.stragglers(), std::vector<int>{1});
  // 8 GPUs share 7 NICs of 800 Gb/s.
  EXPECT_EQ(transmit_capacity(network, 0), parse_bandwidth("800 Gb/s"));
  EXPECT_EQ(transmit_capacity(network, 1), parse_bandwidth("700 Gb/s"));
}

TEST(Failures, AddUp) {
  const Topology topology = damaged({dead_nics(0, 2), dead_nic_list(0, {2, 7}), slow(0, Fraction(3, 2)), slow(2, Fraction(2))});
  const Network network = build_network(topology, first_gpus(1));
  EXPECT_EQ(network.slowdown(0), Fraction(3));  // 4 of 8 NICs, each at 2/3
  EXPECT_EQ(network.slowdown(1), Fraction(1));
  EXPECT_EQ(network.slowdown(2), Fraction(2));
  EXPECT_EQ(network.stragglers(), (std::vector<int>{0, 2}));
}

TEST(Failures, SlowdownIsAgainstTheFastestServerThatIsLeft) {
  const Topology topology = damaged({slow(0, Fraction(4)), slow(1, Fraction(2)), slow(2, Fraction(2)), slow(3, Fraction(2))});
  const Network network = build_network(topology, first_gpus(1));
  EXPECT_EQ(network.slowdown(0), Fraction(2));
  EXPECT_EQ(network.slowdown(3), Fraction(1));
}

TEST(Failures, CountedOnesSpareNicsThatAreDeadAlready) {
  const Network network = build_network(damaged({dead_nic_list(0, {0, 1}), dead_nics(0, 2)}), first_gpus(1));
  EXPECT_EQ(network.slowdown(0), Fraction(2));
}

TEST(Failures, Errors) {
  const auto error = [](const std::vector<Failure>& failures) { return error_of([&] { damaged(failures); }); };
  const std::string where = "s.json: /failures/0: ";
  EXPECT_EQ(error({dead_nics(4, 1)}), where + "server 4 does not exist; the topology has servers 0 to 3");
  EXPECT_EQ(error({dead_nics(-1, 1)}), where + "server -1 does not exist; the topology has servers 0 to 3");
  EXPECT_EQ(error({dead_nics(0, 9)}), where + "server 0 has 8 NICs, of which 8 were still alive: 9 cannot fail");
  EXPECT_EQ(error({dead_nics(0, 5), dead_nics(0, 4)}),
            where + "server 0 has 8 NICs, of which 3 were still alive: 4 cannot fail");
  EXPECT_EQ(error({dead_nics(0, -1)}), where + "a number of NICs cannot be negative");
  EXPECT_EQ(error({dead_nic_list(0, {8})}), where + "server 0 has no NIC 8; it has NICs 0 to 7");
  EXPECT_EQ(error({dead_nic_list(0, {-1})}), where + "server 0 has no NIC -1; it has NICs 0 to 7");
  EXPECT_EQ(error({dead_nic_list(0, {3, 3})}), where + "NIC 3 of server 0 has failed already");
  EXPECT_EQ(error({slow(0, Fraction(1, 2))}), where + "a slowdown is at least 1, not 1/2");
  EXPECT_EQ(error({dead_nics(0, 8), slow(0, Fraction(2))}), where + "server 0 has no living NIC that could be slow");
  EXPECT_EQ(error({slow(0, Fraction(INT64_MAX)), slow(0, Fraction(2))}),
            where + "an exact fraction grew beyond 64 bits; use simpler slowdowns or weights");
}

TEST(BuildNetwork, RanksAreNumberedServerByServer) {
  const Network network = build_network(rail_fabric(3, 8, 4), first_gpus(2));
  EXPECT_EQ(network.ranks(), 6);
  EXPECT_EQ(network.servers(), 3);
  EXPECT_EQ(network.ranks_per_server(), 2);
  EXPECT_EQ(network.server_of(0), 0);
  EXPECT_EQ(network.server_of(3), 1);
  EXPECT_EQ(network.vertices()[5].name, "server2/gpu1");
  EXPECT_EQ(network.message_overhead(), parse_duration("20 ns"));
  // 4 NICs of 800 Gb/s for 8 GPUs.
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(transmit_capacity(network, rank), parse_bandwidth("400 Gb/s"));
}

TEST(BuildNetwork, ListsOfGpus) {
  EXPECT_EQ(build_network(rail_fabric(2, 8, 8), listed_gpus({{1, 3}})).ranks(), 4);  // for every server
  const Network uneven = build_network(rail_fabric(2, 8, 8), listed_gpus({{7}, {0, 1}}));
  EXPECT_EQ(uneven.ranks(), 3);
  EXPECT_EQ(uneven.ranks_per_server(), 0);
  EXPECT_EQ(uneven.vertices()[0].name, "server0/gpu7");
  const Network one = build_network(rail_fabric(2, 8, 8), listed_gpus({{0, 1}, {}}));
  EXPECT_EQ(one.servers(), 1);
  for (const NetworkLink& link : one.links()) EXPECT_EQ(link.kind, LinkKind::nvlink);
}

TEST(BuildNetwork, Errors) {
  const auto error = [](const RankSelection& selection) {
    return error_of([&] { build_network(rail_fabric(2, 4, 2), selection); });
  };
  EXPECT_EQ(error(first_gpus(5)), "s.json: /ranks: server 0 has no GPU 4; it has GPUs 0 to 3");
  EXPECT_EQ(error(listed_gpus({{0}, {1}, {2}})), "s.json: /ranks: lists GPUs for 3 servers, but the topology has 2");
  EXPECT_EQ(error(listed_gpus({{0, 0}})), "s.json: /ranks: GPU 0 of server 0 is listed twice");
  EXPECT_EQ(error(listed_gpus({{0}, {}})), "s.json: /ranks: a collective needs at least 2 ranks, and 1 is chosen");
  EXPECT_EQ(error_of([] { build_network(damaged({dead_nics(2, 8)}), first_gpus(1)); }),
            "s.json: /ranks: server 2 has no living NIC and so no path to the other servers");
  EXPECT_EQ(error_of([] { build_network(damaged({slow(0, Fraction(int64_t{1} << 40))}), first_gpus(1)); }),
            "s.json: /ranks: NIC share of server0/gpu0 (transmit) is left with less than 1 b/s");
}

TEST(Routes, OnAStarGoOutAndIn) {
  const Network network = build_network(rail_fabric(3, 8, 8), first_gpus(1));
  const Route& route = network.route(0, 2);
  ASSERT_EQ(route.links.size(), 2u);
  EXPECT_EQ(network.links()[route.links[0]].from, 0);
  EXPECT_EQ(network.links()[route.links[1]].to, 2);
  EXPECT_EQ(route.latency, parse_duration("2 us"));
  EXPECT_EQ(&network.route(0, 2), &route);  // stays where it is
  EXPECT_TRUE(network.route(1, 1).links.empty());
}

TEST(Routes, InsideAServerUseNvlinkAndBetweenServersTheNetwork) {
  const Network network = build_network(rail_fabric(2, 4, 4), first_gpus(4));
  const Route& inside = network.route(0, 3);
  ASSERT_EQ(inside.links.size(), 2u);
  for (const uint32_t link : inside.links) EXPECT_EQ(network.links()[link].kind, LinkKind::nvlink);
  EXPECT_EQ(inside.latency, parse_duration("500 ns"));
  const Route& outside = network.route(0, 7);
  ASSERT_EQ(outside.links.size(), 2u);
  for (const uint32_t link : outside.links) EXPECT_EQ(network.links()[link].kind, LinkKind::network);
  EXPECT_TRUE(network.route(5, 5).links.empty());
}

// A network of 3 ranks and a switch (vertex 3) with the links that are given as (from, to, kind, capacity in Gb/s).
struct TestLink {
  int from, to;
  LinkKind kind;
  int64_t capacity = 1;
};
Network small_network(const std::vector<TestLink>& list) {
  std::vector<NetworkLink> links;
  for (const TestLink& link : list)
    links.push_back({"link", link.from, link.to, Bandwidth(link.capacity * 1'000'000'000), Duration(1), link.kind});
  return Network({{"a", 0}, {"b", 0}, {"c", 0}, {"switch", 0}}, 3, links, Duration(0));
}

TEST(Routes, NvlinkBeforePcieBeforeNetwork) {
  using enum LinkKind;
  // Straight over the network or PCIe, or over the switch.
  EXPECT_EQ(small_network({{0, 1, network}, {0, 3, pcie}, {3, 1, pcie}}).route(0, 1).links, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(small_network({{0, 1, pcie}, {0, 3, nvlink}, {3, 1, nvlink}}).route(0, 1).links,
            (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(small_network({{0, 3, nvlink}, {3, 1, nvlink}, {0, 1, nvlink}}).route(0, 1).links,
            (std::vector<uint32_t>{2}));  // fewer links
  EXPECT_EQ(small_network({{0, 1, nvlink, 1}, {0, 1, nvlink, 3}, {0, 1, nvlink, 2}, {0, 1, pcie, 9}}).route(0, 1).links,
            (std::vector<uint32_t>{1}));  // the widest of equal ones
}

TEST(Routes, NeverPassThroughARank) {
  using enum LinkKind;
  const Network three = small_network({{0, 1, nvlink}, {1, 2, nvlink}, {0, 3, pcie}, {3, 2, pcie}});
  EXPECT_EQ(three.route(0, 2).links, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(three.route(0, 1).links, (std::vector<uint32_t>{0}));
}

TEST(Routes, ThatDoNotExistAreAnError) {
  using enum LinkKind;
  const Network three = small_network({{0, 1, nvlink}, {1, 2, nvlink}});
  EXPECT_TRUE(three.has_route(0, 1));
  EXPECT_FALSE(three.has_route(0, 2));
  EXPECT_FALSE(three.has_route(1, 0));
  EXPECT_EQ(error_of([&] { three.route(0, 2); }), "there is no path from rank 0 (a) to rank 2 (c)");
}

TEST(Routes, GoOverPcieWhereThatIsAllThereIs) {
  // Two GPUs of one server that share only a CPU: over PCIe, not out of the server.
  const Network network = build_network(topology_of(R"({"builder": "explicit", "vertices": [
      {"name": "a", "kind": "gpu", "server": 0}, {"name": "b", "kind": "gpu", "server": 0},
      {"name": "cpu", "kind": "cpu", "server": 0}, {"name": "n", "kind": "nic", "server": 0},
      {"name": "c", "kind": "gpu", "server": 1}, {"name": "m", "kind": "nic", "server": 1},
      {"name": "s", "kind": "switch"}],
      "links": [
      {"from": "a", "to": "cpu", "kind": "pcie", "bandwidth": "16 GB/s"},
      {"from": "b", "to": "cpu", "kind": "pcie", "bandwidth": "16 GB/s"},
      {"from": "n", "to": "s", "kind": "network", "bandwidth": "50 GB/s"},
      {"from": "m", "to": "s", "kind": "network", "bandwidth": "50 GB/s"}]})"), {});
  ASSERT_EQ(network.ranks(), 3);
  for (const uint32_t link : network.route(0, 1).links) EXPECT_EQ(network.links()[link].kind, LinkKind::pcie);
  for (const uint32_t link : network.route(0, 2).links) EXPECT_EQ(network.links()[link].kind, LinkKind::network);
  // a and b share their server's NIC; c has one alone.
  EXPECT_EQ(network.slowdown(0), Fraction(2));
  EXPECT_EQ(network.slowdown(2), Fraction(1));
}

}  // namespace
}  // namespace slackline
