// Utilisation, critical path and idle time, against hand-made schedules and against sums that must come out.
#include "report/numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/played.hpp"

namespace slackline {
namespace {

constexpr int64_t us = 1'000'000;  // picoseconds
const Bytes megabyte(1'000'000);   // 10 us at 100 GB/s
constexpr int64_t overhead = 20'000, latency = 2 * us;

std::vector<Wait> waits(const Numbers& numbers) {
  std::vector<Wait> list;
  for (const CriticalStep& step : numbers.path) list.push_back(step.waited_for);
  return list;
}

Duration share(const std::vector<TimeShare>& shares, const std::string& what) {
  for (const TimeShare& each : shares)
    if (each.what.find(what) != std::string::npos) return each.time;
  return {};
}

Duration sum(const std::vector<TimeShare>& shares) {
  Duration all;
  for (const TimeShare& each : shares) all += each.time;
  return all;
}

// What holds for every run that has finished.
void expect_consistent(const Numbers& numbers) {
  ASSERT_FALSE(numbers.path.empty());
  EXPECT_EQ(numbers.path.back().to, TimePoint() + numbers.time);
  for (size_t i = 0; i < numbers.path.size(); ++i) {
    const CriticalStep& step = numbers.path[i];
    EXPECT_EQ(step.from, i > 0 ? numbers.path[i - 1].to : TimePoint()) << i;
    EXPECT_EQ(step.to - step.from, step.waiting + step.stalled + step.overhead + step.sending + step.latency) << i;
    for (const Duration part : {step.waiting, step.stalled, step.overhead, step.sending, step.latency}) EXPECT_GE(part, Duration()) << i;
  }
  EXPECT_EQ(sum(numbers.path_shares), numbers.time);
}

TEST(Numbers, OneTransfer) {
  const Network network = star(2);
  const PlayedRun run = played(network, HandMade::schedule(2, {{0, 1}}), 1, megabyte);
  const Numbers numbers = run_numbers(run);
  expect_consistent(numbers);
  EXPECT_EQ(numbers.time, Duration(10 * us + overhead + latency));
  ASSERT_EQ(numbers.path.size(), 1u);
  EXPECT_EQ(numbers.path[0].overhead, Duration(overhead));
  EXPECT_EQ(numbers.path[0].sending, Duration(10 * us));
  EXPECT_EQ(numbers.path[0].latency, Duration(latency));
  EXPECT_EQ(numbers.path[0].waited_for, Wait::start);
  // One port sends and one receives; the two others are idle, the whole fabric is between them.
  EXPECT_EQ(numbers.used_ports, 2u);
  EXPECT_EQ(numbers.unused_ports, 2u);
  EXPECT_NEAR(numbers.mean_utilisation, 10.0 / 12.02, 1e-9);
  EXPECT_EQ(numbers.sent_by_servers, megabyte);
  ASSERT_EQ(numbers.kinds.size(), 1u);
  EXPECT_EQ(numbers.kinds[0].kind, LinkKind::network);
  EXPECT_EQ(numbers.kinds[0].bytes, Bytes(2'000'000));
  EXPECT_EQ(numbers.bottleneck_idle, Duration(latency));
  EXPECT_EQ(share(numbers.idle_reasons, "drain"), Duration(latency));
}

TEST(Numbers, TheNarrowestPortLimits) {
  // Rank 0 has half its NICs: what it receives is limited by its port, what others exchange by theirs.
  const Network network = star(3, 4);
  const PlayedRun run = played(network, HandMade::schedule(3, {{1, 2}, {2, 0, 0, {0}}}), 1, megabyte);
  const Numbers numbers = run_numbers(run);
  expect_consistent(numbers);
  EXPECT_EQ(waits(numbers), (std::vector<Wait>{Wait::start, Wait::dependency}));
  EXPECT_EQ(numbers.path[1].sending, Duration(20 * us));
  EXPECT_EQ(share(numbers.path_shares, "(receive)"), Duration(20 * us));
  EXPECT_EQ(share(numbers.path_shares, "latency"), Duration(2 * latency));
  ASSERT_TRUE(numbers.bottleneck);
  EXPECT_THAT(network.links()[numbers.bottleneck->link].name, testing::HasSubstr("(receive)"));
  EXPECT_EQ(share(numbers.idle_reasons, "fill"), Duration(10 * us + overhead + latency));
  EXPECT_EQ(share(numbers.idle_reasons, "drain"), Duration(latency));
}

TEST(Numbers, QueuesAndPorts) {
  const Network network = star(3);
  // One channel: the second waits for the first in rank 0's queue. The third waits in rank 2's.
  const Numbers queues = run_numbers(played(network, HandMade::schedule(3, {{0, 1}, {0, 2}, {1, 2}}), 1, megabyte));
  expect_consistent(queues);
  EXPECT_EQ(waits(queues), (std::vector<Wait>{Wait::start, Wait::send_queue, Wait::receive_queue}));
  // Two channels: nothing but the port holds the second back, and only where sharing is exclusive.
  const Schedule two = HandMade::schedule(3, {{0, 1, 0}, {0, 2, 1}});
  SimulateOptions exclusive;
  exclusive.sharing = Sharing::exclusive;
  const Numbers ports = run_numbers(played(network, two, 1, megabyte, exclusive));
  expect_consistent(ports);
  EXPECT_EQ(waits(ports), (std::vector<Wait>{Wait::start, Wait::port}));
  const Numbers fair = run_numbers(played(network, two, 1, megabyte));
  expect_consistent(fair);
  EXPECT_EQ(waits(fair), (std::vector<Wait>{Wait::start}));
  EXPECT_EQ(share(fair.path_shares, "(transmit)"), Duration(20 * us));
}

TEST(Numbers, WhyThePortWasIdleBetween) {
  // Rank 0 sends, waits until its first answer is there, and sends twice more.
  const Network network = star(2);
  const Numbers numbers = run_numbers(played(network, HandMade::schedule(2, {{0, 1}, {1, 0, 0, {0}}, {0, 1, 0, {1}}, {0, 1}}), 1, megabyte));
  expect_consistent(numbers);
  EXPECT_EQ(waits(numbers), (std::vector<Wait>{Wait::start, Wait::dependency, Wait::dependency, Wait::send_queue}));
  // In flight is the answer; before it has been sent, the first one is in flight too.
  EXPECT_EQ(share(numbers.idle_reasons, "in flight"), Duration(latency));
  EXPECT_EQ(share(numbers.idle_reasons, "being sent"), Duration(10 * us + overhead + latency));
  EXPECT_EQ(sum(numbers.idle_reasons), numbers.bottleneck_idle);
}

TEST(Numbers, ARankThatArrivesLate) {
  const Network network = star(3);
  const Numbers numbers = run_numbers(
      played(network, HandMade::schedule(3, {{0, 1}, {2, 1}}), 1, megabyte, {}, {Duration(), Duration(), Duration(50 * us)}));
  expect_consistent(numbers);
  EXPECT_EQ(waits(numbers), (std::vector<Wait>{Wait::late_rank}));
  EXPECT_EQ(numbers.path[0].waited_for_what, "rank 2");
  EXPECT_EQ(share(numbers.path_shares, "waiting for rank 2"), Duration(50 * us));
}

TEST(Numbers, ALinkThatIsDeadForAWhile) {
  const Network network = star(2);
  // All that leaves rank 0 stands still from 4 us to 9 us.
  std::vector<NetworkLink> links = network.links();
  for (NetworkLink& link : links)
    if (link.from == 0) link.capacity = Bandwidth(0);
  const auto dead = std::make_shared<const Network>(Network(network.vertices(), network.ranks(), links, network.message_overhead()));
  const auto alive = std::make_shared<const Network>(network.clone());
  SimulateOptions options;
  options.changes = [&](TimePoint after) -> std::optional<NetworkState> {
    if (after < TimePoint(4 * us)) return NetworkState{TimePoint(4 * us), dead, "cable out"};
    if (after < TimePoint(9 * us)) return NetworkState{TimePoint(9 * us), alive, "cable in"};
    return std::nullopt;
  };
  const Numbers numbers = run_numbers(played(network, HandMade::schedule(2, {{0, 1}}), 1, megabyte, options));
  expect_consistent(numbers);
  EXPECT_EQ(numbers.time, Duration(15 * us + overhead + latency));
  ASSERT_EQ(numbers.path.size(), 1u);
  EXPECT_EQ(numbers.path[0].stalled, Duration(5 * us));
  EXPECT_EQ(numbers.path[0].sending, Duration(10 * us));
  EXPECT_EQ(share(numbers.idle_reasons, "stood still"), Duration(5 * us));
}

TEST(Numbers, AddUpForEverySchedule) {
  for (const Sharing sharing : {Sharing::fair, Sharing::exclusive})
    for (const int failed : {0, 1, 4})
      for (const std::string algorithm : {"ring", "optcc", "nested_rings", "recursive_halving_doubling"}) {
        if (failed == 0 && algorithm == "optcc") continue;
        SCOPED_TRACE(algorithm + " " + std::to_string(failed) + (sharing == Sharing::fair ? " fair" : " exclusive"));
        Json settings = Json::object();
        if (algorithm == "optcc" || algorithm == "nested_rings") settings["segments"] = 8;
        SimulateOptions options;
        options.sharing = sharing;
        const PlayedRun run = played(star(8, failed), generated(algorithm, 8, CollectiveType::allreduce, settings, failed), 8,
                                     Bytes(int64_t{64} << 20), options);
        const Numbers numbers = run_numbers(run);
        expect_consistent(numbers);
        EXPECT_EQ(sum(numbers.idle_reasons), numbers.bottleneck_idle);
        for (const CriticalStep& step : numbers.path) EXPECT_NE(step.waited_for, Wait::other);
        EXPECT_EQ(numbers_json(run, numbers, 3).at("critical_path").at("last_steps").size(), std::min<size_t>(3, numbers.path.size()));
        EXPECT_THAT(numbers_text(run, numbers), testing::HasSubstr("critical path"));
      }
}

TEST(Numbers, NeedRecordedTimes) {
  PlayedRun run = played(star(2), HandMade::schedule(2, {{0, 1}}), 1, megabyte);
  run.result.recording = {};
  EXPECT_EQ(error_of([&] { run_numbers(run); }), "an explanation needs a run whose times were recorded");
}

}  // namespace
}  // namespace slackline
