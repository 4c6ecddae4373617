// What a replay prints and writes.
#include "replay/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "replay_support.hpp"

namespace slackline {
namespace {

ReplayResult result_of(const std::string& algorithm, std::vector<double> times) {
  ReplayResult result;
  result.backend = "nccl";
  result.algorithm = algorithm;
  result.collective = testing::collective(CollectiveType::allreduce, 4);
  result.bytes = 4'000'000;
  result.transfers = algorithm == "ncclAllReduce" ? 0 : 24;
  result.times = std::move(times);
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ReplayReport, MediansAndBandwidthsAreThoseOfNcclTests) {
  const ReplayResult result = result_of("ring", {4e-3, 1e-3, 2e-3});
  EXPECT_EQ(result.median(), 2e-3);
  EXPECT_EQ(result.fastest(), 1e-3);
  EXPECT_EQ(result.slowest(), 4e-3);
  EXPECT_DOUBLE_EQ(result.algbw(), 2e9);
  EXPECT_DOUBLE_EQ(result.busbw(), 2e9 * 2 * 3 / 4);
  EXPECT_EQ(result_of("ring", {3.0, 1.0}).median(), 2.0);
}

TEST(ReplayReport, AReferenceHasARowOfItsOwn) {
  const std::vector<ReplayResult> results = {result_of("ring", {2e-3}), result_of("ncclAllReduce", {1e-3})};
  const std::vector<std::string> table = lines_of(replay_table(results));
  ASSERT_EQ(table.size(), 5u);
  EXPECT_NE(table[2].find(" 2000.00 "), std::string::npos);
  EXPECT_EQ(table[3], "# ncclAllReduce:");
  EXPECT_NE(table[4].find(" 1000.00 "), std::string::npos);
  const std::vector<std::string> csv = lines_of(replay_csv(results));
  ASSERT_EQ(csv.size(), 3u);
  EXPECT_EQ(csv[1].substr(0, 20), ",allreduce,ring,4,,,");
  EXPECT_NE(csv[2].find(",ncclAllReduce,"), std::string::npos);
  for (const std::string& line : csv) EXPECT_EQ(std::count(line.begin(), line.end(), ','), 20) << line;
}

TEST(ReplayReport, TracesAreValidJsonWithAnEventForEachMove) {
  const Plan plan = build_plan(testing::channel_rings(3, 2), Bytes(600), Bytes(4));
  std::vector<StepTimes> times;
  for (uint32_t s = 0; s < plan.steps().size(); ++s)
    if (plan.steps()[s].moves()) times.push_back({s, 1000 * s, 1000 * s + 500, 0});
  const Json trace = Json::parse(replay_trace(plan, times));
  size_t moves = 0, processes = 0, threads = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") {
      ++moves;
      EXPECT_EQ(event.at("dur"), 0.5);  // microseconds
      EXPECT_EQ(event.at("args").at("bytes"), 100);
    } else {
      EXPECT_EQ(event.at("ph"), "M");
      (event.at("name") == "process_name" ? processes : threads) += 1;
    }
  }
  EXPECT_EQ(moves, 24u);
  EXPECT_EQ(processes, 3u);
  EXPECT_EQ(threads, 6u);
  // Nothing to show is valid, too.
  const Plan empty = build_plan(Schedule(testing::collective(CollectiveType::allreduce, 2), 1), Bytes(4), Bytes(4));
  EXPECT_EQ(Json::parse(replay_trace(empty, {})).at("traceEvents").size(), 0u);
}

}  // namespace
}  // namespace slackline
