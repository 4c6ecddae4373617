// Failures: which are in effect when, what they do to a topology, how they compose, and what they are called.
#include "topology/failures.hpp"

#include <gtest/gtest.h>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"

namespace slackline {
namespace {

constexpr TimePoint never = TimePoint::never();

TimePoint ms(int64_t milliseconds) { return TimePoint(milliseconds * 1'000'000'000); }

// A failure of NIC 0 of server 0 from `at` until `until`.
Failure timed(TimePoint at, TimePoint until = never) {
  Failure failure;
  failure.nic_indices = {0};
  failure.at = at;
  failure.until = until;
  failure.where = "s.json: /failures/0";
  return failure;
}

Failure flapping(TimePoint at, TimePoint until, Duration period, Duration down) {
  Failure failure = timed(at, until);
  failure.flap_period = period;
  failure.flap_down = down;
  return failure;
}

Failure nics(std::vector<int> indices, Fraction remaining = 0) {
  Failure failure = timed({});
  failure.nic_indices = std::move(indices);
  failure.remaining = remaining;
  return failure;
}

Failure nic_count(int count, TimePoint at = {}, TimePoint until = never) {
  Failure failure = timed(at, until);
  failure.nic_indices.clear();
  failure.nic_count = count;
  return failure;
}

Failure port(int nic, int number, Fraction remaining = 0) {
  Failure failure = nics({nic}, remaining);
  failure.port = number;
  return failure;
}

Failure cable(const std::string& a, const std::string& b, Fraction remaining = 0) {
  Failure failure = nics({}, remaining);
  failure.cable = {a, b};
  return failure;
}

Failure switch_failure(const std::string& name, Fraction remaining = 0) {
  Failure failure = nics({}, remaining);
  failure.net_switch = name;
  return failure;
}

Failure slow_gpu(int server, int gpu, Bandwidth rate) {
  Failure failure = nics({});
  failure.server = server;
  failure.gpu = gpu;
  failure.reduction = rate;
  return failure;
}

Failure nvlink(std::vector<int> gpus, int count, Fraction remaining = 0) {
  Failure failure = nics({});
  failure.nvlink = std::move(gpus);
  failure.nvlink_count = count;
  failure.nvlink_remaining = remaining;
  return failure;
}

// 2 servers of 4 GPUs and NICs with two ports; 2 racks.
Topology dual_tor() {
  return topology_of(R"({"builder": "dual_tor", "servers": 2, "gpus_per_server": 4, "nics_per_server": 4, "servers_per_rack": 1,
    "nic_bandwidth": "400 Gb/s", "nic_latency": "2 us", "message_overhead": "20 ns", "nvlink_bandwidth": "900 GB/s",
    "nvlink_latency": "500 ns", "spine": {"switches": 2, "latency": "300 ns"}})");
}

Topology damaged(Topology topology, const std::vector<Failure>& failures) {
  apply_failures(topology, failures);
  return topology;
}

// The healths of all links between two vertices, in both directions.
std::vector<Fraction> health(const Topology& topology, const std::string& a, const std::string& b) {
  std::vector<Fraction> result;
  for (auto [edge, end] = boost::edges(topology.graph); edge != end; ++edge) {
    const std::string &from = topology.graph[boost::source(*edge, topology.graph)].name, &to = topology.graph[boost::target(*edge, topology.graph)].name;
    if ((from == a && to == b) || (from == b && to == a)) result.push_back(topology.graph[*edge].health);
  }
  return result;
}

// How many links are damaged at all.
int unwell(const Topology& topology) {
  int count = 0;
  for (auto [edge, end] = boost::edges(topology.graph); edge != end; ++edge) count += topology.graph[*edge].health < Fraction(1);
  return count;
}

std::vector<Fraction> both(Fraction value) { return {value, value}; }

TEST(FailureTimes, AreFromTheBeginningInclusiveToTheEndExclusive) {
  const std::vector<Failure> failures = {timed(ms(2), ms(5)), timed({}), timed(ms(5))};
  const auto count = [&](TimePoint t) { return active_failures(failures, t).size(); };
  EXPECT_EQ(count(TimePoint()), 1u);
  EXPECT_EQ(count(TimePoint(ms(2).count() - 1)), 1u);
  EXPECT_EQ(count(ms(2)), 2u);
  EXPECT_EQ(active_failures(failures, ms(2))[0].at, ms(2));
  EXPECT_EQ(count(TimePoint(ms(5).count() - 1)), 2u);
  EXPECT_EQ(count(ms(5)), 2u);  // one ends as the other begins
  EXPECT_EQ(active_failures(failures, ms(5))[1].at, ms(5));
  EXPECT_EQ(next_change(failures, TimePoint()), ms(2));
  EXPECT_EQ(next_change(failures, ms(2)), ms(5));
  EXPECT_EQ(next_change(failures, ms(5)), never);
  EXPECT_EQ(next_change({}, TimePoint()), never);
  EXPECT_TRUE(has_timed(failures));
  EXPECT_FALSE(has_timed({timed({})}));
  EXPECT_TRUE(has_timed({timed({}, ms(1))}));
  EXPECT_TRUE(has_timed({flapping({}, never, Duration(2), Duration(1))}));
}

TEST(FailureTimes, EveryChangeIsFoundAndNoneIsInvented) {
  // Against looking at every picosecond.
  const std::vector<std::vector<Failure>> cases = {
      {flapping(TimePoint(3), TimePoint(40), Duration(8), Duration(3))},
      {flapping(TimePoint(3), TimePoint(29), Duration(8), Duration(5))},  // ends in the middle of a break
      {flapping(TimePoint(3), TimePoint(27), Duration(8), Duration(5))},  // ends as a break begins
      {flapping(TimePoint(3), TimePoint(32), Duration(8), Duration(5))},  // ends as one ends
      {flapping(TimePoint(0), never, Duration(7), Duration(1)), flapping(TimePoint(2), TimePoint(50), Duration(5), Duration(4))},
      {flapping(TimePoint(4), TimePoint(30), Duration(6), Duration(0))},  // never broken
      {flapping(TimePoint(4), TimePoint(30), Duration(6), Duration(6))},  // always
      {timed(TimePoint(5), TimePoint(9)), timed(TimePoint(7)), timed(TimePoint(9), TimePoint(20))},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto state = [&](int64_t t) {
      std::vector<TimePoint> ids;  // two failures of a case never have the same times
      for (const Failure& failure : active_failures(cases[i], TimePoint(t))) ids.push_back(failure.at);
      return ids;
    };
    constexpr int64_t horizon = 60;
    for (int64_t t = 0; t < horizon; ++t) {
      int64_t next = t + 1;
      while (next <= horizon && state(next) == state(next - 1)) ++next;
      const TimePoint found = next_change(cases[i], TimePoint(t));
      if (next <= horizon)
        EXPECT_EQ(found, TimePoint(next)) << "case " << i << " after " << t;
      else
        EXPECT_GT(found, TimePoint(horizon)) << "case " << i << " after " << t;
    }
  }
}

TEST(FailureTimes, HugeTimesDoNotOverflow) {
  const TimePoint late(INT64_MAX - 5);
  const Failure slow = flapping(TimePoint(1), never, Duration(INT64_MAX - 1), Duration(INT64_MAX - 2));
  EXPECT_EQ(next_change({slow}, late), TimePoint(INT64_MAX - 1));
  EXPECT_EQ(next_change({slow}, TimePoint(INT64_MAX - 1)), never);
  EXPECT_EQ(next_change({flapping(TimePoint(0), never, Duration(INT64_MAX), Duration(1))}, TimePoint(0)), TimePoint(1));
}

TEST(Resolve, CountsTakeTheLowestNicsThatLiveWhileTheyLast) {
  const Topology topology = rail_fabric(2, 4, 4);
  const auto resolved = [&](const std::vector<Failure>& failures) {
    std::vector<std::vector<int>> indices;
    for (const Failure& failure : resolve(topology, failures)) {
      EXPECT_EQ(failure.nic_count, 0);
      indices.push_back(failure.nic_indices);
    }
    return indices;
  };
  using Indices = std::vector<std::vector<int>>;
  EXPECT_EQ(resolved({nics({0, 2}), nic_count(2)}), (Indices{{0, 2}, {1, 3}}));
  EXPECT_EQ(resolved({nic_count(1, {}, ms(5)), nic_count(1, ms(4))}), (Indices{{0}, {1}}));  // they overlap
  EXPECT_EQ(resolved({nic_count(1, {}, ms(5)), nic_count(1, ms(5))}), (Indices{{0}, {0}}));  // the first is repaired
  EXPECT_EQ(resolved({nics({0}, Fraction(1, 2)), nic_count(1)}), (Indices{{0}, {0}}));       // half alive is alive
  EXPECT_EQ(resolved({port(0, 0), nic_count(1)}), (Indices{{0}, {0}}));                      // and so is a NIC with a dead port
  // What is resolved stays as it is.
  const std::vector<Failure> once = resolve(topology, {nics({0, 2}), nic_count(2)});
  EXPECT_EQ(resolve(topology, once)[1].nic_indices, (std::vector<int>{1, 3}));
  EXPECT_EQ(error_of([&] { resolved({nic_count(3, {}, ms(5)), nic_count(2, ms(4))}); }),
            "s.json: /failures/0: server 0 has 4 NICs, of which 1 were still alive: 2 cannot fail");
}

TEST(ApplyFailures, ANicAtAFractionOfItsRate) {
  const Topology topology = damaged(rail_fabric(2, 4, 4), {nics({1, 3}, Fraction(1, 2))});
  EXPECT_EQ(health(topology, "server0/nic1", "rail1"), both(Fraction(1, 2)));
  EXPECT_EQ(health(topology, "server0/nic3", "rail3"), both(Fraction(1, 2)));
  EXPECT_EQ(unwell(topology), 4);
}

TEST(ApplyFailures, APortIsOneOfTheNicsLinks) {
  const Topology topology = damaged(dual_tor(), {port(2, 1)});
  EXPECT_EQ(health(topology, "server0/nic2", "tor0b"), both(0));
  EXPECT_EQ(health(topology, "server0/nic2", "tor0a"), both(1));
  EXPECT_EQ(unwell(topology), 2);
  // Two ports on one switch are told apart.
  const Topology one = damaged(topology_of(R"({"builder": "single_switch", "servers": 2, "gpus_per_server": 1, "nics_per_server": 2,
      "ports_per_nic": 2, "nic_bandwidth": "400 Gb/s", "nic_latency": "2 us", "message_overhead": "20 ns",
      "nvlink_bandwidth": "900 GB/s", "nvlink_latency": "500 ns"})"),
                               {port(0, 1)});
  const std::vector<Fraction> left = health(one, "server0/nic0", "switch0");  // port 0 out and in, then port 1
  EXPECT_EQ(left, (std::vector<Fraction>{1, 1, 0, 0}));
}

TEST(ApplyFailures, ACableIsNamedByItsEndsInEitherOrder) {
  for (const auto& [a, b] : {std::pair("server0/nic3", "rail3"), std::pair("rail3", "server0/nic3")}) {
    const Topology topology = damaged(rail_fabric(2, 4, 4), {cable(a, b)});
    EXPECT_EQ(health(topology, "server0/nic3", "rail3"), both(0));
    EXPECT_EQ(unwell(topology), 2);
  }
  const Topology uplink = damaged(dual_tor(), {cable("tor1a", "spine0", Fraction(1, 4))});
  EXPECT_EQ(health(uplink, "tor1a", "spine0"), both(Fraction(1, 4)));
}

TEST(ApplyFailures, ASwitchTakesAllItsLinksWithIt) {
  const Topology rail = damaged(rail_fabric(3, 4, 4), {switch_failure("rail2")});
  for (const char* const nic : {"server0/nic2", "server1/nic2", "server2/nic2"}) EXPECT_EQ(health(rail, nic, "rail2"), both(0));
  EXPECT_EQ(unwell(rail), 2 * 3);
  const Topology spine = damaged(dual_tor(), {switch_failure("spine1", Fraction(1, 2))});
  EXPECT_EQ(health(spine, "tor0a", "spine1"), both(Fraction(1, 2)));
  EXPECT_EQ(unwell(spine), 2 * 4);
}

TEST(ApplyFailures, AGpuThatReducesSlowly) {
  const Topology topology = damaged(rail_fabric(2, 4, 4), {slow_gpu(1, 2, Bandwidth(800)), slow_gpu(1, 2, Bandwidth(500)), slow_gpu(1, 2, Bandwidth(900))});
  for (size_t s = 0; s < 2; ++s)
    for (size_t g = 0; g < 4; ++g) {
      const std::optional<Bandwidth>& limit = topology.graph[topology.servers[s].gpus[g]].reduction;
      EXPECT_EQ(limit, s == 1 && g == 2 ? std::optional(Bandwidth(500)) : std::nullopt);
    }
  EXPECT_EQ(unwell(topology), 0);
}

TEST(ApplyFailures, EffectsCompose) {
  Failure slow = nics({});
  slow.slowdown = Fraction(3, 2);
  const Topology topology =
      damaged(rail_fabric(2, 4, 4), {nics({0}), slow, nics({1}, Fraction(1, 2)), switch_failure("rail1", Fraction(1, 2)), switch_failure("rail0"),
                                     cable("server0/nic2", "rail2")});
  EXPECT_EQ(health(topology, "server0/nic0", "rail0"), both(0));
  EXPECT_EQ(health(topology, "server0/nic1", "rail1"), both(Fraction(1, 6)));  // 2/3 of 1/2 of 1/2
  EXPECT_EQ(health(topology, "server0/nic2", "rail2"), both(0));
  EXPECT_EQ(health(topology, "server0/nic3", "rail3"), both(Fraction(2, 3)));
  EXPECT_EQ(health(topology, "server1/nic1", "rail1"), both(Fraction(1, 2)));
}

TEST(ApplyFailures, WhatHasATimeMayFailTwice) {
  const Topology topology = damaged(rail_fabric(2, 4, 4), {timed(ms(1), ms(9)), timed({}), timed(ms(2), ms(3))});
  EXPECT_EQ(health(topology, "server0/nic0", "rail0"), both(0));
  Failure slow = timed(ms(1));
  slow.nic_indices.clear();
  slow.slowdown = 2;
  EXPECT_EQ(unwell(damaged(rail_fabric(2, 4, 4), {nics({0, 1, 2, 3}), slow})), 8);
  Failure links = nvlink({0}, 1);
  links.at = ms(1);
  EXPECT_EQ(health(damaged(rail_fabric(2, 4, 4), {links, links}), "server0/gpu0", "server0/nvswitch0"), both(0));
}

TEST(ApplyFailures, OverTimeOnATopologyThatIsWholeAgain) {
  const Topology whole = rail_fabric(2, 4, 4);
  const std::vector<Failure> failures = resolve(whole, {nic_count(1, ms(1), ms(3)), nic_count(2, ms(2), ms(4)), nic_count(1, ms(3))});
  std::vector<std::vector<int>> dead;
  for (TimePoint t = TimePoint(); t != never; t = next_change(failures, t)) {
    const Topology now = damaged(whole, active_failures(failures, t));
    std::vector<int>& numbers = dead.emplace_back();
    for (int n = 0; n < 4; ++n)
      if (health(now, "server0/nic" + std::to_string(n), "rail" + std::to_string(n)) == both(0)) numbers.push_back(n);
  }
  EXPECT_EQ(dead, (std::vector<std::vector<int>>{{}, {0}, {0, 1, 2}, {0, 1, 2}, {0}}));
}

TEST(ApplyFailures, Errors) {
  const auto error = [](const std::vector<Failure>& failures) { return error_of([&] { damaged(dual_tor(), failures); }); };
  const std::string where = "s.json: /failures/0: ";
  EXPECT_EQ(error({port(2, 2)}), where + "NIC 2 of server 0 has no port 2; it has ports 0 to 1");
  EXPECT_EQ(error({port(4, 0)}), where + "server 0 has no NIC 4; it has NICs 0 to 3");
  EXPECT_EQ(error({port(1, 0), port(1, 0)}), where + "port 0 of NIC 1 of server 0 has failed already");
  EXPECT_EQ(error({nics({1}), port(1, 0)}), where + "NIC 1 of server 0 has failed already");
  EXPECT_EQ(error({switch_failure("tor0")}), where + "there is no switch \"tor0\"; did you mean \"tor0a\"?");
  EXPECT_EQ(error({switch_failure("server0/nvswitch0")}),
            where + "there is no switch \"server0/nvswitch0\"; there are tor0a, tor0b, tor1a, tor1b, spine0, spine1");
  EXPECT_EQ(error({switch_failure("spine0"), switch_failure("spine0")}), where + "switch spine0 has failed already");
  EXPECT_EQ(error({cable("server0/nic9", "tor0a")}), where + "there is no NIC or switch \"server0/nic9\"; did you mean \"server0/nic0\"?");
  EXPECT_EQ(error({cable("server0/nic0", "tor1a")}),
            where + "no cable joins \"server0/nic0\" and \"tor1a\"; from the former they lead to tor0a and 1 others");
  EXPECT_EQ(error({cable("a", "b"), cable("a", "b")}), where + "cable a - b has failed already");
  EXPECT_EQ(error({slow_gpu(0, 4, Bandwidth(1))}), where + "server 0 has no GPU 4; it has GPUs 0 to 3");
  EXPECT_EQ(error({slow_gpu(2, 0, Bandwidth(1))}), where + "server 2 does not exist; the topology has servers 0 to 1");
  EXPECT_EQ(error({slow_gpu(0, 0, Bandwidth(0))}), where + "a GPU reduces at a rate above 0");
  EXPECT_EQ(error({nics({0}, Fraction(3, 2))}), where + "what remains of a part is a fraction from 0 to 1, not 3/2");
  EXPECT_EQ(error({nvlink({0}, 2)}), where + "server 0 has 1 living NVLinks from GPU 0 to an NVSwitch: 2 cannot fail");
  EXPECT_EQ(error({nvlink({0, 1}, 1)}), where + "server 0 has no NVLink between GPU 0 and GPU 1");
}

TEST(Describe, SaysWhatAndWhen) {
  const Topology topology = dual_tor();
  const auto text = [&](const Failure& failure) { return describe(failure, topology); };
  EXPECT_EQ(text(nics({3})), "NIC 3 of server 0");
  EXPECT_EQ(text(nics({0, 1, 3})), "NICs 0, 1 and 3 of server 0");
  EXPECT_EQ(text(nics({0, 1, 2, 3})), "all 4 NICs of server 0");
  EXPECT_EQ(text(nics({})), "no NIC of server 0");
  EXPECT_EQ(text(nic_count(2)), "2 NICs of server 0");
  EXPECT_EQ(text(nics({3}, Fraction(1, 2))), "NIC 3 of server 0 at 1/2 of its bandwidth");
  EXPECT_EQ(text(nics({2, 3}, Fraction(1, 2))), "NICs 2 and 3 of server 0 at 1/2 of their bandwidth");
  EXPECT_EQ(text(port(3, 1)), "port 1 of NIC 3 of server 0 (to tor0b)");
  EXPECT_EQ(text(cable("server0/nic3", "tor0a")), "cable server0/nic3 - tor0a");
  EXPECT_EQ(text(switch_failure("spine1", Fraction(1, 2))), "switch spine1 at 1/2 of its bandwidth");
  EXPECT_EQ(text(slow_gpu(1, 2, parse_bandwidth("50 GB/s"))), "GPU 2 of server 1 reduces at 50 GB/s");
  EXPECT_EQ(text(nvlink({0, 3}, 0)), "NVLinks between GPU 0 and GPU 3 of server 0");
  EXPECT_EQ(text(nvlink({3}, 2)), "2 of the NVLinks from GPU 3 to an NVSwitch of server 0");
  EXPECT_EQ(text(nvlink({0, 3}, 0, Fraction(1, 2))), "NVLinks between GPU 0 and GPU 3 of server 0 at 1/2 of their bandwidth");
  Failure several = nics({1});
  several.slowdown = Fraction(3, 2);
  EXPECT_EQ(text(several), "NIC 1 of server 0, NICs of server 0 slower by 3/2");
  EXPECT_EQ(text(timed(ms(12), ms(20))), "NIC 0 of server 0 from 12 ms until 20 ms");
  EXPECT_EQ(text(timed(ms(12))), "NIC 0 of server 0 from 12 ms");
  EXPECT_EQ(text(timed({}, ms(20))), "NIC 0 of server 0 until 20 ms");
  EXPECT_EQ(text(flapping(ms(1), ms(9), parse_duration("2 ms"), parse_duration("500 us"))),
            "NIC 0 of server 0, broken for the first 500 us of every 2 ms from 1 ms until 9 ms");
}

}  // namespace
}  // namespace slackline
