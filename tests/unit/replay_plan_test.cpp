// The planner: an interpreter executes plans in hostile orders, and the results must be the collective's; and
// the orders that a schedule guarantees must hold in every execution.
#include "replay/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/error.hpp"
#include "replay_support.hpp"

namespace slackline {
namespace {

using testing::NamedSchedule;

// Message elements are 8 bytes: a rank's contribution to one is a random 64-bit weight, reductions are sums modulo
// 2^64, so that a sum tells exactly what went into it, and how often.
constexpr int64_t width = 8;

uint64_t weight(int rank, int64_t element) {
  uint64_t x = (static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(element)) + 1;
  for (int round = 0; round < 3; ++round) x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
  return x ^ x >> 31;
}

// Whom the adversary favours.
enum class Favour { random, first, last, starve_rank_0, one_at_a_time };

// Executes a plan an element access at a time. Steps overlap in all ways that their waits allow.
class Interpreter {
 public:
  Interpreter(const Plan& plan, uint32_t seed, Favour favour) : plan_(plan), random_(seed), favour_(favour) {
    memory_.resize(static_cast<size_t>(plan.ranks()));
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto& buffers = memory_[static_cast<size_t>(rank)];
      for (int b = 0; b < 4; ++b)
        buffers.emplace_back(static_cast<size_t>(plan.buffer_bytes(rank, static_cast<Buffer>(b)) / width), poison);
      for (const Content& content : contents_before(plan.layout(), rank))
        for (int64_t i = 0; i < content.bytes / width; ++i)
          at(rank, content.buffer, content.offset / width + i) = weight(rank, content.message_offset / width + i);
    }
  }

  // Forgets that `step` waits for `earlier`, to see whether anybody notices.
  void forget(uint32_t step, uint32_t earlier) { forgotten_ = {step, earlier}; }

  void run() {
    const std::vector<Step>& steps = plan_.steps();
    missing_.assign(steps.size(), 0);
    std::vector<std::vector<uint32_t>> successors(steps.size());
    const auto wait = [&](uint32_t step, uint32_t earlier) {
      if (forgotten_ == std::pair(step, earlier)) return;
      ++missing_[step];
      successors[earlier].push_back(step);
    };
    for (uint32_t s = 0; s < steps.size(); ++s) {
      for (const uint32_t earlier : steps[s].order)
        if (earlier != Step::none) wait(s, earlier);
      for (const uint32_t earlier : plan_.after(s)) wait(s, earlier);
    }
    for (uint32_t s = 0; s < steps.size(); ++s)
      if (missing_[s] == 0) ready_.push_back(s);
    began_.assign(steps.size(), -1);
    ended_.assign(steps.size(), -1);
    while (!ready_.empty() || !active_.empty()) {
      const bool begin = !ready_.empty() && (active_.empty() || (favour_ != Favour::one_at_a_time && random_() % 3 == 0));
      if (begin) {
        const size_t chosen = choose(ready_);
        activate(ready_[chosen]);
        ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(chosen));
        continue;
      }
      const size_t chosen = random_() % active_.size();
      if (!access(active_[chosen])) continue;
      const uint32_t step = active_[chosen].step;
      active_.erase(active_.begin() + static_cast<ptrdiff_t>(chosen));
      ended_[step] = clock_++;
      ++done_;
      for (const uint32_t next : successors[step])
        if (--missing_[next] == 0) ready_.push_back(next);
    }
  }

  bool complete() const { return done_ == plan_.steps().size(); }
  int64_t wrong() {
    int64_t wrong = 0;
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      for (const Content& content : contents_after(plan_.layout(), rank))
        for (int64_t i = 0; i < content.bytes / width; ++i) {
          const int64_t element = content.message_offset / width + i;
          uint64_t expected = 0;
          for (int from = 0; from < plan_.ranks(); ++from)
            if (content.from == Content::all_ranks || content.from == from) expected += weight(from, element);
          wrong += at(rank, content.buffer, content.offset / width + i) != expected;
        }
    return wrong;
  }
  int64_t began(uint32_t step) const { return began_[step]; }
  int64_t ended(uint32_t step) const { return ended_[step]; }

 private:
  static constexpr uint64_t poison = 0x5a5a5a5a5a5a5a5a;
  struct Access {
    int64_t source, destination;  // elements
    uint64_t value = 0;
    bool read = false;
  };
  struct Active {
    uint32_t step;
    std::vector<Access> accesses;
  };

  uint64_t& at(uint32_t rank, Buffer buffer, int64_t element) {
    return memory_.at(rank).at(static_cast<size_t>(buffer)).at(static_cast<size_t>(element));
  }
  uint64_t& at(int rank, Buffer buffer, int64_t element) { return at(static_cast<uint32_t>(rank), buffer, element); }

  size_t choose(const std::vector<uint32_t>& ready) {
    const auto begin = ready.begin();
    switch (favour_) {
      case Favour::first: return static_cast<size_t>(std::min_element(begin, ready.end()) - begin);
      case Favour::last: return static_cast<size_t>(std::max_element(begin, ready.end()) - begin);
      case Favour::starve_rank_0:
        for (size_t i = 0; i < ready.size(); ++i)
          if (plan_.steps()[ready[i]].rank != 0) return i;
        return 0;
      default: return random_() % ready.size();
    }
  }
  void activate(uint32_t step) {
    began_[step] = clock_++;
    Active active{step, {}};
    for (const Piece& piece : plan_.pieces(step)) {
      EXPECT_EQ(piece.bytes % width, 0);
      for (int64_t i = 0; i < piece.bytes; i += width)
        active.accesses.push_back({(piece.source + i) / width, (piece.destination + i) / width});
    }
    active_.push_back(active);
  }
  // Reads or writes one element; true once nothing is left.
  bool access(Active& active) {
    if (active.accesses.empty()) return true;
    const Step& step = plan_.steps()[active.step];
    const size_t chosen = random_() % active.accesses.size();
    Access& access = active.accesses[chosen];
    if (!access.read) {
      access.value = at(step.source_rank(), step.source, access.source);
      access.read = true;
      return false;
    }
    uint64_t& to = at(step.rank, step.destination, access.destination);
    to = step.reduces() ? to + access.value : access.value;
    active.accesses.erase(active.accesses.begin() + static_cast<ptrdiff_t>(chosen));
    return active.accesses.empty();
  }

  const Plan& plan_;
  std::mt19937 random_;
  Favour favour_;
  std::pair<uint32_t, uint32_t> forgotten_{Step::none, Step::none};
  size_t done_ = 0;
  int64_t clock_ = 0;
  std::vector<std::vector<std::vector<uint64_t>>> memory_;
  std::vector<uint32_t> missing_, ready_;
  std::vector<Active> active_;
  std::vector<int64_t> began_, ended_;
};

constexpr Favour favours[] = {Favour::random, Favour::first, Favour::last, Favour::starve_rank_0, Favour::one_at_a_time};

TEST(ReplayPlan, EveryOrderGivesTheCollective) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const NamedSchedule& kind : testing::all_kinds(ranks)) {
      SCOPED_TRACE(kind.name + ", " + std::to_string(ranks) + " ranks");
      // One element, fewer than units, not divisible, and divisible sizes.
      const int64_t units = kind.schedule.units();
      for (const int64_t elements : {int64_t{1}, units / 2 + 1, units + 3, 2 * units}) {
        const Plan plan = build_plan(kind.schedule, Bytes(elements * width), Bytes(width));
        for (uint32_t seed = 0; seed < 5; ++seed) {
          Interpreter interpreter(plan, seed, favours[seed]);
          interpreter.run();
          ASSERT_TRUE(interpreter.complete());
          ASSERT_EQ(interpreter.wrong(), 0) << elements << " elements, seed " << seed;
        }
      }
    }
  }
}

// Drops one wait at a time. Without any wait for data, or for the send that waited for the data, some order goes wrong.
TEST(ReplayPlan, TheInterpreterNoticesForgottenWaits) {
  for (const NamedSchedule& kind : {NamedSchedule{"ring", testing::ring(3)},
                                    NamedSchedule{"scratch", testing::scratch_allreduce(3)}}) {
    const Plan plan = build_plan(kind.schedule, Bytes(2 * kind.schedule.units() * width), Bytes(width));
    size_t tried = 0;
    for (uint32_t s = 0; s < plan.steps().size(); ++s) {
      std::vector<uint32_t> needed(plan.after(s).begin(), plan.after(s).end());
      if (plan.steps()[s].moves() && plan.steps()[s].rank != plan.steps()[s].peer && !plan.after(s - 1).empty())
        needed.push_back(s - 1);
      for (const uint32_t earlier : needed) {
        bool wrong = false;
        for (uint32_t seed = 0; seed < 500 && !wrong; ++seed) {
          Interpreter interpreter(plan, seed, favours[seed % 5]);
          interpreter.forget(s, earlier);
          interpreter.run();
          wrong = interpreter.wrong() > 0;
        }
        EXPECT_TRUE(wrong) << kind.name << ": step " << s << " without waiting for " << earlier;
        ++tried;
      }
    }
    EXPECT_GE(tried, 14u) << kind.name;
  }
}

// Any schedule, right or wrong: the three orders of validate.hpp hold, whatever the adversary does, and the
// plan demands no others.
TEST(ReplayPlan, KeepsTheGuaranteedOrdersAndNoOthers) {
  std::mt19937 random(1);
  size_t reversed = 0;
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    testing::HandMade writer(testing::collective(CollectiveType::allreduce, ranks), 4);
    const uint32_t transfers = 2 + random() % 25;
    for (uint32_t t = 0; t < transfers; ++t) {
      std::vector<uint32_t> after;
      while (t > 0 && random() % 2 == 0) after.push_back(static_cast<uint32_t>(random() % t));
      const int src = static_cast<int>(random() % static_cast<uint32_t>(ranks));
      const int dst = static_cast<int>(random() % static_cast<uint32_t>(ranks));
      const int64_t from = random() % 2, to = src == dst ? 2 + static_cast<int64_t>(random() % 2) : from;
      writer.add(src, {Buffer::data, from, 1}, dst, {Buffer::data, to, 1},
                 random() % 2 ? TransferOp::copy : TransferOp::reduce, static_cast<int>(random() % 2), after);
    }
    const Schedule& schedule = writer.schedule();
    const Plan plan = build_plan(schedule, Bytes(4 * width), Bytes(width));
    std::map<uint32_t, uint32_t> moving;
    for (uint32_t s = 0; s < plan.steps().size(); ++s)
      if (plan.steps()[s].moves()) moving[plan.steps()[s].transfer] = s;
    ASSERT_EQ(moving.size(), schedule.size());
    Interpreter interpreter(plan, random(), favours[round % 5]);
    interpreter.run();
    ASSERT_TRUE(interpreter.complete());
    // What must be ordered: the closure of the three rules.
    std::vector<std::set<uint32_t>> before(schedule.size());
    for (uint32_t b = 0; b < schedule.size(); ++b) {
      for (uint32_t a = 0; a < b; ++a) {
        const bool channel = schedule.channel(a) == schedule.channel(b);
        const auto after = schedule.after(b);
        if ((channel && (schedule.src(a) == schedule.src(b) || schedule.dst(a) == schedule.dst(b))) ||
            std::find(after.begin(), after.end(), a) != after.end()) {
          before[b].insert(a);
          before[b].insert(before[a].begin(), before[a].end());
        }
      }
      for (const uint32_t a : before[b]) EXPECT_LT(interpreter.ended(moving[a]), interpreter.began(moving[b]));
      for (uint32_t a = 0; a < b; ++a)
        if (!before[b].contains(a)) reversed += interpreter.began(moving[b]) < interpreter.began(moving[a]);
    }
  }
  EXPECT_GT(reversed, 100u);  // unordered transfers did change places
}

TEST(ReplayPlan, HasAProgramForEachRankAndChannelInListOrder) {
  const Plan plan = build_plan(testing::channel_rings(4, 3), Bytes(4096), Bytes(4));
  ASSERT_EQ(plan.programs().size(), 12u);
  std::set<uint32_t> seen;
  for (size_t i = 0; i < 12; ++i) {
    const Plan::Program& program = plan.programs()[i];
    EXPECT_EQ(program.rank, i / 3);
    EXPECT_EQ(program.channel, i % 3);
    EXPECT_EQ(program.steps.size(), 2u * 6);  // a send and a receive in each of the six turns
    for (size_t s = 0; s < program.steps.size(); ++s) {
      EXPECT_EQ(plan.steps()[program.steps[s]].rank, program.rank);
      EXPECT_EQ(plan.steps()[program.steps[s]].channel, program.channel);
      EXPECT_TRUE(s == 0 || program.steps[s - 1] < program.steps[s]);
      seen.insert(program.steps[s]);
    }
  }
  EXPECT_EQ(seen.size(), plan.steps().size());
}

TEST(ReplayPlan, RoundsTheSizeUpOnlyAsFarAsItMust) {
  const auto size = [](const Schedule& schedule, int64_t bytes, int64_t element) {
    return build_plan(schedule, Bytes(bytes), Bytes(element)).layout().message().size();
  };
  EXPECT_EQ(size(testing::ring(5), 1, 4), 4);
  EXPECT_EQ(size(testing::ring(5), 1002, 2), 1002);
  EXPECT_EQ(size(testing::ring(5), 1001, 4), 1004);
  // Scratch keeps units as long as they are.
  EXPECT_EQ(size(testing::scratch_allreduce(3), 4 * 4 + 4, 4), 20);
  // Part 0 of rank 1 becomes part 1 of rank 0: units must be alike.
  EXPECT_EQ(size(testing::direct(CollectiveType::alltoall, 3), 100, 4), 120);
  // A unit that is parked in the place of another.
  testing::HandMade parked(testing::collective(CollectiveType::allreduce, 2), 3);
  parked.add(0, {Buffer::data, 0, 1}, 1, {Buffer::data, 2, 1}, TransferOp::copy);
  EXPECT_EQ(size(parked.schedule(), 16, 4), 24);
  EXPECT_EQ(size(parked.schedule(), 12, 4), 12);
  // The same by way of scratch.
  testing::HandMade detour(testing::collective(CollectiveType::allreduce, 2), 3);
  const uint32_t there = detour.add(0, {Buffer::data, 0, 1}, 1, {Buffer::scratch, 0, 1}, TransferOp::copy);
  detour.add(1, {Buffer::scratch, 0, 1}, 1, {Buffer::data, 2, 1}, TransferOp::copy, 0, {there});
  EXPECT_EQ(size(detour.schedule(), 16, 4), 24);
}

// Units of 1 or 2 elements; scratch units are 2 elements long.
TEST(ReplayPlan, CutsTransfersThroughScratchAtUnitsOfUnequalLength) {
  testing::HandMade writer(testing::collective(CollectiveType::allreduce, 2), 4);
  writer.add(1, {Buffer::data, 0, 4}, 0, {Buffer::scratch, 1, 4}, TransferOp::copy);
  const Plan plan = build_plan(writer.schedule(), Bytes(6 * 4), Bytes(4));  // units of 1, 2, 1, 2 elements
  const auto pieces = plan.pieces(1);
  ASSERT_EQ(pieces.size(), 3u);
  const int64_t expected[][3] = {{0, 8, 4}, {4, 16, 12}, {16, 32, 8}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pieces[i].source, expected[i][0]);
    EXPECT_EQ(pieces[i].destination, expected[i][1]);
    EXPECT_EQ(pieces[i].bytes, expected[i][2]);
  }
  EXPECT_EQ(plan.buffer_bytes(0, Buffer::scratch), 5 * 8);
  EXPECT_EQ(plan.buffer_bytes(1, Buffer::scratch), 0);
  EXPECT_EQ(plan.total_bytes(), 24);
}

TEST(ReplayPlan, RefusesWhatCannotBeExecuted) {
  const Collective what = testing::collective(CollectiveType::allreduce, 2);
  const auto message = [&](const Chunk& from, const Chunk& to, int src = 0, int dst = 1,
                           std::vector<uint32_t> after = {}) -> std::string {
    testing::HandMade writer(what, 4);
    writer.add(src, from, dst, to, TransferOp::copy, 0, after);
    try {
      build_plan(writer.schedule(), Bytes(64), Bytes(4));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "accepted";
  };
  const Chunk unit{Buffer::data, 0, 1};
  EXPECT_EQ(message(unit, unit), "accepted");
  EXPECT_EQ(message(unit, unit, 0, 2), "transfer 0: there is no rank 2");
  EXPECT_EQ(message(unit, {Buffer::data, 0, 2}), "transfer 0: source and destination differ in length");
  EXPECT_EQ(message({Buffer::data, 4, 1}, unit), "transfer 0: a chunk of 1 units at 4 is not within \"data\", which has 4");
  EXPECT_EQ(message({Buffer::data, -1, 1}, unit), "transfer 0: a chunk of 1 units at -1 is not within \"data\", which has 4");
  EXPECT_EQ(message({Buffer::data, INT64_MAX, INT64_MAX}, unit).substr(0, 19), "transfer 0: a chunk");
  EXPECT_EQ(message({Buffer::input, 0, 1}, unit), "transfer 0: an in-place collective has no buffer \"input\"");
  EXPECT_EQ(message(unit, unit, 0, 0), "transfer 0: source and destination overlap");
  EXPECT_EQ(message(unit, unit, 0, 1, {0}), "transfer 0: waits for transfer 0, which is not before it");
  EXPECT_THROW(build_plan(testing::ring(2), Bytes(0), Bytes(4)), Error);
}

}  // namespace
}  // namespace slackline
