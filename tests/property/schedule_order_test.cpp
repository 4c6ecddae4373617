// Order proofs on schedules too large for brute force, against the plain closure of the
// happens-before relation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <tuple>

#include "schedule/order.hpp"
#include "schedule/validate.hpp"
#include "support/sanitized.hpp"

namespace slackline {
namespace {

constexpr int schedules = sanitized ? 30 : 150;  // times the environment variable SLACKLINE_PROPERTY_SCALE

int scale() {
  const char* text = std::getenv("SLACKLINE_PROPERTY_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

// before[x][y]: has phase y ended before phase x begins? Phase A of transfer t is 2t, phase B 2t
// + 1.
class Closure {
public:
  explicit Closure(const Schedule& schedule)
      : before_(2 * schedule.size(), std::vector<bool>(2 * schedule.size())) {
    for (size_t t = 0; t < schedule.size(); ++t) {
      const size_t a = 2 * t, b = a + 1;
      for (const uint32_t d : schedule.after(t)) {
        include(a, 2 * d);
        include(a, 2 * d + 1);
      }
      for (size_t s = 0; s < t; ++s)
        if (schedule.src(s) == schedule.src(t) && schedule.channel(s) == schedule.channel(t))
          include(a, 2 * s);
      for (size_t y = 0; y < a; ++y)
        if (before_[a][y]) before_[b][y] = true;
      for (size_t v = 0; v < t; ++v)
        if (schedule.dst(v) == schedule.dst(t) && schedule.channel(v) == schedule.channel(t)) {
          include(b, 2 * v);
          include(b, 2 * v + 1);
        }
    }
  }
  bool ordered(const OrderQuery& q) const {
    const size_t x = 2 * q.later + (q.conflict == Conflict::write_read ? 0 : 1);
    return before_[x][2 * q.earlier + (q.conflict == Conflict::read_write ? 0 : 1)];
  }

private:
  void include(size_t x, size_t y) {
    before_[x][y] = true;
    for (size_t z = 0; z < y; ++z)
      if (before_[y][z]) before_[x][z] = true;
  }
  std::vector<std::vector<bool>> before_;
};

using Random = std::mt19937_64;
int pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

// Transfers among `ranks` ranks between `units` units. Of 1000 conflicts all but about `dropped`
// are ordered by a dependency; in every other transfer only the latest one or two dependencies are
// kept.
Schedule random_schedule(Random& random, int size, int ranks, int units, int channels,
                         int dropped) {
  Collective collective;
  collective.ranks = ranks;
  Schedule schedule(collective, units);
  for (int u = 0; u < units; ++u) schedule.add_chunk({Buffer::data, u, 1});
  for (int t = 0; t < size; ++t) {
    Transfer x;
    x.src = static_cast<uint32_t>(pick(random, 0, ranks - 1));
    x.dst = static_cast<uint32_t>((static_cast<int>(x.src) + pick(random, 1, ranks - 1)) % ranks);
    x.src_chunk = static_cast<uint32_t>(pick(random, 0, units - 1));
    x.dst_chunk =
        pick(random, 0, 3) > 0 ? x.src_chunk : static_cast<uint32_t>(pick(random, 0, units - 1));
    x.op = pick(random, 0, 1) == 0 ? TransferOp::copy : TransferOp::reduce;
    x.channel = static_cast<uint16_t>(pick(random, 0, channels - 1));
    std::vector<uint32_t> after;
    for (uint32_t d = 0; d < static_cast<uint32_t>(t); ++d) {
      const Transfer e = schedule.transfer(d);
      const bool conflict = (e.dst == x.src && e.dst_chunk == x.src_chunk) ||
                            (e.dst == x.dst && e.dst_chunk == x.dst_chunk) ||
                            (e.src == x.dst && e.src_chunk == x.dst_chunk);
      if (conflict && pick(random, 1, 1000) > dropped) after.push_back(d);
    }
    // Most dependencies follow from others: keep the latest and a few more.
    if (after.size() > 2 && pick(random, 0, 1) == 0)
      after.erase(after.begin(), after.end() - pick(random, 1, 2));
    x.after = after;
    schedule.add(x);
  }
  return schedule;
}

std::vector<OrderQuery> conflicts(const Schedule& schedule) {
  std::vector<OrderQuery> all;
  for (uint32_t t = 0; t < schedule.size(); ++t)
    for (uint32_t e = 0; e < t; ++e) {
      const Transfer x = schedule.transfer(t), y = schedule.transfer(e);
      if (y.dst == x.src && y.dst_chunk == x.src_chunk) all.push_back({e, t, Conflict::write_read});
      if (y.src == x.dst && y.src_chunk == x.dst_chunk) all.push_back({e, t, Conflict::read_write});
      if (y.dst == x.dst && y.dst_chunk == x.dst_chunk)
        all.push_back({e, t, Conflict::write_write});
    }
  return all;
}

TEST(ScheduleOrder, AnswersEveryQueryAsTheClosureDoes) {
  Random random(7);
  for (int i = 0; i < schedules * scale(); ++i) {
    // At times more queues than one pass follows.
    const int ranks = pick(random, 2, i % 4 == 0 ? 60 : 6), channels = pick(random, 1, 3);
    const Schedule schedule =
        random_schedule(random, pick(random, 2, 150), ranks, pick(random, 1, 4), channels, 300);
    const Closure closure(schedule);
    std::vector<OrderQuery> queries, expected;
    for (uint32_t t = 0; t < schedule.size(); ++t)
      for (uint32_t e = 0; e < t; ++e)
        for (const Conflict conflict :
             {Conflict::write_read, Conflict::read_write, Conflict::write_write})
          if (pick(random, 0, 3) == 0) queries.push_back({e, t, conflict});
    for (const OrderQuery& query : queries)
      if (!closure.ordered(query)) expected.push_back(query);
    std::sort(expected.begin(), expected.end(), [](const OrderQuery& a, const OrderQuery& b) {
      return std::tie(a.later, a.earlier, a.conflict) < std::tie(b.later, b.earlier, b.conflict);
    });
    ASSERT_EQ(unordered_pairs(schedule, queries, SIZE_MAX), expected) << "schedule " << i;
  }
}

TEST(ScheduleOrder, TheValidatorFindsARaceIfAndOnlyIfTheClosureDoes) {
  Random random(8);
  int races = 0, none = 0;
  for (int i = 0; i < schedules * scale(); ++i) {
    const int dropped = pick(random, 0, 3) == 0 ? 10 : 0;
    const Schedule schedule =
        random_schedule(random, pick(random, 2, 400), pick(random, 2, i % 4 == 0 ? 40 : 4),
                        pick(random, 1, 3), pick(random, 1, 2), dropped);
    const Closure closure(schedule);
    std::set<int64_t> racing;  // the later one of each pair
    for (const OrderQuery& query : conflicts(schedule))
      if (!closure.ordered(query)) racing.insert(query.later);
    bool found = false;
    for (const Finding& finding : validate(schedule, {.max_findings = 100000})) {
      if (finding.rule != "race") continue;
      found = true;
      ASSERT_TRUE(racing.contains(finding.transfer)) << "schedule " << i << ": " << finding.message;
    }
    ASSERT_EQ(found, !racing.empty()) << "schedule " << i;
    ++(found ? races : none);
  }
  EXPECT_GT(races, schedules / 10);
  EXPECT_GT(none, schedules / 10);
}

}  // namespace
}  // namespace slackline
