// The `failures` of a scenario: what each entry means, errors at their places, and the random process.
#include "scenario/failures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "../support/expect_error.hpp"
#include "../support/networks.hpp"

namespace slackline {
namespace {

std::vector<Failure> parse(const std::string& text, const Topology& topology = rail_fabric(2, 4, 4)) {
  const Json json = parse_json(text, "s.json");
  return parse_failures(JsonCursor(json, "s.json", "/failures"), topology);
}

// Of a single entry: its description, which says all that there is in it.
std::string meaning(const std::string& entry) {
  const Topology topology = rail_fabric(2, 4, 4);
  const std::vector<Failure> failures = parse("[" + entry + "]", topology);
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures.at(0).where, "s.json: /failures/0");
  return describe(failures.at(0), topology);
}

std::string error(const std::string& entry) {
  return error_of([&] { parse("[" + entry + "]"); });
}

TEST(ParseFailures, EveryKindOfPart) {
  EXPECT_EQ(meaning(R"({"server": 1, "nics": 2})"), "NICs 0 and 1 of server 1");
  EXPECT_EQ(meaning(R"({"server": 1, "nics": 0})"), "no NIC of server 1");
  EXPECT_EQ(meaning(R"({"server": 1, "nics": [3]})"), "NIC 3 of server 1");
  EXPECT_EQ(meaning(R"({"server": 1, "nics": [3], "remaining": "1/2"})"), "NIC 3 of server 1 at 1/2 of its bandwidth");
  EXPECT_EQ(meaning(R"({"server": 1, "nics": 2, "remaining": "0.5"})"), "NICs 0 and 1 of server 1 at 1/2 of their bandwidth");
  EXPECT_EQ(meaning(R"({"server": 0, "nic": 3, "port": 0})"), "port 0 of NIC 3 of server 0 (to rail3)");
  EXPECT_EQ(meaning(R"({"server": 0, "nic": 3, "port": 0, "remaining": "1/4"})"), "port 0 of NIC 3 of server 0 (to rail3) at 1/4 of its bandwidth");
  EXPECT_EQ(meaning(R"({"cable": ["server0/nic3", "rail3"]})"), "cable server0/nic3 - rail3");
  EXPECT_EQ(meaning(R"({"cable": ["server0/nic3", "rail3"], "remaining": "0.25"})"), "cable server0/nic3 - rail3 at 1/4 of its bandwidth");
  EXPECT_EQ(meaning(R"({"switch": "rail3"})"), "switch rail3");
  EXPECT_EQ(meaning(R"({"switch": "rail3", "remaining": "1/3"})"), "switch rail3 at 1/3 of its bandwidth");
  EXPECT_EQ(meaning(R"({"server": 1, "gpu": 2, "reduction": "50 GB/s"})"), "GPU 2 of server 1 reduces at 50 GB/s");
  EXPECT_EQ(meaning(R"({"server": 1, "slowdown": "3/2"})"), "NICs of server 1 slower by 3/2");
  EXPECT_EQ(meaning(R"({"server": 1, "nvlink": [2]})"), "NVLinks from GPU 2 to an NVSwitch of server 1");
  EXPECT_EQ(meaning(R"({"server": 1, "nvlink": [2], "count": 1})"), "1 of the NVLinks from GPU 2 to an NVSwitch of server 1");
  EXPECT_EQ(meaning(R"({"server": 1, "nvlink": [0, 3], "remaining": "1/2"})"), "NVLinks between GPU 0 and GPU 3 of server 1 at 1/2 of their bandwidth");
  EXPECT_EQ(meaning(R"({"server": 1, "nics": 1, "slowdown": "2", "nvlink": [0]})"),
            "NIC 0 of server 1, NICs of server 1 slower by 2, NVLinks from GPU 0 to an NVSwitch of server 1");
}

TEST(ParseFailures, Times) {
  EXPECT_EQ(meaning(R"({"switch": "rail3", "at": "12 ms", "until": "20 ms"})"), "switch rail3 from 12 ms until 20 ms");
  EXPECT_EQ(meaning(R"({"switch": "rail3", "until": "0.5 h"})"), "switch rail3 until 1800 s");
  EXPECT_EQ(meaning(R"({"cable": ["server0/nic3", "rail3"], "at": "1 min", "flap": {"period": "2 ms", "duty": "1/4"}})"),
            "cable server0/nic3 - rail3, broken for the first 500 us of every 2 ms from 60 s");
  const std::vector<Failure> failures = parse(R"([{"switch": "rail0", "at": "0 s"}, {"switch": "rail1", "flap": {"period": "10 ps", "duty": "1/3"}}])");
  EXPECT_FALSE(is_timed(failures[0]));
  EXPECT_TRUE(is_timed(failures[1]));
  EXPECT_EQ(failures[1].flap_down, Duration(3));  // rounded down
  // A count keeps its NICs.
  EXPECT_EQ(parse(R"([{"server": 0, "nics": [0], "until": "1 ms"}, {"server": 0, "nics": 1, "at": "0.9 ms"}, {"server": 0, "nics": 1, "at": "1 ms"}])")[1].nic_indices,
            std::vector<int>{1});
}

TEST(ParseFailures, Errors) {
  const std::string at = "s.json: /failures/0";
  EXPECT_EQ(error(R"({"server": 0})").substr(0, 59), at + ": needs \"nics\" (how many or which die), ");
  EXPECT_EQ(error(R"({"nics": 1})"), at + ": needs the key \"server\"");
  EXPECT_EQ(error(R"({"server": 0, "nix": 1})"), at + "/nix: unknown key \"nix\"; did you mean \"nic\"?");
  EXPECT_EQ(error(R"({"server": 0, "nics": 5})"), at + ": server 0 has 4 NICs, of which 4 were still alive: 5 cannot fail");
  EXPECT_EQ(error(R"({"server": 0, "nics": [4]})"), at + ": server 0 has no NIC 4; it has NICs 0 to 3");
  EXPECT_EQ(error(R"({"server": 2, "nics": 1})"), at + ": server 2 does not exist; the topology has servers 0 to 1");
  EXPECT_EQ(error(R"({"server": 0, "nics": 1, "remaining": "3/2"})"), at + "/remaining: what remains is a fraction from 0 to 1, not 3/2");
  EXPECT_EQ(error(R"({"server": 0, "slowdown": 2, "remaining": "1/2"})"),
            at + "/remaining: belongs to \"nics\", an \"nvlink\" or another part, and none is given");
  EXPECT_EQ(error(R"({"server": 0, "nics": 1, "nvlink": [0], "remaining": "1/2"})"),
            at + "/remaining: is it of the \"nics\" or of the \"nvlink\"? write two entries");
  EXPECT_EQ(error(R"({"server": 0, "nvlink": [0], "count": 1, "remaining": "1/2"})"),
            at + "/remaining: an NVLink has either a \"count\" of dead links or a fraction \"remaining\", not both");
  EXPECT_EQ(error(R"({"server": 0, "nics": 1, "count": 1})"), at + "/count: belongs to an \"nvlink\", which is not given");
  EXPECT_EQ(error(R"({"server": 0, "nic": 1})"), at + ": needs the key \"port\"");
  EXPECT_EQ(error(R"({"server": 0, "nics": 1, "port": 1})"), at + "/port: belongs to a \"nic\", which is not given");
  EXPECT_EQ(error(R"({"server": 0, "nic": 1, "port": 0, "nics": 1})"), at + "/nics: stands beside \"nic\"; write an entry for each");
  EXPECT_EQ(error(R"({"switch": "rail0", "cable": ["a", "b"]})"), at + "/switch: stands beside \"cable\"; write an entry for each");
  EXPECT_EQ(error(R"({"cable": ["rail0"]})"), at + "/cable: a cable is named by the two vertices that it joins");
  EXPECT_EQ(error(R"({"server": 0, "switch": "rail0"})"), at + "/server: a switch is found by name; \"server\" does not belong to it");
  EXPECT_EQ(error(R"({"switch": ""})"), at + "/switch: a name must not be empty");
  EXPECT_EQ(error(R"({"server": 0, "gpu": 1})"), at + ": needs the key \"reduction\"");
  EXPECT_EQ(error(R"({"server": 0, "nics": 1, "reduction": "1 GB/s"})"), at + "/reduction: belongs to a \"gpu\", which is not given");
  EXPECT_EQ(error(R"({"server": 0, "gpu": 1, "reduction": "1 GB/s", "remaining": 0})"), at + "/remaining: a GPU has a \"reduction\" rate instead");
  EXPECT_EQ(error(R"({"switch": "rail0", "at": "2 ms", "until": "2 ms"})"), at + "/until: must be after the failure's beginning at 2 ms");
  EXPECT_EQ(error(R"({"switch": "rail0", "flap": {"period": "0 s", "duty": "1/2"}})"), at + "/flap/period: a period must be above 0");
  EXPECT_EQ(error(R"({"switch": "rail0", "flap": {"period": "1 s", "duty": "3/2"}})"), at + "/flap/duty: a duty is a fraction from 0 to 1, not 3/2");
  EXPECT_EQ(error(R"({"switch": "rail0", "flap": {"period": "1 s", "dutty": 1}})"), at + "/flap/dutty: unknown key \"dutty\"; did you mean \"duty\"?");
}

std::string random_entry(int seed, const std::string& rate, const std::string& rest) {
  return R"([{"random": {"seed": )" + std::to_string(seed) + R"(, "nic_failures_per_hour": ")" + rate + R"(", )" + rest + "}}]";
}

// Server, NIC, at, until, of every failure.
std::vector<std::array<int64_t, 4>> drawn(const std::vector<Failure>& failures) {
  std::vector<std::array<int64_t, 4>> result;
  for (const Failure& failure : failures) result.push_back({failure.server, failure.nic_indices.at(0), failure.at.count(), failure.until.count()});
  return result;
}

TEST(RandomFailures, TheSameSeedDrawsTheSame) {
  const std::string rest = R"("repair": "10 min", "horizon": "10 h")";
  const auto once = drawn(parse(random_entry(7, "0.5", rest)));
  EXPECT_GT(once.size(), 10u);
  EXPECT_EQ(once, drawn(parse(random_entry(7, "0.5", rest))));
  EXPECT_NE(once, drawn(parse(random_entry(8, "0.5", rest))));
  EXPECT_TRUE(std::is_sorted(once.begin(), once.end(), [](const auto& a, const auto& b) { return a[2] < b[2]; }));
  // A NIC's failures are its own, whatever others there are.
  std::vector<std::array<int64_t, 4>> of_four;
  for (const auto& failure : drawn(parse(random_entry(7, "0.5", rest), rail_fabric(3, 4, 8))))
    if (failure[0] < 2 && failure[1] < 4) of_four.push_back(failure);
  EXPECT_EQ(of_four, once);
}

TEST(RandomFailures, ArePoissonPerNic) {
  // 8 NICs, 2 failures per working hour, repaired at once for practical purposes: 16,000 expected with a deviation of 126.
  const std::vector<Failure> failures = parse(random_entry(1, "2", R"("repair": "1 ps", "horizon": "1000 h")"));
  EXPECT_NEAR(static_cast<double>(failures.size()), 16'000, 4 * 126);
  std::map<std::pair<int, int>, int64_t> last;
  std::map<std::pair<int, int>, int> count;
  double above_mean = 0;
  for (const Failure& failure : failures) {
    const std::pair nic(failure.server, failure.nic_indices.at(0));
    EXPECT_EQ(failure.until - failure.at, Duration(1));
    EXPECT_LT(failure.at, TimePoint() + parse_duration("1000 h"));
    if (static_cast<double>(failure.at.count() - last[nic]) > 1800e12) ++above_mean;
    last[nic] = failure.at.count();
    ++count[nic];
  }
  ASSERT_EQ(count.size(), 8u);
  for (const auto& [nic, number] : count) EXPECT_NEAR(number, 2000, 4 * 45);
  // Waiting times are exponential: a part of 1/e exceeds the mean.
  EXPECT_NEAR(above_mean / static_cast<double>(failures.size()), std::exp(-1), 0.016);
}

TEST(RandomFailures, ANicFailsAgainOnlyAfterItsRepair) {
  std::map<std::pair<int, int>, TimePoint> whole;
  for (const Failure& failure : parse(random_entry(3, "5", R"("repair": "30 min", "horizon": "100 h")"))) {
    TimePoint& since = whole[{failure.server, failure.nic_indices.at(0)}];
    EXPECT_GE(failure.at, since);
    since = failure.until;
    EXPECT_EQ(failure.until - failure.at, parse_duration("30 min"));
  }
  EXPECT_EQ(whole.size(), 8u);
  // Without repair once at most.
  std::map<std::pair<int, int>, int> count;
  for (const Failure& failure : parse(random_entry(3, "5", R"("horizon": "100 h")"))) {
    EXPECT_EQ(failure.until, TimePoint::never());
    EXPECT_EQ(++count[std::pair(failure.server, failure.nic_indices.at(0))], 1);
  }
  EXPECT_EQ(count.size(), 8u);
}

TEST(RandomFailures, ErrorsAndLimits) {
  const std::string at = "s.json: /failures/0/random";
  EXPECT_TRUE(parse(random_entry(1, "0", R"("horizon": "1 h")")).empty());
  EXPECT_EQ(error_of([] { parse(random_entry(1, "1", R"("repair": "1 s")")); }), at + ": needs the key \"horizon\"");
  EXPECT_EQ(error_of([] { parse(random_entry(-1, "1", R"("horizon": "1 h")")); }),
            at + "/seed: must be a whole number from 0 to 9223372036854775807, not -1");
  EXPECT_EQ(error_of([] { parse(random_entry(1, "-1", R"("horizon": "1 h")")); }), at + "/nic_failures_per_hour: a rate is at least 0, not -1");
  EXPECT_EQ(error_of([] { parse(random_entry(1, "1", R"("repair": "0 s", "horizon": "1 h")")); }), at + "/repair: a repair takes some time");
  EXPECT_EQ(error_of([] { parse(random_entry(1, "1000000000", R"("repair": "1 ps", "horizon": "100 h")")); }),
            at + ": draws more than 100,000 failures; lower the rate or the horizon");
  EXPECT_EQ(error_of([] { parse(R"([{"random": {}, "at": "1 s"}])"); }).substr(0, 40), "s.json: /failures/0/at: unknown key \"at\"");
}

}  // namespace
}  // namespace slackline
