// Whatever is broken: no algorithm beats the lower bound, every schedule is proven right, and the best of all loses at most 1 % to
// the ring on the same network.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "bounds/bounds.hpp"
#include "fabric/simulate.hpp"
#include "support/cluster.hpp"
#include "support/playing.hpp"

namespace slackline::test {
namespace {

RC_GTEST_PROP(Best, IsNeverBelowTheBoundNorSlowerThanTheRing, ()) {
  const int servers = *rc::gen::inRange(2, 10);
  std::vector<Fraction> slowdowns;
  for (int i = *rc::gen::inRange(0, servers + 1); i > 0; --i)
    slowdowns.push_back(*rc::gen::element(Fraction(1), Fraction(8, 7), Fraction(4, 3), Fraction(2), Fraction(17, 10), Fraction(8)));
  ClusterOptions options;
  options.ranks_per_server = *rc::gen::element(1, 1, 2);
  options.nic_latency = *rc::gen::element<std::string>("0 us", "2 us");
  options.message_overhead = *rc::gen::element<std::string>("0 ns", "20 ns");
  const Bytes size(8 * *rc::gen::inRange<int64_t>(1, 1 << *rc::gen::inRange(1, 24)));
  const Network network = cluster(servers, slowdowns, options);
  const auto simulated = [&](const Schedule& schedule) {
    return simulate(network, schedule, MessageLayout(size, Bytes(4), schedule.units()), {Sharing::fair, false}).time;
  };
  const auto make = [&](const std::string& json) {
    return generated(network, json, size, Sharing::fair, CollectiveType::allreduce, -1, simulated).schedule;
  };
  const Schedule best = make(R"({"algorithm": "best", "max_transfers": 4000})");
  RC_ASSERT(findings(best) == "");
  const Duration time = simulated(best), ring = simulated(make(R"({"algorithm": "ring"})"));
  Collective allreduce;
  allreduce.ranks = network.ranks();
  for (const Bound& bound : lower_bounds({network, allreduce, size, Bytes(4)})) RC_ASSERT(time >= bound.time);
  RC_ASSERT(static_cast<double>(time.count()) <= 1.01 * static_cast<double>(ring.count()));
  // Not only the winner: nested rings, which move data through scratch space.
  const Schedule nested = make(fmt::format(R"({{"algorithm": "nested_rings", "segments": {}, "flows": {}}})", *rc::gen::inRange(1, 9), *rc::gen::inRange(1, 9)));
  RC_ASSERT(findings(nested) == "");
  for (const Bound& bound : lower_bounds({network, allreduce, size, Bytes(4)})) RC_ASSERT(simulated(nested) >= bound.time);
}

}  // namespace
}  // namespace slackline::test
