#include <gtest/gtest.h>

#include "../support/cluster.hpp"
#include "../support/playing.hpp"
#include "collectives/nested_rings.hpp"

namespace slackline::test {
namespace {

const double n = static_cast<double>(int64_t{8} << 30) / 100e9;

std::vector<Fraction> fractions(const std::vector<std::string>& texts) {
  std::vector<Fraction> result;
  for (const std::string& text : texts) result.push_back(Fraction::parse(text));
  return result;
}

std::vector<Fraction> bandwidths(int p, const std::vector<std::string>& slowdowns) {
  std::vector<Fraction> result;
  for (const Fraction& l : fractions(slowdowns)) result.push_back(Fraction(1) / l);
  while (static_cast<int>(result.size()) < p) result.push_back(Fraction(1));
  std::sort(result.begin(), result.end());
  return result;
}

// T* over N/B, from its definition (design/bounds.md).
double optimum(const std::vector<Fraction>& c) {
  double sum = 0;
  for (const Fraction& bandwidth : c) sum += bandwidth.to_double();
  return std::max(2 * (static_cast<double>(c.size()) - 1) / sum, 1 / c.front().to_double());
}

// The examples of design/bounds.md.
TEST(NestedRings, CutTheMessageAsTheDesignSays) {
  const auto classes = [](int p, const std::vector<std::string>& slowdowns) {
    std::string text;
    for (const NestedRing& nested : nested_ring_classes(bandwidths(p, slowdowns)))
      text += fmt::format("{}:{} ", nested.ring, nested.part.to_string());
    return text;
  };
  EXPECT_EQ(classes(5, {"3/2"}), "5:5/21 4:16/21 ");
  EXPECT_EQ(classes(16, {"8/7"}), "16:664/889 15:225/889 ");
  EXPECT_EQ(classes(8, {"2", "2"}), "6:1 ");
  EXPECT_EQ(classes(16, {"2", "2", "2"}), "16:8/203 13:195/203 ");
  EXPECT_EQ(classes(4, {}), "4:1 ");
  EXPECT_EQ(classes(2, {"3/2"}), "2:1 ");
}

// A leaf sends 1 per unit of data, a ring server 1 + (p-2)/R: every server is busy for exactly T*, or, where the slowest
// alone binds, for at most that.
TEST(NestedRings, LoadEveryServerForExactlyTheBound) {
  const std::vector<std::string> values = {"8/7", "4/3", "3/2", "2", "3"};
  for (const int p : {4, 5, 8, 16, 33, 64}) {
    for (size_t a = 0; a < values.size(); ++a) {
      for (size_t b = a; b < values.size(); ++b) {
        for (const auto& slowdowns : std::vector<std::vector<std::string>>{{values[a]}, {values[a], values[b]}}) {
          if (static_cast<int>(slowdowns.size()) > p - 2) continue;
          const std::vector<Fraction> c = bandwidths(p, slowdowns);
          const Fraction time = std::max(Fraction(2 * (p - 1)) / [&] {
            Fraction sum(0);
            for (const Fraction& x : c) sum += x;
            return sum;
          }(), Fraction(1) / c.front());
          const bool volume_binds = time * c.front() > Fraction(1);
          Fraction whole(0);
          for (int v = 0; v < p; ++v) {
            Fraction load(0);
            whole = Fraction(0);
            for (const NestedRing& nested : nested_ring_classes(c)) {
              whole += nested.part;
              load += nested.part * (v >= p - nested.ring ? Fraction(1) + Fraction(p - 2, nested.ring) : Fraction(1));
            }
            const Fraction allowed = time * c[static_cast<size_t>(v)];
            if (volume_binds)
              EXPECT_EQ(load, allowed) << p << " " << v;
            else
              EXPECT_LE(load, allowed) << p << " " << v;
          }
          EXPECT_EQ(whole, Fraction(1));
        }
      }
    }
  }
}

struct Case {
  int p;
  std::vector<std::string> slowdowns;
};

double slack(const Case& c, int segments, bool check) {
  const Network network = cluster(c.p, fractions(c.slowdowns));
  const Generated result = generated(network, fmt::format(R"({{"algorithm": "nested_rings", "segments": {}}})", segments),
                                     Bytes(int64_t{8} << 30), Sharing::fair);
  if (check) {
    EXPECT_EQ(findings(result.schedule), "");
  }
  return seconds(network, result.schedule, Sharing::fair) / (optimum(bandwidths(c.p, c.slowdowns)) * n) - 1;
}

TEST(NestedRings, AreProvenRightForAnyStragglers) {
  for (const Case& c : std::vector<Case>{{2, {}}, {2, {"3/2"}}, {3, {"2"}}, {4, {"2", "3"}}, {5, {"3", "2", "8/7"}},
                                         {6, {"2", "2", "2", "2"}}, {7, {"3/2", "3/2", "4/3", "8/7"}}, {8, {"8/7"}},
                                         {9, {"3/2", "8/7"}}, {12, {"2", "4/3", "8/7"}}, {12, {"17/10", "29/23"}}}) {
    for (const int k : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("p = {}, m = {}, k = {}", c.p, c.slowdowns.size(), k));
      EXPECT_GT(slack(c, k, true), -1e-9);
    }
  }
}

TEST(NestedRings, ComeWithinAPercentOfTheBound) {
  for (const Case& c : std::vector<Case>{{4, {}}, {4, {"3"}}, {4, {"2", "2"}}, {8, {"8/7"}}, {8, {"2"}}, {8, {"3/2"}}, {8, {"2", "2"}},
                                         {16, {"8/7"}}, {16, {"4/3", "8/7"}}, {16, {"2", "2", "2"}}, {16, {"3", "2", "3/2", "8/7"}}}) {
    SCOPED_TRACE(fmt::format("p = {}, m = {}, first {}", c.p, c.slowdowns.size(), c.slowdowns.empty() ? "1" : c.slowdowns[0]));
    const double reached = slack(c, 200, false);
    EXPECT_GT(reached, -1e-9);
    EXPECT_LT(reached, 0.01);
  }
}

TEST(NestedRings, SliceOverTheRanksOfAServer) {
  for (const int g : {2, 8}) {
    ClusterOptions options;
    options.ranks_per_server = g;
    const std::vector<std::string> slowdowns = {"4/3", "8/7"};
    const Network network = cluster(8, fractions(slowdowns), options);
    const Generated result = generated(network, R"({"algorithm": "nested_rings", "segments": 60})", Bytes(int64_t{8} << 30), Sharing::fair);
    EXPECT_EQ(findings(result.schedule), "");
    const double time = seconds(network, result.schedule, Sharing::fair), nics = optimum(bandwidths(8, slowdowns)) * n / g;
    EXPECT_GT(time, nics);
    EXPECT_LT(time, nics * 1.06) << g;
  }
}

}  // namespace
}  // namespace slackline::test
