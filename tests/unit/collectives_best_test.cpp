#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/cluster.hpp"
#include "../support/playing.hpp"

namespace slackline::test {
namespace {

TEST(Best, IsTheFastestOfAllThatApply) {
  ClusterOptions options;
  options.nic_latency = "2 us";
  options.message_overhead = "20 ns";
  for (const int64_t bytes : {int64_t{1} << 10, int64_t{64} << 20}) {
    const Network network = cluster(8, {Fraction(2)}, options);
    const auto simulated = [&](const Schedule& schedule) {
      return simulate(network, schedule, MessageLayout(Bytes(bytes), Bytes(4), schedule.units()), {Sharing::fair, false}).time;
    };
    const auto time = [&](const std::string& json, std::vector<std::string>* notes = nullptr) {
      const Generated result = generated(network, json, Bytes(bytes), Sharing::fair, CollectiveType::allreduce, -1, simulated);
      EXPECT_EQ(findings(result.schedule), "");
      if (notes) *notes = result.notes;
      return simulated(result.schedule);
    };
    std::vector<std::string> notes;
    const Duration best = time(R"({"algorithm": "best", "max_transfers": 5000})", &notes);
    for (const char* name : {"ring", "r2ccl", "iccl", "recursive_halving_doubling"})
      EXPECT_LE(best, time(fmt::format(R"({{"algorithm": "{}"}})", name))) << name << " " << bytes;
    for (const char* name : {"optcc", "nested_rings"})
      EXPECT_LE(best, time(fmt::format(R"({{"algorithm": "{}", "max_transfers": 5000}})", name))) << name << " " << bytes;
    EXPECT_THAT(notes, testing::Contains(testing::StartsWith("1. ")));
    EXPECT_THAT(notes, testing::Contains(testing::HasSubstr("ring: ")));
  }
}

TEST(Best, TriesTheCandidatesOnly) {
  const Network network = cluster(6, {Fraction(2)});
  const auto simulated = [&](const Schedule& schedule) {
    return simulate(network, schedule, MessageLayout(Bytes(1 << 20), Bytes(4), schedule.units()), {Sharing::fair, false}).time;
  };
  const auto make = [&](const std::string& json) {
    return generated(network, json, Bytes(1 << 20), Sharing::fair, CollectiveType::allreduce, -1, simulated);
  };
  const Generated result = make(R"({"algorithm": "best", "candidates": ["ring", "iccl"]})");
  EXPECT_THAT(result.notes, testing::ElementsAre(testing::StartsWith("1. "), testing::StartsWith("2. ")));
  try {
    make(R"({"algorithm": "best", "candidates": ["rong"]})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("options: /candidates/0: "));
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"ring\""));
  }
}

TEST(Best, NeedsASimulator) {
  const Network network = cluster(4, {});
  EXPECT_THROW(generated(network, R"({"algorithm": "best"})"), Error);
}

}  // namespace
}  // namespace slackline::test
