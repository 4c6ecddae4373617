#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "../support/cluster.hpp"
#include "../support/playing.hpp"
#include "base/files.hpp"
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

// The parts of design/bounds.md's classes come to the same loads: an owner of a part z sends 1 + (p-2) z. Every server is busy
// for exactly the bound, or, where the slowest alone binds, for at most that.
TEST(NestedRings, LoadEveryServerForExactlyTheBound) {
  const std::vector<std::string> values = {"8/7", "4/3", "3/2", "2", "3"};
  for (const int p : {3, 4, 5, 8, 16, 33, 64, 1024}) {
    for (const std::string& a : values) {
      for (const std::string& b : values) {
        for (const auto& slowdowns : std::vector<std::vector<std::string>>{{a}, {a, b}, {a, a, b}, {"1000", a, b}}) {
          if (static_cast<int>(slowdowns.size()) > p - 1) continue;
          std::vector<double> c;
          for (const Fraction& x : bandwidths(p, slowdowns)) c.push_back(x.to_double());
          const double bound = optimum(bandwidths(p, slowdowns));
          const std::vector<double> parts = nested_ring_parts(c);
          double whole = 0;
          for (size_t v = 0; v < c.size(); ++v) {
            whole += parts[v];
            const double busy = (1 + (p - 2) * parts[v]) / c[v];
            EXPECT_LE(busy, bound * (1 + 1e-12)) << p << " " << v;
            if (bound > 1 / c.front() + 1e-9) {
              EXPECT_NEAR(busy, bound, 1e-9) << p << " " << v;
            }
          }
          EXPECT_NEAR(whole, 1, 1e-12);
        }
      }
    }
  }
}

struct Case {
  int p;
  std::vector<std::string> slowdowns;
};

Generated rings(const Network& network, const std::string& more, Bytes size = Bytes(int64_t{8} << 30)) {
  const auto simulated = [&](const Schedule& schedule) {
    return simulate(network, schedule, MessageLayout(size, Bytes(4), schedule.units()), {Sharing::fair, false}).time;
  };
  return generated(network, R"({"algorithm": "nested_rings", )" + more + "}", size, Sharing::fair, CollectiveType::allreduce, -1, simulated);
}

double slack(const Case& c, int64_t segments, bool check, const std::string& more = "") {
  const Network network = cluster(c.p, fractions(c.slowdowns));
  const Generated result = rings(network, fmt::format(R"("segments": {}{})", segments, more));
  if (check) {
    EXPECT_EQ(findings(result.schedule), "");
  }
  return seconds(network, result.schedule, Sharing::fair) / (optimum(bandwidths(c.p, c.slowdowns)) * n) - 1;
}

std::string name(const Case& c) {
  std::string text = fmt::format("p = {}, l =", c.p);
  for (const std::string& l : c.slowdowns) text += " " + l;
  return text;
}

void prove(const std::vector<Case>& cases, const std::vector<int>& segments) {
  for (const Case& c : cases) {
    for (const int k : segments) {
      for (const char* more : {R"(, "flows": 1)", R"(, "flows": 5)", R"(, "exchange": "direct", "flows": 2)"}) {
        SCOPED_TRACE(name(c) + fmt::format(", k = {}", k) + more);
        EXPECT_GT(slack(c, k, true, more), -1e-9);
      }
    }
  }
}

TEST(NestedRings, AreProvenRightForAnyStragglers) {
  prove({{2, {"3/2"}}, {3, {"2", "2"}}, {4, {"2", "3"}}, {5, {"3", "2", "8/7"}}, {6, {"17/10", "29/23"}}}, {1, 3});
}

TEST(NestedRingsLong, AreProvenRightForAnyStragglers) {
  prove({{2, {}}, {3, {"2"}}, {6, {"2", "2", "2", "2"}}, {7, {"3/2", "3/2", "4/3", "8/7"}}, {8, {"8/7"}}, {9, {"3/2", "8/7"}},
         {12, {"2", "4/3", "8/7"}}, {12, {"17/10", "29/23"}}}, {1, 2, 5});
}

// (k+1)/k T* is what the pipeline promises, with an hair for what cannot be cut exactly.
void come_within_a_percent(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(name(c));
    const double reached = slack(c, 130, false);
    EXPECT_GT(reached, -1e-9);
    EXPECT_LT(reached, 0.01);
  }
}

TEST(NestedRings, ComeWithinAPercentOfTheBound) {
  come_within_a_percent({{4, {}}, {6, {"8/7"}}});
}

// Where half of the servers and more are slow, one flow between any two does not do, and not every number of flows does.
TEST(NestedRingsLong, ComeWithinAPercentOfTheBound) {
  come_within_a_percent({{4, {"2", "2"}}, {4, {"3"}}, {4, {"8/7", "8/7"}}, {8, {"8/7"}}, {8, {"2"}}, {8, {"2", "3/2"}}, {8, {"3/2"}},
                         {8, {"2", "2"}}, {16, {"8/7"}}, {16, {"4/3", "8/7"}},
                         {16, {"2", "2", "2"}}, {16, {"3", "2", "3/2", "8/7"}}, {33, {"3/2", "4/3"}}});
  const Case five{5, {"4/3", "3/2", "2"}};
  EXPECT_LT(slack(five, 200, false), 0.006);
  EXPECT_GT(slack(five, 200, false, R"(, "flows": 16)"), 0.03);
}

// Fewer elements than sections, sizes that nothing divides.
TEST(NestedRings, CutSmallMessages) {
  const Network network = cluster(9, fractions({"2", "8/7"}));
  for (const int64_t elements : {1, 2, 5, 23, 1001}) {
    for (const int k : {1, 3, 50}) {
      const Generated result = rings(network, fmt::format(R"("segments": {})", k), Bytes(4 * elements));
      EXPECT_EQ(findings(result.schedule), "") << elements << " " << k;
      EXPECT_EQ(result.schedule.units(), elements);
    }
  }
}

// Acceptance of issue 5: every p in 4..64, up to four stragglers, all multisets of five slowdowns. Reports the least number of
// segments that comes within 1 % into the file that SLACKLINE_NESTED_RINGS_TABLE names; SLACKLINE_NESTED_RINGS_SERVERS, "8" or
// "4-16", takes only those p.
TEST(NestedRingsLong, ComeWithinAPercentEverywhere) {
  int first = 4, last = 64;
  if (const char* range = std::getenv("SLACKLINE_NESTED_RINGS_SERVERS")) {
    const int read = std::sscanf(range, "%d-%d", &first, &last);
    ASSERT_GE(read, 1) << range;
    if (read == 1) last = first;
  }
  const char* file = std::getenv("SLACKLINE_NESTED_RINGS_TABLE");
  std::string table = "servers,slowdowns,segments,slack,flows,transfers\n";
  const std::vector<std::string> values = {"8/7", "4/3", "3/2", "2", "3"};
  std::vector<std::vector<std::string>> multisets;
  const std::function<void(std::vector<std::string>, size_t)> extend = [&](std::vector<std::string> chosen, size_t from) {
    multisets.push_back(chosen);
    for (size_t i = from; i < values.size() && chosen.size() < 4; ++i) {
      std::vector<std::string> more = chosen;
      more.push_back(values[i]);
      extend(more, i);
    }
  };
  extend({}, 0);
  ASSERT_EQ(multisets.size(), 126u);
  for (int p = first; p <= last; ++p) {
    for (const auto& slowdowns : multisets) {
      const Case c{p, slowdowns};
      if (static_cast<int>(slowdowns.size()) > p - 2) continue;
      SCOPED_TRACE(name(c));
      const Network network = cluster(p, fractions(slowdowns));
      const double goal = optimum(bandwidths(p, slowdowns)) * n;
      // The number of flows is decided once.
      const Generated probe = rings(network, R"("segments": 1)");
      std::string flows = "1";
      for (const std::string& note : probe.notes)
        if (note.starts_with("flows: at most ")) flows = note.substr(15, note.find(' ', 15) - 15);
      const auto miss = [&](int64_t k) {
        const Generated result = rings(network, fmt::format(R"("segments": {}, "flows": {})", k, flows));
        return seconds(network, result.schedule, Sharing::fair) / goal - 1;
      };
      // What is missing falls about as 1/k: upwards by that, then to where the line through the last two in 1/k says; to a fiftieth.
      int64_t low = 0, high = 16;
      double missed = 0, reached = miss(high);  // at low, at high
      while (reached >= 0.01 && high < 1024) {
        low = high;
        missed = reached;
        high = std::min<int64_t>(1024, high + std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(high) * std::min(reached / 0.01 - 1, 7.0))));
        reached = miss(high);
      }
      EXPECT_LT(reached, 0.01);
      for (int64_t step = std::max<int64_t>(high / 50, 1); high - low > step; step = std::max<int64_t>(high / 50, 1)) {
        int64_t next = (low + high) / 2;
        if (low > 0) {
          const double slope = (missed - reached) / (1.0 / static_cast<double>(low) - 1.0 / static_cast<double>(high));
          next = static_cast<int64_t>(std::ceil(1 / (1.0 / static_cast<double>(high) + (0.01 - reached) / slope)));
        }
        next = std::clamp(next, low + step, high - step);
        const double now = miss(next);
        (now < 0.01 ? high : low) = next;
        (now < 0.01 ? reached : missed) = now;
      }
      const Generated final = rings(network, fmt::format(R"("segments": {}, "flows": {})", high, flows));
      EXPECT_EQ(findings(final.schedule), "");
      EXPECT_GT(reached, -1e-9);
      std::string slowdown_text;
      for (const std::string& l : slowdowns) slowdown_text += (slowdown_text.empty() ? "" : ";") + l;
      table += fmt::format("{},{},{},{:.6f},{},{}\n", p, slowdown_text, high, reached, flows, final.schedule.size());
    }
    if (file) write_file_atomically(file, [&](std::ostream& out) { out << table; });
  }
}

void slice_over(int servers, int g) {
  ClusterOptions options;
  options.ranks_per_server = g;
  const std::vector<std::string> slowdowns = {"4/3", "8/7"};
  const Network network = cluster(servers, fractions(slowdowns), options);
  const Generated result = generated(network, R"({"algorithm": "nested_rings", "segments": 60})", Bytes(int64_t{8} << 30), Sharing::fair);
  EXPECT_EQ(findings(result.schedule), "");
  const double time = seconds(network, result.schedule, Sharing::fair), nics = optimum(bandwidths(servers, slowdowns)) * n / g;
  EXPECT_GT(time, nics);
  EXPECT_LT(time, nics * 1.05) << g;
}

TEST(NestedRings, SliceOverTheRanksOfAServer) { slice_over(5, 2); }
TEST(NestedRingsLong, SliceOverTheRanksOfAServer) { slice_over(8, 8); }

}  // namespace
}  // namespace slackline::test
