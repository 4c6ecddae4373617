#include "scenario/failures.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace slackline {

namespace {

constexpr int64_t most_drawn = 100'000;

int read_index(const JsonCursor& cursor) { return static_cast<int>(cursor.integer(0, INT32_MAX)); }

Fraction read_remaining(const JsonCursor& cursor) {
  const Fraction remaining = cursor.fraction();
  if (remaining < Fraction(0) || remaining > Fraction(1)) cursor.fail("what remains is a fraction from 0 to 1, not " + remaining.to_string());
  return remaining;
}

void refuse(const JsonCursor& entry, std::initializer_list<std::string_view> keys, const std::string& why) {
  for (const std::string_view key : keys)
    if (const auto stray = entry.find(key)) stray->fail(why);
}

void read_times(const JsonCursor& entry, Failure& failure) {
  if (const auto at = entry.find("at")) failure.at = TimePoint() + at->duration();
  if (const auto until = entry.find("until")) {
    failure.until = TimePoint() + until->duration();
    if (failure.until <= failure.at) until->fail("must be after the failure's beginning at " + to_string(failure.at - TimePoint()));
  }
  if (const auto flap = entry.find("flap")) {
    flap->expect_object({"period", "duty"});
    failure.flap_period = flap->at("period").duration();
    if (failure.flap_period.count() < 1) flap->at("period").fail("a period must be above 0");
    const Fraction duty = flap->at("duty").fraction();
    if (duty < Fraction(0) || duty > Fraction(1)) flap->at("duty").fail("a duty is a fraction from 0 to 1, not " + duty.to_string());
    const __int128 down = static_cast<__int128>(failure.flap_period.count()) * duty.numerator() / duty.denominator();
    failure.flap_down = Duration(static_cast<int64_t>(down));
  }
}

void read_nvlink(const JsonCursor& entry, const JsonCursor& nvlink, Failure& failure) {
  for (const JsonCursor& gpu : nvlink.elements()) failure.nvlink.push_back(read_index(gpu));
  if (failure.nvlink.empty() || failure.nvlink.size() > 2)
    nvlink.fail("an NVLink is named by the two GPUs that it joins, or by one GPU on an NVSwitch");
  const auto count = entry.find("count"), remaining = entry.find("remaining");
  if (count && remaining) remaining->fail("an NVLink has either a \"count\" of dead links or a fraction \"remaining\", not both");
  if (count) failure.nvlink_count = static_cast<int>(count->integer(1, 1024));
  if (remaining) failure.nvlink_remaining = read_remaining(*remaining);
}

// NICs, NVLinks and a slowdown of one server, which can stand together.
void read_server_parts(const JsonCursor& entry, Failure& failure) {
  const auto nics = entry.find("nics"), slowdown = entry.find("slowdown"), nvlink = entry.find("nvlink"), remaining = entry.find("remaining");
  if (!nics && !slowdown && !nvlink)
    entry.fail("needs \"nics\" (how many or which die), \"slowdown\" (a fraction such as \"8/7\"), \"nvlink\" (two GPUs, or "
               "one on an NVSwitch), \"nic\" with \"port\", \"gpu\" with \"reduction\", \"cable\", \"switch\" or \"random\"");
  if (nvlink) {
    if (nics && remaining) remaining->fail("is it of the \"nics\" or of the \"nvlink\"? write two entries");
    read_nvlink(entry, *nvlink, failure);
  } else {
    refuse(entry, {"count"}, "belongs to an \"nvlink\", which is not given");
    if (!nics) refuse(entry, {"remaining"}, "belongs to \"nics\", an \"nvlink\" or another part, and none is given");
    if (remaining) failure.remaining = read_remaining(*remaining);
  }
  if (nics && nics->value().is_array()) {
    for (const JsonCursor& nic : nics->elements()) failure.nic_indices.push_back(read_index(nic));
  } else if (nics) {
    failure.nic_count = read_index(*nics);
  }
  if (slowdown) {
    failure.slowdown = slowdown->fraction();
    if (failure.slowdown < Fraction(1)) slowdown->fail("a slowdown is at least 1, not " + failure.slowdown.to_string());
  }
}

Failure read_failure(const JsonCursor& entry) {
  entry.expect_object({"server", "nics", "slowdown", "nvlink", "count", "remaining", "nic", "port", "cable", "switch", "gpu", "reduction", "at",
                       "until", "flap", "random"});
  // Parts that stand alone, each with the keys that belong to it.
  std::string alone;
  for (const char* const key : {"nic", "cable", "switch", "gpu"}) {
    const auto part = entry.find(key);
    if (!part) continue;
    if (!alone.empty()) part->fail("stands beside \"" + alone + "\"; write an entry for each");
    alone = key;
    refuse(entry, {"nics", "slowdown", "nvlink", "count"}, "stands beside \"" + alone + "\"; write an entry for each");
  }
  Failure failure;
  failure.where = entry.where();
  read_times(entry, failure);
  if (alone == "cable" || alone == "switch")
    refuse(entry, {"server"}, "a " + alone + " is found by name; \"server\" does not belong to it");
  else
    failure.server = read_index(entry.at("server"));
  if (alone != "nic") refuse(entry, {"port"}, "belongs to a \"nic\", which is not given");
  if (alone != "gpu") refuse(entry, {"reduction"}, "belongs to a \"gpu\", which is not given");
  if (alone.empty()) {
    read_server_parts(entry, failure);
    return failure;
  }
  if (alone == "gpu") {
    refuse(entry, {"remaining"}, "a GPU has a \"reduction\" rate instead");
    failure.gpu = read_index(entry.at("gpu"));
    failure.reduction = entry.at("reduction").bandwidth();
    return failure;
  }
  if (const auto remaining = entry.find("remaining")) failure.remaining = read_remaining(*remaining);
  if (alone == "nic") {
    failure.nic_indices.push_back(read_index(entry.at("nic")));
    failure.port = read_index(entry.at("port"));
  } else if (alone == "switch") {
    failure.net_switch = entry.at("switch").string();
    if (failure.net_switch.empty()) entry.at("switch").fail("a name must not be empty");
  } else {
    for (const JsonCursor& end : entry.at("cable").elements()) failure.cable.push_back(end.string());
    if (failure.cable.size() != 2) entry.at("cable").fail("a cable is named by the two vertices that it joins");
  }
  return failure;
}

// One NIC's exponential waiting times. Every NIC has a generator of its own, so that its failures do not depend on how
// many NICs there are and how often others fail.
class Waiting {
 public:
  Waiting(int64_t seed, size_t server, size_t nic, double mean) : mean_(mean) {
    const auto low = [](auto value) { return static_cast<uint32_t>(value); };
    const auto high = [](auto value) { return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32); };
    // std::seed_seq's mixing is laid down by the standard, and so is the generator's sequence.
    std::seed_seq sequence{low(seed), high(seed), low(server), low(nic)};
    generator_.seed(sequence);
  }
  // Inverse transform: -mean ln u with u in (0, 1] of 53 random bits. In picoseconds, at least 1.
  double next() {
    const double u = static_cast<double>((generator_() >> 11) + 1) * 0x1p-53;
    return std::max(1.0, std::floor(-mean_ * std::log(u)));
  }

 private:
  double mean_;
  std::mt19937_64 generator_;
};

// A Poisson process for every NIC of the topology: a NIC that works fails after an exponential time.
void draw_failures(const JsonCursor& entry, const Topology& topology, std::vector<Failure>& failures) {
  entry.expect_object({"random"});
  const JsonCursor random = entry.at("random");
  random.expect_object({"seed", "nic_failures_per_hour", "repair", "horizon"});
  const int64_t seed = random.at("seed").integer(0, INT64_MAX);
  const Fraction rate = random.at("nic_failures_per_hour").fraction();
  if (rate < Fraction(0)) random.at("nic_failures_per_hour").fail("a rate is at least 0, not " + rate.to_string());
  std::optional<Duration> repair;
  if (const auto given = random.find("repair")) {
    repair = given->duration();
    if (repair->count() < 1) given->fail("a repair takes some time");
  }
  const Duration horizon = random.at("horizon").duration();
  if (rate == Fraction(0)) return;
  constexpr double hour = 3600e12;
  std::vector<Failure> drawn;
  for (size_t s = 0; s < topology.servers.size(); ++s) {
    for (size_t n = 0; n < topology.servers[s].nics.size(); ++n) {
      Waiting waiting(seed, s, n, hour / rate.to_double());
      int64_t now = 0;
      for (;;) {
        const double wait = waiting.next();
        if (wait >= static_cast<double>(horizon.count() - now)) break;
        now += static_cast<int64_t>(wait);
        if (static_cast<int64_t>(drawn.size()) == most_drawn) random.fail("draws more than 100,000 failures; lower the rate or the horizon");
        Failure failure;
        failure.server = static_cast<int>(s);
        failure.nic_indices = {static_cast<int>(n)};
        failure.at = TimePoint(now);
        failure.where = entry.where();
        drawn.push_back(failure);
        if (!repair || repair->count() >= horizon.count() - now) {
          if (repair && repair->count() < INT64_MAX - now) drawn.back().until = failure.at + *repair;
          break;
        }
        now += repair->count();
        drawn.back().until = TimePoint(now);
      }
    }
  }
  std::stable_sort(drawn.begin(), drawn.end(), [](const Failure& a, const Failure& b) { return a.at < b.at; });
  failures.insert(failures.end(), drawn.begin(), drawn.end());
}

}  // namespace

std::vector<Failure> parse_failures(const JsonCursor& list, const Topology& topology) {
  std::vector<Failure> failures;
  for (const JsonCursor& entry : list.elements()) {
    if (entry.has("random"))
      draw_failures(entry, topology, failures);
    else
      failures.push_back(read_failure(entry));
  }
  return resolve(topology, failures);
}

}  // namespace slackline
