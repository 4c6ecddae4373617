#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "../support/cluster.hpp"
#include "../support/playing.hpp"

namespace slackline::test {
namespace {

constexpr double bandwidth = 100e9;
const double n = static_cast<double>(int64_t{8} << 30) / bandwidth;

std::vector<Fraction> fractions(const std::vector<std::string>& texts) {
  std::vector<Fraction> result;
  for (const std::string& text : texts) result.push_back(Fraction::parse(text));
  return result;
}

TEST(Optcc, MeetsTheClosedFormsOfTheOracle) {
  const std::filesystem::path path = std::filesystem::path(SLACKLINE_SHARED_DIR) / "oracles/optcc_closed_form.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Json oracle = read_json_file(path);
  size_t cases = 0;
  for (const Json& entry : oracle["cases"]) {
    const int p = entry["p"];
    const std::vector<Fraction> slowdowns = fractions(entry["slowdowns"]);
    std::string label = fmt::format("p = {}, k = {}, l =", p, entry["segments"].get<int>());
    for (const Fraction& l : slowdowns) label += " " + l.to_string();
    SCOPED_TRACE(label);
    const Network network = cluster(p, slowdowns);
    const Generated result =
        generated(network, fmt::format(R"({{"algorithm": "optcc", "segments": {}}})", entry["segments"].get<int>()));
    EXPECT_EQ(result.schedule.size(), entry["transfers"].get<size_t>());
    const double expected = Fraction::parse(entry["time_over_n"].get<std::string>()).to_double() * n;
    EXPECT_NEAR(list_seconds(network, result.schedule) / expected, 1, 1e-6);
    EXPECT_NEAR(seconds(network, result.schedule, Sharing::exclusive) / expected, 1, 1e-6);
    EXPECT_EQ(findings(result.schedule), "");
    ++cases;
  }
  EXPECT_GT(cases, 10u);
}

// Whatever the slowdowns, the closed form is never exceeded, and without the slots' dependencies the schedule is no slower.
TEST(Optcc, StaysWithinTheClosedForm) {
  for (const int p : {2, 3, 4, 5, 9, 16}) {
    for (const auto& texts : std::vector<std::vector<std::string>>{
             {}, {"8/7"}, {"3"}, {"2", "2"}, {"3", "8/7"}, {"4/3", "4/3", "4/3"}, {"8", "2", "5/4", "8/7"}}) {
      const auto slowdowns = fractions(texts);
      const int m = static_cast<int>(slowdowns.size());
      if (m >= p) continue;
      for (const int k : {4, 12}) {
        std::string label = fmt::format("p = {}, k = {}, l =", p, k);
        double widest = 1;
        for (const Fraction& l : slowdowns) {
          label += " " + l.to_string();
          widest = std::max(widest, l.to_double());
        }
        SCOPED_TRACE(label);
        const Network network = cluster(p, slowdowns);
        const auto run = [&](const char* pace) {
          const Generated result =
              generated(network, fmt::format(R"({{"algorithm": "optcc", "segments": {}, "pace": "{}"}})", k, pace));
          EXPECT_EQ(findings(result.schedule), "");
          return list_seconds(network, result.schedule);
        };
        const double h = p - m;
        const double closed = m <= 1 ? (k + 1.0) / k * std::max(2 * (p - 1) / (p - 2 + 2 / widest), widest) * n
                                     : (k + 3.0) / k * std::max(2.0, widest) * (h + m - 1) / h * n;
        const double slots = run("slots");
        if (m <= 1)
          EXPECT_NEAR(slots / closed, 1, 1e-6);
        else
          EXPECT_LE(slots, closed * (1 + 1e-6));
        EXPECT_LE(run("asap"), slots * (1 + 1e-6));
      }
    }
  }
}

// The slots' clock passes on a latency where it changes links, from h - 1 by m down and again, after h - 1 groups each but for the rest; in the two bodies with one lane of the ring, twice
// a group; and a few times in the bodies without. What else a latency delays has a slot to arrive in.
TEST(Optcc, HidesTheLatencyWithSeveralStragglers) {
  for (const int p : {8, 13}) {
    for (const auto& texts : std::vector<std::vector<std::string>>{{"2", "2"}, {"8/7", "8/7"}, {"2", "4/3", "8/7"}}) {
      const auto slowdowns = fractions(texts);
      const double m = static_cast<double>(slowdowns.size()), h = p - m, k = 64, latency = 2e-6;
      SCOPED_TRACE(fmt::format("p = {}, m = {}, l = {}", p, m, texts[0]));
      const auto run = [&](const char* more) {
        ClusterOptions options;
        options.nic_latency = more;
        const Network network = cluster(p, slowdowns, options);
        return list_seconds(network, generated(network, R"({"algorithm": "optcc", "segments": 64})").schedule);
      };
      const double without = run("0 us"), with = run("2 us"), groups = h + m - 1;
      const double changes = std::floor((h - 1) / m) + 1, stints = changes * (h - 1) - std::fmod(h - 1, m);
      EXPECT_LE(without, (k + 3) / k * 2 * groups / h * n * (1 + 1e-6));
      EXPECT_GT(with, without);
      EXPECT_LE(with - without, latency * ((k + 3) * groups * changes / stints + 4 * groups + 8));
    }
  }
}

TEST(Optcc, SlicesOverTheRanksOfAServer) {
  for (const int g : {2, 4, 8}) {
    for (const auto& texts : std::vector<std::vector<std::string>>{{}, {"8/7"}, {"2"}, {"2", "4/3"}}) {
      const auto slowdowns = fractions(texts);
      ClusterOptions options;
      options.ranks_per_server = g;
      const int servers = 6;
      const double k = 8, m = static_cast<double>(slowdowns.size());
      const Network network = cluster(servers, slowdowns, options);
      const Network single = cluster(servers, slowdowns);
      const double nics = list_seconds(single, generated(single, R"({"algorithm": "optcc", "segments": 8})").schedule) / g;
      // One NVLink phase of the whole message.
      const double nvlink = n * bandwidth / 900e9 * (g - 1) / g;
      const auto run = [&](const char* order) {
        const Generated result = generated(
            network, fmt::format(R"({{"algorithm": "optcc", "segments": 8, "nvlink": "{}"}})", order));
        EXPECT_EQ(findings(result.schedule), "");
        const double time = list_seconds(network, result.schedule);
        EXPECT_NEAR(seconds(network, result.schedule, Sharing::exclusive) / time, 1, 1e-6);
        return time;
      };
      const double overlapped = run("overlapped"), alternating = run("alternating");
      SCOPED_TRACE(fmt::format("g = {}, m = {}: NICs {}, NVLink {}, overlapped {}, alternating {}", g, m, nics, nvlink,
                               overlapped, alternating));
      // Only the first segments' reduce-scatter and the last ones' allgather stand outside the pipeline of the NICs.
      EXPECT_GT(overlapped, nics);
      EXPECT_LT(overlapped, nics + (m > 1 ? 2 : 4) * nvlink / k * 1.01);
      EXPECT_LT(overlapped, alternating);
      EXPECT_LE(alternating, (nics + 2 * nvlink) * (1 + 1e-6));
    }
  }
}

TEST(Optcc, ChoosesSegmentsAndStragglers) {
  ClusterOptions options;
  options.nic_latency = "2 us";
  options.message_overhead = "20 ns";
  const Network network = cluster(16, fractions({"2", "8/7", "8/7", "8/7"}), options);
  const auto time = [&](const std::string& more, std::string* notes = nullptr) {
    const Generated result = generated(network, R"({"algorithm": "optcc")" + more + "}");
    EXPECT_EQ(findings(result.schedule), "");
    for (size_t i = 0; notes && i < result.notes.size(); ++i) *notes += result.notes[i] + "\n";
    return list_seconds(network, result.schedule);
  };
  const double automatic = time("");
  for (const int k : {4, 16, 64, 256, 1024}) EXPECT_LE(automatic, time(fmt::format(R"(, "segments": {})", k)) * 1.002) << k;
  std::string notes;
  const double one = time(R"(, "stragglers": "auto")", &notes);
  EXPECT_NE(notes.find("stragglers: the 1 slowest of 4 slow servers"), std::string::npos) << notes;
  EXPECT_LT(one, 0.95 * automatic);
}

}  // namespace
}  // namespace slackline::test
