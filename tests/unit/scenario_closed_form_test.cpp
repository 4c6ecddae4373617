// Simulated times against the closed forms of design/optcc.md and the oracle: no latency, one flow a port.
#include <gtest/gtest.h>

#include <filesystem>

#include "../support/sanitized.hpp"
#include "base/json.hpp"
#include "scenarios.hpp"

namespace slackline {
namespace {

// Seconds that 8 GiB take at 100 GB/s.
const double n = 8.0 * (1 << 30) / 100e9;

double simulated_over_n(int ranks, const std::string& slowdown, const std::string& schedule) {
  StarScenario scenario;
  scenario.servers = ranks;
  scenario.slowdown = slowdown;
  scenario.sharing = "exclusive";
  scenario.schedule = schedule;
  const RunResult result = run_scenario(scenario.document());
  EXPECT_TRUE(result.valid()) << ranks << " " << slowdown << " " << schedule;
  return result.time ? static_cast<double>(result.time->count()) * 1e-12 / n : 0;
}

std::string optcc(int segments) { return fmt::format(R"({{"algorithm": "optcc", "segments": {}}})", segments); }

TEST(ClosedForm, OptccMeetsTheOracle) {
  const std::filesystem::path path = SLACKLINE_SHARED_DIR "/oracles/optcc_closed_form.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const Json oracle = read_json_file(path);
  int checked = 0;
  for (const Json& entry : oracle.at("cases")) {
    if (entry.at("slowdowns").size() != 1) continue;
    const int ranks = entry.at("p").get<int>();
    const std::string slowdown = entry.at("slowdowns").at(0).get<std::string>();
    const double expected = Fraction::parse(entry.at("time_over_n").get<std::string>()).to_double();
    const double actual = simulated_over_n(ranks, slowdown, optcc(entry.at("segments").get<int>()));
    EXPECT_NEAR(actual / expected, 1, 1e-6) << ranks << " " << slowdown;
    ++checked;
  }
  EXPECT_GE(checked, 12);
}

TEST(ClosedForm, OptccBeyondTheOracle) {
  for (const int ranks : {2, 3, 4, 7, 12, 21}) {
    for (const std::string slowdown : {"1", "16/15", "8/7", "6/5", "7/4", "2", "5/2", "4", "9"}) {
      for (const int segments : {4, 12}) {
        const double l = Fraction::parse(slowdown).to_double(), p = ranks, k = segments;
        const double expected = (k + 1) / k * std::max(2 * (p - 1) / (p - 2 + 2 / l), l);
        EXPECT_NEAR(simulated_over_n(ranks, slowdown, optcc(segments)) / expected, 1, 1e-6)
            << "p " << ranks << " l " << slowdown << " k " << segments;
      }
    }
  }
}

TEST(ClosedForm, OptccWithAnyNumberOfSegmentsIsRight) {
  // Not multiples of four: no closed form, but never faster than the last multiple and never invalid.
  for (const int segments : {1, 2, 3, 5, 6, 7, 9}) {
    const double time = simulated_over_n(6, "3/2", optcc(segments));
    EXPECT_GE(time, 2.0 * 5 / (4 + 4.0 / 3)) << segments;
    EXPECT_LE(time, 6) << segments;
  }
}

TEST(ClosedForm, Ring) {
  for (const int ranks : {2, 3, 8, 13}) {
    for (const std::string slowdown : {"1", "8/7", "2", "7/2"}) {
      const double p = ranks;
      const double expected = 2 * (p - 1) / p * Fraction::parse(slowdown).to_double();
      EXPECT_NEAR(simulated_over_n(ranks, slowdown, R"({"algorithm": "ring"})") / expected, 1, 1e-6) << ranks << " " << slowdown;
    }
  }
}

TEST(ClosedForm, LatencyIsPipelinedAndOverheadOccupies) {
  // 2(p-1) steps of a part each, with L and o once a step.
  StarScenario scenario;
  scenario.servers = 4;
  scenario.size = "4000 B";
  scenario.latency = "2 us";
  scenario.overhead = "20 ns";
  const RunResult result = run_scenario(scenario.document());
  ASSERT_TRUE(result.time);
  EXPECT_EQ(result.time->count(), 6 * (2'000'000 + 20'000 + 10'000));
}

TEST(Segments, AutoBeatsFixedNumbers) {
  StarScenario scenario;
  scenario.servers = 16;
  scenario.slowdown = "2";
  scenario.latency = "2 us";
  scenario.overhead = "20 ns";
  for (const std::string size : {"64 KiB", "16 MiB", "1 GiB"}) {
    scenario.size = size;
    scenario.schedule = R"({"algorithm": "optcc", "segments": "auto"})";
    const RunResult best = run_scenario(scenario.document());
    ASSERT_TRUE(best.time);
    for (const int segments : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      scenario.schedule = optcc(segments);
      const RunResult fixed = run_scenario(scenario.document());
      EXPECT_LE(static_cast<double>(best.time->count()), 1.001 * static_cast<double>(fixed.time->count()))
          << size << ": auto chose " << best.segments << ", but " << segments << " is faster";
    }
  }
}

TEST(Overhead, OptccStaysCloseToTheFaultFreeRing) {
  // Issue RUN, number 3, at the sizes that are quick enough for every test run.
  for (const auto& [servers, limit] : {std::pair{16, 0.08}, {64, 0.04}}) {
    if (sanitized && servers > 16) continue;  // a million transfers, which take a minute under the sanitizers
    for (const std::string slowdown : {"8/7", "2"}) {
      StarScenario scenario;
      scenario.servers = servers;
      scenario.slowdown = slowdown;
      scenario.latency = "2 us";
      scenario.overhead = "20 ns";
      scenario.schedule = R"({"algorithm": "optcc", "segments": "auto"})";
      const RunResult result = run_scenario(scenario.document());
      ASSERT_TRUE(result.overhead());
      EXPECT_LE(*result.overhead(), limit) << servers << " " << slowdown;
      EXPECT_GE(*result.slack(), 0);
    }
  }
}

}  // namespace
}  // namespace slackline
