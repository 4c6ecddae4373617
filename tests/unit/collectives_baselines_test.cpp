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

// design/baselines.md 6.1, with X = 1/8 .. 1/2 of the degraded server's bandwidth lost. As shipped, with K chunks in stage 2:
// T0 + (1 + 1/K)(l - 1) n. The paper's T0 + (l - 1) n = T0 (1 + p X/(2 (p-1)(1-X))) is what that comes to with ever more chunks, and
// since the rest goes as 1/K it is 2 T(2K) - T(K).
void r2ccl_meets_its_closed_forms(const std::vector<int>& servers) {
  for (const auto& [numerator, denominator] : std::vector<std::pair<int, int>>{{1, 8}, {1, 4}, {1, 3}, {3, 8}, {1, 2}}) {
    const Fraction lost(numerator, denominator), l = Fraction(1) / (Fraction(1) - lost);
    const double x = lost.to_double();
    for (const int p : servers) {
      const Network network = cluster(p, {Fraction(1), l});
      const auto time = [&](int chunks) {
        const Generated result =
            generated(network, fmt::format(R"({{"algorithm": "r2ccl", "form": "allreduce", "stage2_chunks": {}}})", chunks));
        EXPECT_EQ(findings(result.schedule), "");
        return seconds(network, result.schedule, Sharing::fair);
      };
      const auto shipped = [&](int chunks) { return ring_time(p) + (1 + 1.0 / chunks) * (l.to_double() - 1) * n; };
      SCOPED_TRACE(fmt::format("p = {}, l = {}", p, l.to_string()));
      const double one = time(1), two = time(2), four = time(4);
      EXPECT_NEAR(one / shipped(1), 1, 1e-6);
      EXPECT_NEAR(two / shipped(2), 1, 1e-6);
      EXPECT_NEAR(four / shipped(4), 1, 1e-6);
      const double paper = ring_time(p) * (1 + p * x / (2 * (p - 1) * (1 - x)));
      EXPECT_NEAR((2 * four - two) / paper, 1, 1e-6);
      const double balance = seconds(network, generated(network, R"({"algorithm": "r2ccl", "form": "balance"})").schedule, Sharing::fair);
      EXPECT_NEAR(balance / (ring_time(p) / (1 - x)), 1, 1e-6);
    }
  }
}

TEST(R2ccl, MeetsItsClosedForms) {
  r2ccl_meets_its_closed_forms({4, 7, 12});
  // Really near the limit.
  const Network network = cluster(4, {Fraction(2)});
  const Generated fine = generated(network, R"({"algorithm": "r2ccl", "form": "allreduce", "stage2_chunks": 1000})");
  EXPECT_NEAR(seconds(network, fine.schedule, Sharing::fair) / (ring_time(4) + n), 1, 1e-3);
}

TEST(R2cclLong, MeetsItsClosedForms) { r2ccl_meets_its_closed_forms({5, 6, 8, 9, 10, 11, 13, 14, 15, 16}); }

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

}  // namespace
}  // namespace slackline::test
