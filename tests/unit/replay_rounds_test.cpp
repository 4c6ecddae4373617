// Rounds: an interpreter of NCCL's semantics executes all ranks' rounds in random orders; nothing may block for ever, and the
// results must be the collective's.
#include "replay/rounds.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "replay_support.hpp"

namespace slackline {
namespace {

using testing::NamedSchedule;

// Elements are 8 bytes: a contribution is a random 64-bit weight, reductions are sums modulo 2^64.
constexpr int64_t width = 8;
constexpr uint64_t poison = 0x5a5a5a5a5a5a5a5a;

uint64_t weight(int rank, int64_t element) {
  uint64_t x = (static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(element)) + 1;
  for (int round = 0; round < 3; ++round) x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
  return x ^ x >> 31;
}

// What NCCL promises and no more: messages from one rank to another match in the order in which they were issued; those of a group make
// progress in any order, and each needs both sides to have begun their groups (nothing is buffered); a rank's next
// round begins when its group has ended.
class Interpreter {
 public:
  Interpreter(const Plan& plan, std::vector<RankRounds> rounds, uint32_t seed) : plan_(plan), rounds_(std::move(rounds)), random_(seed) {
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto& memory = memory_.emplace_back();
      for (int b = 0; b < 4; ++b)
        memory.emplace_back(static_cast<size_t>(plan.buffer_bytes(rank, static_cast<Buffer>(b)) / width), poison);
      // Staged data need not be aligned to elements of 8 bytes, but to 16 bytes like their destination; hence bytes.
      staging_.emplace_back(static_cast<size_t>(rounds_[static_cast<size_t>(rank)].staging_bytes), std::byte{0x5a});
      for (const Content& content : contents_before(plan.layout(), rank))
        for (int64_t i = 0; i < content.bytes / width; ++i)
          memory[static_cast<size_t>(content.buffer)].at(static_cast<size_t>(content.offset / width + i)) = weight(rank, content.message_offset / width + i);
    }
    states_.resize(rounds_.size());
  }

  // True if all ranks got through.
  bool run() {
    for (;;) {
      // What can happen next: a rank begins a round, or a matched message moves.
      std::vector<std::pair<int, int>> choices;  // rank begins: (rank, -1); message: (sender, receiver)
      for (int rank = 0; rank < plan_.ranks(); ++rank) {
        const State& state = states_[static_cast<size_t>(rank)];
        if (!state.active && state.next < rounds_[static_cast<size_t>(rank)].rounds.size()) choices.emplace_back(rank, -1);
      }
      for (const auto& [pair, sends] : sends_)
        if (!sends.empty() && !receives_[pair].empty()) choices.push_back(pair);
      if (choices.empty()) break;
      const auto [rank, other] = choices[random_() % choices.size()];
      if (other == -1)
        begin(rank);
      else
        move(rank, other);
    }
    for (size_t rank = 0; rank < states_.size(); ++rank)
      if (states_[rank].active || states_[rank].next < rounds_[rank].rounds.size()) return false;
    return true;
  }

  int64_t wrong() const {
    int64_t wrong = 0;
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      for (const Content& content : contents_after(plan_.layout(), rank))
        for (int64_t i = 0; i < content.bytes / width; ++i) {
          uint64_t expected = 0;
          for (int from = 0; from < plan_.ranks(); ++from)
            if (content.from == Content::all_ranks || content.from == from) expected += weight(from, content.message_offset / width + i);
          wrong += memory_[static_cast<size_t>(rank)][static_cast<size_t>(content.buffer)][static_cast<size_t>(content.offset / width + i)] != expected;
        }
    return wrong;
  }

 private:
  struct State {
    size_t next = 0;     // round
    bool active = false;
    size_t open = 0;     // messages of the group that have not ended
  };

  std::byte* at(int rank, bool staged, Buffer buffer, int64_t offset) {
    if (staged) return staging_[static_cast<size_t>(rank)].data() + offset;
    return reinterpret_cast<std::byte*>(memory_[static_cast<size_t>(rank)][static_cast<size_t>(buffer)].data()) + offset;
  }
  void begin(int rank) {
    State& state = states_[static_cast<size_t>(rank)];
    const Round& round = rounds_[static_cast<size_t>(rank)].rounds[state.next];
    state.active = true;
    state.open = round.messages.size();
    for (const Message& message : round.messages) {
      const int peer = static_cast<int>(message.peer);
      if (message.send)
        sends_[{rank, peer}].push_back(message);
      else
        receives_[{peer, rank}].push_back(message);
    }
    if (state.open == 0) end(rank);
  }
  void move(int sender, int receiver) {
    std::deque<Message>& sends = sends_[{sender, receiver}];
    std::deque<Message>& receives = receives_[{sender, receiver}];
    const Message from = sends.front(), to = receives.front();
    sends.pop_front();
    receives.pop_front();
    ASSERT_EQ(from.bytes, to.bytes);
    std::memcpy(at(receiver, to.staged, to.buffer, to.offset), at(sender, false, from.buffer, from.offset), static_cast<size_t>(from.bytes));
    for (const int rank : {sender, receiver})
      if (--states_[static_cast<size_t>(rank)].open == 0) end(rank);
  }
  void end(int rank) {
    State& state = states_[static_cast<size_t>(rank)];
    for (const LocalWork& work : rounds_[static_cast<size_t>(rank)].rounds[state.next].work) {
      if (work.staged) {
        EXPECT_EQ((work.piece.source - work.piece.destination) % 16, 0);
      }
      for (int64_t i = 0; i < work.piece.bytes; i += width) {
        uint64_t value = 0, there = 0;
        std::memcpy(&value, at(rank, work.staged, work.source, work.piece.source + i), width);
        std::byte* to = at(rank, false, work.destination, work.piece.destination + i);
        std::memcpy(&there, to, width);
        if (work.reduce) value += there;
        std::memcpy(to, &value, width);
      }
    }
    state.active = false;
    ++state.next;
  }

  const Plan& plan_;
  std::vector<RankRounds> rounds_;
  std::mt19937 random_;
  std::vector<std::vector<std::vector<uint64_t>>> memory_;
  std::vector<std::vector<std::byte>> staging_;
  std::vector<State> states_;
  std::map<std::pair<int, int>, std::deque<Message>> sends_, receives_;
};

std::vector<RankRounds> all_rounds(const Plan& plan) {
  std::vector<RankRounds> rounds;
  for (int rank = 0; rank < plan.ranks(); ++rank) rounds.push_back(rounds_of(plan, rank));
  return rounds;
}

TEST(ReplayRounds, EveryOrderOfProgressGivesTheCollective) {
  for (const int ranks : {2, 3, 5, 8})
    for (const NamedSchedule& kind : testing::all_kinds(ranks))
      for (const int64_t elements : {1, 7, 64}) {
        SCOPED_TRACE(kind.name + ", " + std::to_string(ranks) + " ranks, " + std::to_string(elements) + " elements");
        const Plan plan = build_plan(kind.schedule, Bytes(elements * width), Bytes(width));
        for (uint32_t seed = 0; seed < 3; ++seed) {
          Interpreter interpreter(plan, all_rounds(plan), seed);
          ASSERT_TRUE(interpreter.run()) << "deadlock";
          EXPECT_EQ(interpreter.wrong(), 0);
        }
      }
}

// For any schedule at all, right or wrong, both sides of each transfer are in the same round, in the same order.
TEST(ReplayRounds, SendsAndReceivesOfARoundMatch) {
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 50; ++repeat) {
    testing::HandMade writer(testing::collective(CollectiveType::allreduce, 4), 8);
    for (uint32_t i = 0; i < 40; ++i) {
      const int src = static_cast<int>(random() % 4), dst = static_cast<int>(random() % 4);
      const int64_t from = static_cast<int64_t>(random() % 8);
      const int64_t to = src == dst ? (from + 1 + static_cast<int64_t>(random() % 7)) % 8 : from;
      std::vector<uint32_t> after;
      if (i > 0 && random() % 2) after.push_back(static_cast<uint32_t>(random() % i));
      writer.add(src, {Buffer::data, from, 1}, dst, {Buffer::data, to, 1}, random() % 2 ? TransferOp::copy : TransferOp::reduce,
                 static_cast<int>(random() % 3), after);
    }
    const Plan plan = build_plan(writer.schedule(), Bytes(8 * width), Bytes(width));
    const std::vector<RankRounds> rounds = all_rounds(plan);
    using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // round, sender, receiver
    std::map<Key, std::vector<int64_t>> sent, received;
    for (uint32_t rank = 0; rank < 4; ++rank)
      for (const Round& round : rounds[rank].rounds)
        for (const Message& message : round.messages)
          if (message.send)
            sent[{round.number, rank, message.peer}].push_back(message.bytes);
          else
            received[{round.number, message.peer, rank}].push_back(message.bytes);
    EXPECT_EQ(sent, received);
    EXPECT_TRUE(Interpreter(plan, rounds, random()).run()) << "deadlock";
  }
}

TEST(ReplayRounds, ARingTakesAsManyRoundsAsItHasSteps) {
  const Plan plan = build_plan(testing::ring(5), Bytes(5 * 160), Bytes(4));
  for (int rank = 0; rank < 5; ++rank) {
    const RankRounds rounds = rounds_of(plan, rank);
    ASSERT_EQ(rounds.rounds.size(), 8u);  // 2 (p - 1)
    EXPECT_EQ(rounds.staging_bytes / 16, 160 / 16);
    for (size_t r = 0; r < 8; ++r) {
      EXPECT_EQ(rounds.rounds[r].messages.size(), 2u);
      EXPECT_EQ(rounds.rounds[r].work.size(), r < 4 ? 1u : 0u);  // reductions of the reduce-scatter
    }
  }
}

// What a deadlock is to the interpreter: a rank that lacks a round; and ranks that all receive in one group and send in the next.
TEST(ReplayRounds, TheInterpreterNoticesDeadlocks) {
  const Plan plan = build_plan(testing::ring(3), Bytes(3 * width), Bytes(width));
  std::vector<RankRounds> missing = all_rounds(plan);
  missing[1].rounds.pop_back();
  EXPECT_FALSE(Interpreter(plan, missing, 1).run());
  std::vector<RankRounds> split = all_rounds(plan);
  for (RankRounds& rank : split) {
    std::vector<Round> rounds;
    for (const Round& round : rank.rounds)
      for (const bool send : {false, true})
        for (const Message& message : round.messages)
          if (message.send == send) rounds.push_back({round.number, {message}, {}});
    rank.rounds = rounds;
  }
  EXPECT_FALSE(Interpreter(plan, split, 1).run());
}

}  // namespace
}  // namespace slackline
