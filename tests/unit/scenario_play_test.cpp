// Failures while a collective runs, and what is done about them, against closed forms and against the plain simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios.hpp"
#include "support/expect_error.hpp"

namespace slackline {
namespace {

// Servers on a rail fabric of 50 GB/s NICs without latency, and the rest of a scenario as JSON text.
ScenarioDocument cluster(int servers, int gpus, int nics, const std::string& rest) {
  return {parse_json(fmt::format(R"({{"name": "test",
            "topology": {{"builder": "rail_fabric", "servers": {}, "gpus_per_server": {}, "nics_per_server": {},
                          "nic_bandwidth": "50 GB/s", "nic_latency": "0 us", "message_overhead": "0 ns",
                          "nvlink_bandwidth": "900 GB/s", "nvlink_latency": "0 us"}}, {}}})",
                                 servers, gpus, nics, rest),
                     "test"),
          "test", "."};
}

double ms(const std::optional<Duration>& time) { return time ? static_cast<double>(time->count()) * 1e-9 : -1; }

// A ring of two ranks: each sends half a gigabyte twice, at 50 GB/s a NIC.
constexpr const char* gigabyte_ring = R"("collective": {"type": "allreduce", "size": "1000000000 B"}, "schedule": {"algorithm": "ring"})";

TEST(Failures, RerouteAtHalfTime) {
  // Two NICs a GPU: 10 ms. NIC 0 of server 0 dies at 5 ms, when half is done; 1 ms later the rest goes at half the speed.
  const RunResult result = run_scenario(cluster(2, 1, 2, std::string(gigabyte_ring) +
      R"(, "failures": [{"server": 0, "nics": [0], "at": "5 ms"}],
      "recovery": {"policy": "reroute", "detection": "600 us", "migration": "400 us", "acknowledged_chunk": "1 B"})"));
  EXPECT_NEAR(ms(result.undisturbed), 10, 1e-6);
  EXPECT_NEAR(ms(result.time), 5 + 1 + 10, 1e-6);
  EXPECT_NEAR(ms(result.detection), 1, 1e-9);
  EXPECT_LE(result.lost.count(), 4);
}

TEST(Failures, RerouteSendsTheUnacknowledgedAgain) {
  // At 4 ms each direction has sent 400 of 500 MB; with chunks of 300 MB only 300 count. 100 MB more at 50 GB/s: 2 ms.
  const RunResult result = run_scenario(cluster(2, 1, 2, std::string(gigabyte_ring) +
      R"(, "failures": [{"server": 0, "nics": [0], "at": "4 ms"}],
      "recovery": {"policy": "reroute", "detection": "1 ms", "acknowledged_chunk": "300000000 B"})"));
  EXPECT_NEAR(ms(result.time), 4 + 1 + (200 + 500) / 50.0, 1e-6);
  EXPECT_EQ(result.lost.count(), 200'000'000);
  EXPECT_NEAR(ms(result.resending), 2, 1e-6);
}

TEST(Failures, BytesThatGoInComeOutOrAreLost) {
  const ScenarioDocument document = cluster(3, 2, 4, R"("collective": {"type": "allreduce", "size": "1000000000 B"}, "ranks": {"gpus_per_server": 1},
      "schedule": {"algorithm": "optcc", "segments": 8}, "failures": [{"server": 1, "nics": [0], "at": "3 ms", "until": "9 ms"},
      {"server": 2, "nics": [1], "at": "5 ms"}], "recovery": {"policy": "reroute", "detection": "700 us"})");
  const RunResult result = run_scenario(document, {.record_times = true});
  ASSERT_TRUE(result.time);
  ASSERT_TRUE(result.played);
  const SimulateResult& played = result.played->result;
  int64_t out = 0;
  const Network& network = result.played->network;
  for (size_t i = 0; i < network.links().size(); ++i)
    if (network.links()[i].kind == LinkKind::network && network.vertices()[static_cast<size_t>(network.links()[i].from)].server >= 0)
      out += played.links[i].bytes.count();
  EXPECT_GT(result.lost.count(), 0);
  const PlayedGroup& group = result.played->groups.front();
  int64_t delivered = 0;
  for (size_t i = 0; i < group.schedule.size(); ++i)
    delivered += group.layout.length(group.schedule.chunks()[group.schedule.src_chunk(i)], group.schedule.chunks()[group.schedule.dst_chunk(i)]);
  // Parts of a byte are lost to rounding where a flow is striped.
  EXPECT_NEAR(static_cast<double>(out), static_cast<double>(delivered + played.lost.count()), 1000);
}

TEST(Failures, FlappingTakesAsMuchLongerAsItIsDown) {
  // One NIC a server, 20 ms. From 1 ms on down for the first 3/4 ms of every 2 ms: 1 ms and 15 periods leave 0.25 ms to do.
  const RunResult result = run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) +
      R"(, "failures": [{"server": 1, "nics": [0], "at": "1 ms", "flap": {"period": "2 ms", "duty": "3/8"}}])"));
  EXPECT_NEAR(ms(result.time), 1 + 30 + 0.75 + 0.25, 1e-6);
}

TEST(Failures, NothingIsDone) {
  const RunResult result = run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + R"(, "failures": [{"server": 1, "nics": [0], "at": "15 ms"}])"));
  EXPECT_FALSE(result.time);
  EXPECT_EQ(result.status, PlayStatus::stalled);
  EXPECT_THAT(result.waiting.front(), testing::HasSubstr("server1/nic0"));
  // It comes back: as if time had stood still.
  EXPECT_NEAR(ms(run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + R"(, "failures": [{"server": 1, "nics": [0], "at": "15 ms", "until": "40 ms"}])")).time), 45, 1e-6);
}

TEST(Failures, NoNicIsLeft) {
  for (const std::string policy : {"reroute", "restart", "replan"}) {
    const RunResult result = run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + fmt::format(R"(, "failures": [{{"server": 1, "nics": [0], "at": "15 ms"}}],
        "recovery": {{"policy": "{}", "detection": "1 ms", "planning": "1 ms"}})", policy)));
    EXPECT_EQ(result.status, PlayStatus::stalled) << policy;
    EXPECT_FALSE(result.waiting.empty()) << policy;
  }
}

TEST(Failures, RestartAgainstReplan) {
  const std::string rest = R"("collective": {"type": "allreduce", "size": "1 GiB"}, "schedule": {"algorithm": "optcc", "segments": 16}, "network": {"nics": "each"})";
  const std::string failure = R"(, "failures": [{"server": 0, "nics": [0]}])";
  const std::string timed = R"(, "failures": [{"server": 0, "nics": [0], "at": "9 ms"}], "recovery": {"policy": "POLICY", "detection": "1 ms", "planning": "2 ms"})";
  const auto with = [&](const std::string& policy) {
    std::string text = timed;
    return text.replace(text.find("POLICY"), 6, policy);
  };
  const double damaged = ms(run_scenario(cluster(5, 1, 2, rest + failure)).time);
  const RunResult restart = run_scenario(cluster(5, 1, 2, rest + with("restart")), {.record_times = true});
  EXPECT_NEAR(ms(restart.time), 9 + 1 + 2 + damaged, 1e-6);
  EXPECT_NEAR(ms(restart.discarded), 9, 1e-9);
  EXPECT_EQ(restart.attempts, 2);
  EXPECT_EQ(restart.played->groups.size(), 2u);

  const RunResult replan = run_scenario(cluster(5, 1, 2, rest + with("replan")), {.record_times = true});
  ASSERT_EQ(replan.played->groups.size(), 2u);
  const Bytes left(replan.played->groups[1].layout.size());
  EXPECT_LT(left.count(), int64_t{1} << 30);
  EXPECT_GT(left.count(), 0);
  // What is left takes as long as a message of that size on the damaged network.
  ScenarioDocument smaller = cluster(5, 1, 2, rest + failure);
  set_path(smaller.json, "collective.size", std::to_string(left.count()) + " B", "test");
  EXPECT_NEAR(ms(replan.time), 9 + 1 + 2 + ms(run_scenario(smaller).time), 1e-6);
  EXPECT_LT(ms(replan.time), ms(restart.time));
}

TEST(Failures, FailureDuringRecovery) {
  const RunResult result = run_scenario(cluster(3, 1, 4, R"("collective": {"type": "allreduce", "size": "1 GiB"}, "schedule": {"algorithm": "ring"},
      "failures": [{"server": 0, "nics": [0], "at": "2 ms"}, {"server": 1, "nics": [1], "at": "2500 us"}, {"server": 0, "nics": [2], "at": "6 ms"}],
      "recovery": {"policy": "restart", "detection": "1 ms", "planning": "1 ms"})"));
  ASSERT_TRUE(result.time);
  EXPECT_EQ(result.attempts, 3);  // the second failure is part of what the first restart plans for
}

TEST(Failures, SlowReductionsLimitWhatARankReceives) {
  // Of the two steps of the ring only the first reduces, at 10 instead of 50 GB/s.
  const RunResult result = run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + R"(, "failures": [{"server": 0, "gpu": 0, "reduction": "10 GB/s"}])"));
  EXPECT_NEAR(ms(result.time), 50 + 10, 1e-6);
  const RunResult each = run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + R"(, "failures": [{"server": 0, "gpu": 0, "reduction": "10 GB/s"}], "network": {"nics": "each"})"));
  EXPECT_NEAR(ms(each.time), 50 + 10, 1e-6);
}

// All groups of a job, each on its NIC, against one group on shares of NICs. `fabric` replaces the builder.
void expect_agreement(const std::string& fabric, const std::string& algorithm) {
  for (const int dead : {0, 1, 2, 4}) {
    const std::string rest = fmt::format(R"("collective": {{"type": "allreduce", "size": "1 GiB"}}, "schedule": {}, "failures": [{{"server": 0, "nics": {}}}])", algorithm, dead);
    ScenarioDocument one = cluster(6, 8, 8, rest + R"(, "ranks": {"gpus_per_server": 1})");
    ScenarioDocument every = cluster(6, 8, 8, rest + R"(, "ranks": {"gpus_per_server": 1, "groups": "all"})");
    set_path(one.json, "topology.builder", fabric, "test");
    set_path(every.json, "topology.builder", fabric, "test");
    const RunResult share = run_scenario(one), all = run_scenario(every);
    ASSERT_TRUE(share.time && all.time) << algorithm << " " << dead;
    EXPECT_NEAR(ms(all.time) / ms(share.time), 1, 0.01) << fabric << " " << algorithm << " " << dead;
    EXPECT_EQ(all.groups.size(), 8u);
    EXPECT_EQ(all.bounds.front().time, share.bounds.front().time);
    EXPECT_GE(all.time->count(), all.bounds.front().time.count());
  }
}

TEST(Failures, SharesAgreeWithAllGroupsOnRails) {
  expect_agreement("rail_fabric", R"({"algorithm": "ring"})");
  expect_agreement("rail_fabric", R"({"algorithm": "optcc", "segments": 16})");
}

TEST(Failures, SharesAgreeWithAllGroupsOnOneSwitch) {
  expect_agreement("single_switch", R"({"algorithm": "ring"})");
  expect_agreement("single_switch", R"({"algorithm": "optcc", "segments": 16})");
  expect_agreement("single_switch", R"({"algorithm": "r2ccl"})");
}

TEST(Failures, ASlowNicCostsNoMoreThanADeadOne) {
  // Four ranks a server, whose ring changes rails: as on shares, where the server has so much less in all.
  double last = 0;
  for (const std::string remaining : {"9/10", "1/2", "1/100", "0"}) {
    const std::string rest = fmt::format(R"("collective": {{"type": "allreduce", "size": "1 GiB"}}, "schedule": {{"algorithm": "ring"}},
        "failures": [{{"server": 0, "nics": [2], "remaining": "{}"}}])", remaining);
    const double share = ms(run_scenario(cluster(3, 4, 4, rest)).time), each = ms(run_scenario(cluster(3, 4, 4, rest + R"(, "network": {"nics": "each"})")).time);
    EXPECT_NEAR(each / share, 1, 0.01) << remaining;
    EXPECT_GE(each, last * 0.9999) << remaining;
    last = each;
  }
}

TEST(Failures, LateRanks) {
  // A rank of a ring sends all it has to send one after the other, from its arrival on.
  const RunResult late = run_scenario(cluster(4, 1, 1, R"("collective": {"type": "allreduce", "size": "1000000000 B"}, "schedule": {"algorithm": "ring"}, "arrivals": {"delays": {"2": "7 ms"}})"));
  EXPECT_NEAR(ms(late.time), 7 + 30, 1e-5);
  EXPECT_NEAR(ms(late.undisturbed), 30, 1e-5);
  const auto drawn = [](int seed) {
    return run_scenario(cluster(4, 1, 1, fmt::format(R"("collective": {{"type": "allreduce", "size": "1000000000 B"}}, "schedule": {{"algorithm": "ring"}},
      "arrivals": {{"distribution": "exponential", "mean": "2 ms", "seed": {}}})", seed)));
  };
  EXPECT_EQ(drawn(1).time, drawn(1).time);
  EXPECT_NE(drawn(1).time, drawn(2).time);
  EXPECT_GE(ms(drawn(1).time), 30 + ms(drawn(1).latest_arrival) - 1e-5);
}

TEST(Failures, BackgroundTrafficTakesItsShare) {
  // Rank 0 sends to rank 1 over a NIC that it shares in halves until the other traffic ends; one direction sets the pace.
  const std::string traffic = R"(, "background": [{"from": {"server": 0, "gpu": 0}, "to": {"server": 1, "gpu": 0}REST}])";
  const auto with = [&](const std::string& rest) {
    std::string text = traffic;
    return ms(run_scenario(cluster(2, 1, 1, gigabyte_ring + text.replace(text.find("REST"), 4, rest))).time);
  };
  EXPECT_NEAR(with(""), 40, 1e-5);
  EXPECT_NEAR(with(R"(, "rate": "10 GB/s")"), 25, 1e-5);
  EXPECT_NEAR(with(R"(, "at": "4 ms", "until": "10 ms")"), 23, 1e-5);
}

TEST(Failures, JobsSideBySide) {
  const RunResult result = run_scenario(cluster(2, 2, 1, R"("jobs": [
      {"name": "big", "ranks": {"gpus": [0]}, "collective": {"type": "allreduce", "size": "1000000000 B"}, "schedule": {"algorithm": "ring"}},
      {"name": "small", "ranks": {"gpus": [1]}, "collective": {"type": "allgather", "size": "400000000 B"}, "schedule": {"algorithm": "ring"}}],
      "collective": {"type": "allreduce", "size": "1 B"}, "schedule": {"algorithm": "ring"})"));
  ASSERT_EQ(result.groups.size(), 2u);
  // Both share the NIC; the allgather's 200 MB at 25 GB/s take 8 ms, which cost the AllReduce 4 of its 20.
  EXPECT_NEAR(ms(result.groups[1].time), 8, 0.5);
  EXPECT_NEAR(ms(result.groups[0].time), 24, 0.5);
  EXPECT_EQ(result.time, result.groups[0].time);
}

TEST(Failures, BadInput) {
  const auto error = [](const std::string& rest) { return error_of([&] { run_scenario(cluster(2, 1, 1, std::string(gigabyte_ring) + rest)); }); };
  EXPECT_THAT(error(R"(, "recovery": {"policy": "reroute"})"), testing::AllOf(testing::HasSubstr("/recovery"), testing::HasSubstr("detection")));
  EXPECT_THAT(error(R"(, "recovery": {"policy": "rerout", "detection": "1 ms"})"), testing::HasSubstr("reroute"));
  EXPECT_THAT(error(R"(, "failures": [{"server": 0, "nics": [0], "at": "2 ms", "until": "1 ms"}])"), testing::HasSubstr("/failures/0/until"));
  EXPECT_THAT(error(R"(, "failures": [{"server": 0, "nics": [7], "at": "2 ms"}])"), testing::HasSubstr("has no NIC 7"));
  EXPECT_THAT(error(R"(, "failures": [{"switch": "rail9", "at": "2 ms"}])"), testing::HasSubstr("rail9"));
  EXPECT_THAT(error(R"(, "network": {"nics": "share"}, "failures": [{"server": 0, "nics": [0], "at": "2 ms"}])"), testing::HasSubstr("/network/nics"));
  EXPECT_THAT(error(R"(, "arrivals": {"delays": {"5": "1 ms"}})"), testing::HasSubstr("there is no rank"));
  EXPECT_THAT(error(R"(, "background": [{"from": {"server": 0, "gpu": 0}, "to": {"server": 0, "gpu": 0}}])"), testing::HasSubstr("/background/0/to"));
}

}  // namespace
}  // namespace slackline
