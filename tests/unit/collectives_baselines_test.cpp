#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "../support/cluster.hpp"
#include "../support/playing.hpp"

namespace slackline::test {
namespace {

const double n = static_cast<double>(int64_t{8} << 30) / 100e9;

double ring_time(int p) { return 2.0 * (p - 1) / p * n; }

TEST(Ring, UsesAllNicsOfAServer) {
  for (const int g : {1, 2, 4, 8}) {
    ClusterOptions options;
    options.ranks_per_server = g;
    for (const Fraction l : {Fraction(1), Fraction(8, 7), Fraction(2)}) {
      const Network network = cluster(4, {l}, options);
      const Generated result = generated(network, R"({"algorithm": "ring"})");
      EXPECT_EQ(findings(result.schedule), "");
      EXPECT_NEAR(seconds(network, result.schedule, Sharing::fair) / (l.to_double() * ring_time(4 * g) / g), 1, 1e-6) << g;
    }
  }
}

TEST(Ring, DoesTheHalvesOfAnAllreduceAlone) {
  ClusterOptions options;
  options.ranks_per_server = 2;
  const Network network = cluster(3, {}, options);
  for (const CollectiveType type : {CollectiveType::reduce_scatter, CollectiveType::allgather}) {
    const Generated result = generated(network, R"({"algorithm": "ring"})", Bytes(1 << 20), Sharing::fair, type);
    EXPECT_EQ(findings(result.schedule), "");
  }
}

// design/baselines.md: about twice the ring without failures where two channels share a NIC.
TEST(Iccl, TakesAsLongAsItsFullestNic) {
  for (const int g : {1, 4}) {
    ClusterOptions options;
    options.ranks_per_server = g;
    for (const auto& [l, load] : std::vector<std::pair<Fraction, double>>{
             {Fraction(1), 1}, {Fraction(8, 7), 2}, {Fraction(4, 3), 2}, {Fraction(2), 2}, {Fraction(8, 3), 3}, {Fraction(8), 8}}) {
      const Network network = cluster(5, {Fraction(1), l}, options);
      const Generated result = generated(network, R"({"algorithm": "iccl"})");
      EXPECT_EQ(findings(result.schedule), "");
      for (const Sharing sharing : {Sharing::fair, Sharing::exclusive})
        EXPECT_NEAR(seconds(network, result.schedule, sharing) / (load * ring_time(5 * g) / g), 1, 1e-6) << l.to_string();
    }
  }
}

TEST(RecursiveHalvingDoubling, MeetsItsClosedForm) {
  ClusterOptions options;
  options.nic_latency = "2 us";
  for (const int p : {2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32}) {
    const Network network = cluster(p, {}, options);
    const Generated result = generated(network, R"({"algorithm": "recursive_halving_doubling"})");
    EXPECT_EQ(findings(result.schedule), "") << p;
    const bool power = std::has_single_bit(static_cast<unsigned>(p));
    const double floor = std::bit_width(static_cast<unsigned>(p)) - 1;
    const double expected = power ? 2 * floor * 2e-6 + ring_time(p)
                                  : 2 * (floor + 1) * 2e-6 + 2 * n * (1.5 - std::exp2(-floor));
    EXPECT_NEAR(seconds(network, result.schedule, Sharing::exclusive) / expected, 1, 1e-6) << p;
    EXPECT_NEAR(seconds(network, result.schedule, Sharing::fair) / expected, 1, 1e-6) << p;
  }
  for (const CollectiveType type : {CollectiveType::reduce_scatter, CollectiveType::allgather}) {
    const Network network = cluster(8, {});
    const Generated result =
        generated(network, R"({"algorithm": "recursive_halving_doubling"})", Bytes(8 << 20), Sharing::fair, type);
    EXPECT_EQ(findings(result.schedule), "");
  }
}

TEST(Tree, NeedsTwiceTheMessageAndALogarithmOfLatencies) {
  for (const int p : {2, 3, 4, 7, 8, 16, 31, 33}) {
    const Network network = cluster(p, {});
    const Generated result = generated(network, R"({"algorithm": "tree", "segments": 200})", Bytes(int64_t{8} << 30), Sharing::fair);
    EXPECT_EQ(findings(result.schedule), "") << p;
    const double time = seconds(network, result.schedule, Sharing::fair);
    EXPECT_GT(time, ring_time(p) * (1 - 1e-9)) << p;
    EXPECT_LT(time, 2 * n * (1 + 0.02 * std::log2(p))) << p;
  }
  ClusterOptions options;
  options.nic_latency = "2 us";
  const Network network = cluster(64, {}, options);
  const Generated result = generated(network, R"({"algorithm": "tree", "segments": 1})", Bytes(1024), Sharing::fair);
  const double time = seconds(network, result.schedule, Sharing::fair, Bytes(1024));
  EXPECT_GE(time, 2 * 5 * 2e-6);
  EXPECT_LE(time, 2 * 7 * 2e-6 + 1e-6);
}

TEST(Tree, BroadcastsAndReducesFromAnyRoot) {
  for (const int g : {1, 2, 4}) {
    for (const int servers : {1, 2, 3, 6}) {
      if (g * servers < 2) continue;
      ClusterOptions options;
      options.ranks_per_server = g;
      const Network network = cluster(servers, {}, options);
      for (int root = 0; root < network.ranks(); root += 3) {
        for (const CollectiveType type : {CollectiveType::broadcast, CollectiveType::reduce}) {
          const Generated result = generated(network, R"({"algorithm": "tree", "segments": 100})", Bytes(int64_t{8} << 30),
                                             Sharing::fair, type, root);
          SCOPED_TRACE(fmt::format("g = {}, servers = {}, root = {}", g, servers, root));
          EXPECT_EQ(findings(result.schedule), "");
          if (servers > 1) EXPECT_LT(seconds(network, result.schedule, Sharing::fair), n / g * 1.15);
        }
      }
      const Generated result = generated(network, R"({"algorithm": "tree", "segments": 100})");
      EXPECT_EQ(findings(result.schedule), "");
    }
  }
}

TEST(Tree, ChoosesSegments) {
  ClusterOptions options;
  options.nic_latency = "2 us";
  options.message_overhead = "20 ns";
  const Network network = cluster(16, {}, options);
  for (const int64_t size : {int64_t{1} << 10, int64_t{1} << 20, int64_t{1} << 30}) {
    const auto simulate_fair = [&](const Schedule& schedule) {
      return simulate(network, schedule, MessageLayout(Bytes(size), Bytes(4), schedule.units()), {Sharing::fair, false}).time;
    };
    const auto time = [&](const std::string& more) {
      const Generated result = generated(network, R"({"algorithm": "tree")" + more + "}", Bytes(size), Sharing::fair,
                                         CollectiveType::allreduce, -1, simulate_fair);
      return seconds(network, result.schedule, Sharing::fair, Bytes(size));
    };
    const double automatic = time("");
    for (const int k : {1, 8, 64, 512}) EXPECT_LE(automatic, 1.02 * time(fmt::format(R"(, "segments": {})", k))) << size << " " << k;
  }
}

}  // namespace
}  // namespace slackline::test
