// Cut bounds checked by hand, and what makes the whole library refuse a request.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "bounds/demand.hpp"
#include "bounds_networks.hpp"

namespace slackline {
namespace {

using namespace test;

std::vector<Bound> bounds_of(const Network& network, CollectiveType type, int64_t bytes,
                             int root = 0, int64_t element = 1) {
  return lower_bounds({network, collective(type, network, root), Bytes(bytes), Bytes(element)});
}

TEST(BoundsDemand, FollowsTheRoundingOfParts) {
  // 10 B of 4 B elements on 4 ranks: parts begin at 0, 2.5 -> 0, 5 -> 4, 7.5 -> 4 and end at 10.
  const Network network = star({gigabytes(1), gigabytes(1), gigabytes(1), gigabytes(1)});
  const BoundRequest request{network, collective(CollectiveType::allgather, network), Bytes(10),
                             Bytes(4)};
  const Demand demand(request);
  EXPECT_TRUE(demand.part(0) == 0 && demand.part(1) == 4 && demand.part(2) == 0 &&
              demand.part(3) == 6);
  EXPECT_TRUE(demand.leaving(demand.set_of({0, 1, 3})) == 10);
  EXPECT_TRUE(demand.entering(demand.set_of({0, 1, 3})) == 0);
  EXPECT_FALSE(demand.must_reach(0, 1));
  EXPECT_TRUE(demand.must_reach(1, 0));
}

TEST(BoundsDemand, IsWhatEachCollectiveMustMove) {
  const Network network = star(std::vector<Bandwidth>(4, gigabytes(1)));
  const auto leaving = [&](CollectiveType type, const std::vector<int>& set) {
    const BoundRequest request{network, collective(type, network, 1), Bytes(40)};
    const Demand demand(request);
    return static_cast<int>(demand.leaving(demand.set_of(set)));
  };
  using enum CollectiveType;
  struct Row {
    CollectiveType type;
    int without_root, with_root;  // {0}, and {0, 1, 2} with the root 1
  };
  for (const Row& row : {Row{allreduce, 40, 40}, Row{allgather, 10, 30},
                         Row{reduce_scatter, 30, 10}, Row{broadcast, 0, 40}, Row{reduce, 40, 0},
                         Row{gather, 10, 0}, Row{scatter, 0, 10}, Row{alltoall, 30, 30}}) {
    EXPECT_EQ(leaving(row.type, {0}), row.without_root) << to_string(row.type);
    EXPECT_EQ(leaving(row.type, {0, 1, 2}), row.with_root) << to_string(row.type);
    EXPECT_EQ(leaving(row.type, {}), 0);
    EXPECT_EQ(leaving(row.type, {0, 1, 2, 3}), 0);
  }
}

TEST(BoundsCut, NamesTheServer) {
  // 3 servers of 2, the last with half its NICs: 8 GiB must get into it through 2 x 50 GB/s.
  const Network network = rail(2, gigabytes(1000), {gigabytes(100), gigabytes(100), gigabytes(50)});
  const auto bounds = lower_bounds(
      {network, collective(CollectiveType::broadcast, network), Bytes(int64_t{8} << 30)});
  EXPECT_EQ(bounds[0].name, "server cut");
  EXPECT_EQ(bounds[0].certificate, "limited by server 2: 8 GiB must enter it through 100 GB/s");
  EXPECT_EQ(bounds[0].time, Duration(85'899'345'920));
  EXPECT_EQ(bounds[0].parts, (std::vector<std::vector<int>>{{4, 5}}));
  EXPECT_EQ(bounds[0].amount, Bytes(int64_t{8} << 30));
  EXPECT_EQ(bounds[0].capacity, gigabytes(100));
}

TEST(BoundsCut, FindsASetThatIsNoServer) {
  // Two triangles of fast links joined by one slow one: the cut is {0, 1, 2}, on one server.
  const Network network = mesh(
      {0, 1, 2, 3, 4, 5},
      {{0, 1, 4}, {1, 2, 4}, {0, 2, 4}, {3, 4, 4}, {4, 5, 4}, {3, 5, 4}, {2, 3, 1}}, gigabytes(10));
  const auto set_of = [&](CollectiveType type) {
    const auto bounds = bounds_of(network, type, 6'000'000'000, 4);
    const Bound* set = find(bounds, "set cut");
    EXPECT_NE(set, nullptr);
    EXPECT_EQ(set->time, bounds[0].time);
    EXPECT_EQ(set->capacity, gigabytes(10)) << describe(*set);
    EXPECT_EQ(set->parts.at(0).size(), 3u);
    return *set;
  };
  EXPECT_EQ(set_of(CollectiveType::broadcast).amount, Bytes(6'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::reduce).amount, Bytes(6'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::allreduce).amount, Bytes(6'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::allgather).amount, Bytes(3'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::reduce_scatter).amount, Bytes(3'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::gather).amount, Bytes(3'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::scatter).amount, Bytes(3'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::alltoall).amount, Bytes(9'000'000'000));
  EXPECT_EQ(set_of(CollectiveType::gather).certificate,
            "limited by ranks 0, 1, 2: 3 GB must leave them through 10 GB/s: algbw is at most 2 "
            "links' worth");
}

TEST(BoundsCut, AlltoallTriesUnionsOfWeakServers) {
  // 12 ranks, 6 of them on slow ports: 36 parts must leave these through 6 GB/s, 11 each of them
  // through 1.
  std::vector<Bandwidth> capacity(12, gigabytes(100));
  for (size_t rank = 0; rank < 6; ++rank) capacity[2 * rank] = gigabytes(1);
  const Network weak = star(capacity);
  EXPECT_EQ(bounds_of(weak, CollectiveType::alltoall, 12'000'000'000)[0].time,
            Duration(11'000'000'000'000));
  // Three fast ranks on each end of a thin link: 9 parts through 1 GB/s.
  std::vector<Wire> wires{{5, 6, 1}};
  std::vector<int> all;
  for (int rank = 0; rank < 12; ++rank) {
    all.push_back(rank);
    for (int other = rank + 1; other < 12; ++other)
      if (other / 6 == rank / 6) wires.push_back({rank, other, 50});
  }
  std::vector<NetworkVertex> vertices = mesh(all, wires, gigabytes(1)).vertices();
  for (int rank = 0; rank < 12; ++rank) vertices[static_cast<size_t>(rank)].server = rank / 6;
  const Network two(std::move(vertices), 12, mesh(all, wires, gigabytes(1)).links(), {});
  const auto bounds = bounds_of(two, CollectiveType::alltoall, 12'000'000'000);
  EXPECT_EQ(bounds[0].name, "server cut");
  EXPECT_EQ(bounds[0].time, Duration(36'000'000'000'000));
}

TEST(BoundsCut, RoundsTimesDown) {
  const Network network = star({Bandwidth(7), Bandwidth(7)});
  // 8 bits at 7 b/s: 1.142857142857142857.. s.
  EXPECT_EQ(bounds_of(network, CollectiveType::broadcast, 1)[0].time, Duration(1'142'857'142'857));
}

TEST(Bounds, AreSortedAndNeverNone) {
  const Network network = rail(2, gigabytes(300), {gigabytes(100), gigabytes(50)});
  const auto bounds = bounds_of(network, CollectiveType::allreduce, 1'000'000);
  EXPECT_GE(bounds.size(), 5u);
  for (size_t i = 1; i < bounds.size(); ++i) EXPECT_GE(bounds[i - 1].time, bounds[i].time);
  for (const Bound& bound : bounds) EXPECT_FALSE(bound.certificate.empty() || bound.source.empty());
  const auto nothing = bounds_of(network, CollectiveType::allreduce, 0);
  ASSERT_EQ(nothing.size(), 1u);
  EXPECT_EQ(nothing[0].time, Duration(0));
  EXPECT_EQ(nothing[0].certificate, "no rank needs anything of another");
}

std::string error_of(const BoundRequest& request) {
  try {
    lower_bounds(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.what();
  }
  return "no error";
}

TEST(Bounds, RefuseWhatDoesNotFit) {
  const Network network = star({gigabytes(1), gigabytes(1)});
  Collective job = collective(CollectiveType::broadcast, network);
  job.root = 2;
  EXPECT_EQ(error_of({network, job, Bytes(1)}), "the root 2 is none of the ranks 0 to 1");
  job.ranks = 3;
  EXPECT_EQ(error_of({network, job, Bytes(1)}), "the collective has 3 ranks, the network 2");
  job = collective(CollectiveType::allreduce, network);
  EXPECT_EQ(error_of({network, job, Bytes(-1)}),
            "a bound needs a message of at least 0 bytes and elements of at least 1 byte");
  EXPECT_EQ(error_of({network, job, Bytes(int64_t{1} << 62)}),
            "4194304 TiB on 2 ranks are more bytes in total than 64 bits count");
}

TEST(Bounds, RefuseWhatNoScheduleCanDo) {
  // 0 can send to 1, but nothing comes back.
  const Network one_way({{"a", 0}, {"b", 0}}, 2, {{"", 0, 1, gigabytes(1), {}, LinkKind::nvlink}},
                        {});
  using enum CollectiveType;
  for (const CollectiveType type : {allreduce, allgather, reduce_scatter, reduce, gather, alltoall})
    EXPECT_EQ(error_of({one_way, collective(type, one_way), Bytes(2)}),
              "no schedule can do this " + std::string(to_string(type)) +
                  ": rank 0 (a) and the other ranks have no path that it needs");
  EXPECT_EQ(error_of({one_way, collective(broadcast, one_way), Bytes(2)}), "no error");
  EXPECT_EQ(error_of({one_way, collective(scatter, one_way), Bytes(2)}), "no error");
  // Two pairs that know nothing of each other.
  const Network islands = mesh({0, 1, 2, 3}, {{0, 1, 1}, {2, 3, 1}}, gigabytes(1));
  EXPECT_EQ(error_of({islands, collective(broadcast, islands), Bytes(2)}),
            "no schedule can do this broadcast: ranks 0, 1 and the other ranks have no path that "
            "it needs");
}

}  // namespace
}  // namespace slackline
