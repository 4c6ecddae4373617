// The latency bound, checked by hand.
#include <gtest/gtest.h>

#include "bounds_networks.hpp"

namespace slackline {
namespace {

using namespace test;

// 0 -> 1 -> 2 -> 0 with latencies 1, 2, 4 us, and 0.1 us for every message.
Network triangle() {
  return Network({{"a", 0}, {"b", 0}, {"c", 0}}, 3,
                 {{"", 0, 1, gigabytes(1), Duration(1'000'000), LinkKind::nvlink},
                  {"", 1, 2, gigabytes(1), Duration(2'000'000), LinkKind::nvlink},
                  {"", 2, 0, gigabytes(1), Duration(4'000'000), LinkKind::nvlink}},
                 Duration(100'000));
}

Bound latency(const Network& network, CollectiveType type, int64_t bytes = 3, int root = 0) {
  return *find(lower_bounds({network, collective(type, network, root), Bytes(bytes)}), "latency");
}

TEST(BoundsLatency, IsTheLongestShortestWayThatIsNeeded) {
  const Network network = triangle();
  using enum CollectiveType;
  // 1 -> 2 -> 0 and 2 -> 0 -> 1 take 6.2 and 5.2 us, 0 -> 1 -> 2 takes 3.2.
  for (const CollectiveType type : {allreduce, allgather, reduce_scatter, alltoall}) {
    EXPECT_EQ(latency(network, type).time, Duration(6'200'000)) << to_string(type);
    EXPECT_EQ(latency(network, type).parts, (std::vector<std::vector<int>>{{1}, {0}}));
  }
  for (const CollectiveType type : {broadcast, scatter})
    EXPECT_EQ(latency(network, type).time, Duration(3'200'000));
  for (const CollectiveType type : {reduce, gather})
    EXPECT_EQ(latency(network, type).time, Duration(6'200'000));
  EXPECT_EQ(latency(network, broadcast, 3, 1).time, Duration(6'200'000));
  EXPECT_EQ(latency(network, broadcast).certificate,
            "limited by the way from rank 0 (a) to rank 2 (c): latencies and message overhead add "
            "up to 3.2 us");
}

TEST(BoundsLatency, LeavesOutPartsThatAreEmpty) {
  const Network network = triangle();
  // One byte: only rank 2 has a part. So in an allgather 2 sends to 1 (5.2 us), in a reduce_scatter
  // 2 receives from 0 (3.2), and of an alltoall nothing is certain.
  EXPECT_EQ(latency(network, CollectiveType::allgather, 1).time, Duration(5'200'000));
  EXPECT_EQ(latency(network, CollectiveType::reduce_scatter, 1).time, Duration(3'200'000));
  EXPECT_EQ(latency(network, CollectiveType::gather, 1).time, Duration(4'100'000));
  EXPECT_EQ(latency(network, CollectiveType::alltoall, 1).time, Duration(0));
  EXPECT_EQ(latency(network, CollectiveType::allreduce, 1).time, Duration(6'200'000));
}

TEST(BoundsLatency, LargeNetworksAreSweptFromAFewRanks) {
  // 2000 ranks on a fabric; those that are farthest are found all the same: 3 us out of rank 1234.
  std::vector<NetworkLink> links =
      star(std::vector<Bandwidth>(2000, gigabytes(1)), Duration(2'000'000)).links();
  std::vector<NetworkVertex> vertices = star(std::vector<Bandwidth>(2000, gigabytes(1))).vertices();
  links[2 * 1234].latency = Duration(3'000'000);
  const Network network(std::move(vertices), 2000, std::move(links), Duration(50'000));
  const Bound bound = latency(network, CollectiveType::allreduce);
  EXPECT_EQ(bound.time, Duration(3'050'000));
  EXPECT_EQ(bound.parts.at(0), std::vector<int>{1234});
}

}  // namespace
}  // namespace slackline
