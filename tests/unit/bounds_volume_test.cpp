// The volume bound over partitions, checked by hand and against all partitions of small graphs.
#include <gtest/gtest.h>

#include <random>

#include "bounds/strength.hpp"
#include "bounds/volume.hpp"
#include "bounds_networks.hpp"

namespace slackline {
namespace {

using namespace test;

int64_t between(const Network& network, const std::vector<int>& part_of) {
  return static_cast<int64_t>(capacity_between(network, part_of)) / 8'000'000'000;  // GB/s
}

TEST(BoundsVolume, CountsASwitchOnItsCheaperSide) {
  // Sending 1 + 2 + 3, receiving 10 + 10 + 10: what the three exchange passes 6 GB/s.
  std::vector<NetworkLink> links;
  for (int rank = 0; rank < 3; ++rank) {
    links.push_back({"", rank, 3, gigabytes(rank + 1), {}, LinkKind::network});
    links.push_back({"", 3, rank, gigabytes(10), {}, LinkKind::network});
  }
  const Network star({{"a", 0}, {"b", 1}, {"c", 2}, {"fabric", -1}}, 3, links, {});
  EXPECT_EQ(between(star, {0, 1, 2}), 6);
  // {a, b} to c: 1 + 2 out and 3 back if the fabric counts as unreached; c's 3 + 10 if it belongs
  // to {a, b}.
  EXPECT_EQ(between(star, {0, 0, 1}), 6);
  for (NetworkLink& link : links) std::swap(link.from, link.to);
  const Network turned({{"a", 0}, {"b", 1}, {"c", 2}, {"fabric", -1}}, 3, links, {});
  EXPECT_EQ(between(turned, {0, 1, 2}), 6);
}

TEST(BoundsVolume, PutsSwitchesIntoTheirServers) {
  const Network network = rail(4, gigabytes(300), {gigabytes(100), gigabytes(100), gigabytes(50)});
  // Servers: all that they send, 400 + 400 + 200. Ranks: (300 + NIC) each.
  EXPECT_EQ(between(network, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}), 1000);
  EXPECT_EQ(between(network, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), 12 * 300 + 1000);
  // One server's ranks against the rest: its NVLinks, and its NICs out and in.
  EXPECT_EQ(between(network, {0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4}), 4 * 300 + 2 * 400);
}

TEST(BoundsVolume, NvlinkOrNicsBind) {
  // optcc.md: at g = 8 and 100 GB/s NICs, NVLinks of 900 GB/s leave the NICs to bind, of 450 GB/s
  // they bind.
  const auto binding = [](int64_t nvlink) {
    const Network network = rail(8, gigabytes(nvlink), std::vector<Bandwidth>(16, gigabytes(100)));
    return lower_bounds(
        {network, collective(CollectiveType::allreduce, network), Bytes(int64_t{8} << 30)})[0];
  };
  EXPECT_EQ(binding(900).name, "theorem 3");
  EXPECT_EQ(binding(450).name, "rank volume");
  // 2 x 127 x 8 GiB through 128 x 550 GB/s.
  EXPECT_EQ(binding(450).time.count(), 30'992'093'556);
}

TEST(BoundsVolume, FindsThePartitionThatIsNeitherRanksNorServers) {
  // A ring of four with a pendant vertex on a thin link: 1 unit for that alone; all ranks would
  // give 9/4.
  const Network network =
      mesh({0, 1, 2, 3, 4}, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}, {3, 0, 2}, {3, 4, 1}}, gigabytes(10));
  const auto bounds =
      lower_bounds({network, collective(CollectiveType::allreduce, network), Bytes(1'000'000'000)});
  const Bound* partition = find(bounds, "partition volume");
  ASSERT_NE(partition, nullptr);
  EXPECT_EQ(partition->rate_in_links, Fraction(1));
  EXPECT_EQ(partition->parts, (std::vector<std::vector<int>>{{0, 1, 2, 3}, {4}}));
  EXPECT_EQ(partition->certificate,
            "limited by the capacity between the parts 0 1 2 3 | 4: an allreduce moves at least 2 "
            "x 1 x 1 GB "
            "between them, through 20 GB/s: algbw is at most 1 links' worth");
  EXPECT_EQ(find(bounds, "rank volume")->rate_in_links, Fraction(9, 4));
}

// The least capacity / (parts - 1) over all partitions, as a fraction, by trying them all.
Fraction strength_by_force(std::vector<int>& part_of, size_t next, int parts,
                           const std::vector<Edge>& edges) {
  if (next == part_of.size()) {
    if (parts < 2) return Fraction(1'000'000'000);
    int64_t capacity = 0;
    for (const Edge& edge : edges)
      if (part_of[static_cast<size_t>(edge.a)] != part_of[static_cast<size_t>(edge.b)])
        capacity += static_cast<int64_t>(edge.capacity);
    return Fraction(capacity, parts - 1);
  }
  Fraction least(1'000'000'000);
  for (int part = 0; part <= parts; ++part) {
    part_of[next] = part;
    least = std::min(least, strength_by_force(part_of, next + 1, std::max(parts, part + 1), edges));
  }
  return least;
}

TEST(BoundsStrength, EqualsTheBestOfAllPartitions) {
  std::mt19937 random(2026);
  int neither = 0;
  for (int round = 0; round < 300; ++round) {
    const int vertices = 2 + static_cast<int>(random() % 6);
    std::vector<Edge> edges;
    for (int a = 0; a < vertices; ++a)
      for (int b = a + 1; b < vertices; ++b)
        if (random() % 3 != 0) edges.push_back({a, b, Wide(1 + random() % (round % 2 ? 3 : 40))});
    std::vector<int> part_of(static_cast<size_t>(vertices));
    const Fraction expected = strength_by_force(part_of, 0, 0, edges);
    const Partition found = weakest_partition(vertices, edges);
    ASSERT_GE(found.parts, 2);
    EXPECT_EQ(Fraction(static_cast<int64_t>(found.capacity), found.parts - 1), expected)
        << "round " << round;
    neither += found.parts > 2 && found.parts < vertices;
  }
  EXPECT_GT(neither, 10);  // else the test would not have tried much
}

}  // namespace
}  // namespace slackline
