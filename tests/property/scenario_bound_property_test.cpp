// No simulated time is below a lower bound, and where links are never shared the simulator agrees with the
// independent one-pass timing to the picosecond.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "fabric/simulate.hpp"
#include "scenarios.hpp"
#include "schedule/list_timing.hpp"

namespace slackline {
namespace {

rc::Gen<std::string> any_size() {
  // Every order of magnitude from 1 B to 16 GiB, not divisible by anything in particular.
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 35), rc::gen::inRange<int64_t>(0, INT64_MAX)), [](std::pair<int, int64_t> p) {
    const int64_t top = int64_t{1} << p.first;
    return std::to_string(std::min(top + p.second % top, int64_t{16} << 30)) + " B";
  });
}

rc::Gen<std::string> any_slowdown() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(1, 12), rc::gen::inRange(0, 24)),
                      [](std::pair<int, int> p) { return (Fraction(1) + Fraction(p.second, p.first)).to_string(); });
}

RC_GTEST_PROP(Bounds, NoSimulatedTimeIsBelowThem, ()) {
  StarScenario scenario;
  scenario.servers = *rc::gen::inRange(2, 24);
  scenario.slowdown = *any_slowdown();
  scenario.size = *any_size();
  scenario.sharing = *rc::gen::element<std::string>("fair", "exclusive");
  scenario.latency = *rc::gen::element<std::string>("0 us", "2 us", "777 ns");
  scenario.overhead = *rc::gen::element<std::string>("0 ns", "20 ns");
  scenario.schedule = *rc::gen::oneOf(
      rc::gen::just<std::string>(R"({"algorithm": "ring"})"), rc::gen::just<std::string>(R"({"algorithm": "optcc"})"),
      rc::gen::map(rc::gen::inRange(1, 20),
                   [](int k) { return fmt::format(R"({{"algorithm": "optcc", "segments": {}}})", k); }));
  RC_LOG() << scenario.document().json.dump();
  const ScenarioDocument document = scenario.document();
  const RunResult result = run_scenario(document);
  RC_ASSERT(result.valid());
  RC_ASSERT(result.time.has_value());
  for (const Bound& bound : result.bounds) {
    RC_LOG() << describe(bound);
    RC_ASSERT(result.time->count() >= bound.time.count());
  }

  const Scenario parsed = parse_scenario(document);
  const Generated generated = make_schedule(document, parsed);
  const MessageLayout layout(parsed.size, parsed.element, generated.schedule.units());
  ListTiming timing(parsed.network, layout, generated.schedule.chunks());
  for (size_t i = 0; i < generated.schedule.size(); ++i) timing.add(generated.schedule.transfer(i));
  RC_ASSERT(timing.completion() - TimePoint() == *result.time);
}

}  // namespace
}  // namespace slackline
