// The validator against brute force: small schedules, random or mutated from right ones, whose
// every order of execution is tried. Written from the contract in schedule/validate.hpp, unit by
// unit, with nothing of the validator's own.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "schedule/validate.hpp"

namespace slackline {
namespace {

constexpr int schedules_of_each_kind =
    2000;  // times the environment variable SLACKLINE_PROPERTY_SCALE

int scale() {
  const char* text = std::getenv("SLACKLINE_PROPERTY_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

// ---------------------------------------------------------------- brute force

// How often each contribution (rank, unit) is in a place: 7 bits each, of at most 9. Two values
// stand outside.
using Content = uint64_t;
constexpr Content undefined = uint64_t{1} << 63;
constexpr Content unknown = undefined | 1;  // came of an undefined read

Content contribution(int64_t rank, int64_t unit, int64_t units) {
  return uint64_t{1} << (7 * (rank * units + unit));
}

bool is_defined(Content content) {
  return (content & undefined) == 0;
}

constexpr int64_t buffer_size = 4;  // no buffer here has more units
constexpr size_t most_ranks = 3, most_transfers = 8;

struct Memory {
  Memory() { cells.fill(undefined); }
  Content& at(int64_t rank, Buffer buffer, int64_t unit) {
    return cells[static_cast<size_t>((rank * 4 + static_cast<int64_t>(buffer)) * buffer_size +
                                     unit)];
  }
  std::array<Content, most_ranks * 4 * buffer_size> cells;
  bool operator==(const Memory&) const = default;
};

// What the table in schedule.hpp says, read once more.
Memory before(const Schedule& schedule) {
  const Collective& c = schedule.collective();
  const int64_t units = schedule.units(), part = units / c.ranks;
  const Buffer buffer = c.in_place ? Buffer::data : Buffer::input;
  Memory memory;
  for (int64_t r = 0; r < c.ranks; ++r) {
    const bool only_part = c.type == CollectiveType::allgather || c.type == CollectiveType::gather;
    const bool only_root = c.type == CollectiveType::broadcast || c.type == CollectiveType::scatter;
    for (int64_t u = 0; u < units; ++u) {
      if (only_root && r != c.root) continue;
      if (only_part && !(r * part <= u && u < (r + 1) * part)) continue;
      const int64_t position = only_part && !c.in_place ? u - r * part : u;
      memory.at(r, buffer, position) = contribution(r, u, units);
    }
  }
  return memory;
}

// What must be held, as (rank, unit of the target buffer) -> content.
std::map<std::pair<int64_t, int64_t>, Content> wanted(const Schedule& schedule) {
  const Collective& c = schedule.collective();
  const int64_t units = schedule.units(), part = units / c.ranks;
  std::map<std::pair<int64_t, int64_t>, Content> result;
  const auto sum = [&](int64_t u) {
    Content total = 0;
    for (int64_t r = 0; r < c.ranks; ++r) total += contribution(r, u, units);
    return total;
  };
  for (int64_t q = 0; q < c.ranks; ++q) {
    switch (c.type) {
      case CollectiveType::allreduce:
        for (int64_t u = 0; u < units; ++u) result[{q, u}] = sum(u);
        break;
      case CollectiveType::reduce:
        for (int64_t u = 0; u < units && q == c.root; ++u) result[{q, u}] = sum(u);
        break;
      case CollectiveType::broadcast:
        for (int64_t u = 0; u < units; ++u) result[{q, u}] = contribution(c.root, u, units);
        break;
      case CollectiveType::reduce_scatter:
        for (int64_t i = 0; i < part; ++i)
          result[{q, c.in_place ? q * part + i : i}] = sum(q * part + i);
        break;
      case CollectiveType::scatter:
        for (int64_t i = 0; i < part; ++i)
          result[{q, c.in_place ? q * part + i : i}] = contribution(c.root, q * part + i, units);
        break;
      case CollectiveType::allgather:
      case CollectiveType::gather:
        if (c.type == CollectiveType::gather && q != c.root) break;
        for (int64_t r = 0; r < c.ranks; ++r)
          for (int64_t i = 0; i < part; ++i)
            result[{q, r * part + i}] = contribution(r, r * part + i, units);
        break;
      case CollectiveType::alltoall:
        for (int64_t r = 0; r < c.ranks; ++r)
          for (int64_t i = 0; i < part; ++i)
            result[{q, r * part + i}] = contribution(r, q * part + i, units);
        break;
    }
  }
  return result;
}

struct Verdict {
  bool self_overlap = false, race = false, undefined_read = false, wrong_result = false;
  bool operator==(const Verdict&) const = default;
};

// The events of a transfer: its phases A and B begin and end.
enum Event { a_begin, a_end, b_begin, b_end };
constexpr uint32_t bit(size_t transfer, Event event) {
  return uint32_t{1} << (4 * transfer + event);
}

class BruteForce {
public:
  explicit BruteForce(const Schedule& schedule) : schedule_(schedule), count_(schedule.size()) {}

  Verdict run() {
    for (size_t t = 0; t < count_; ++t) {
      const Transfer x = schedule_.transfer(t);
      if (x.src == x.dst && overlap(x.src_chunk, x.dst_chunk)) return {.self_overlap = true};
    }
    constrain();
    find_conflicts();
    Verdict verdict;
    verdict.race = any_race();
    // In list order, every transfer at once.
    State list{before(schedule_)};
    for (size_t t = 0; t < count_; ++t)
      for (const Event event : {a_begin, a_end, b_begin, b_end}) step(list, t, event);
    verdict.undefined_read = list.undefined_read;
    verdict.wrong_result = wrong(list.memory);
    if (!verdict.race) try_all_orders(list);
    return verdict;
  }

  /// Whether every order gave what the list order gives, where there was no race.
  bool same_in_all_orders() const { return same_; }

private:
  struct State {
    Memory memory;
    std::array<std::array<Content, buffer_size>, most_transfers>
        read{};  // by transfer, what is under way
    bool undefined_read = false;
    bool operator==(const State&) const = default;
  };

  bool overlap(uint32_t a, uint32_t b) const {
    const Chunk &x = schedule_.chunks()[a], &y = schedule_.chunks()[b];
    if (x.buffer != y.buffer) return false;
    for (int64_t u = x.offset; u < x.offset + x.length; ++u)
      if (u >= y.offset && u < y.offset + y.length) return true;
    return false;
  }

  // before_[event]: the events that must have happened.
  void constrain() {
    before_.assign(4 * count_, 0);
    const auto must = [&](size_t t, Event event) -> uint32_t& { return before_[4 * t + event]; };
    for (size_t t = 0; t < count_; ++t) {
      const Transfer x = schedule_.transfer(t);
      must(t, a_end) |= bit(t, a_begin);
      must(t, b_begin) |= bit(t, a_begin);
      must(t, b_end) |= bit(t, a_end) | bit(t, b_begin);
      for (const uint32_t d : x.after) must(t, a_begin) |= bit(d, a_end) | bit(d, b_end);
      for (size_t s = 0; s < t; ++s) {
        if (schedule_.channel(s) != x.channel) continue;
        if (schedule_.src(s) == x.src) must(t, a_begin) |= bit(s, a_end);
        if (schedule_.dst(s) == x.dst) must(t, b_begin) |= bit(s, b_end);
      }
    }
  }

  // Phases of two transfers that touch the same unit, one of them writing.
  struct Phase {
    size_t transfer;
    Event begin, end;
    uint32_t rank, chunk;
    bool writes;
  };
  void find_conflicts() {
    std::vector<Phase> phases;
    for (size_t t = 0; t < count_; ++t) {
      const Transfer x = schedule_.transfer(t);
      phases.push_back({t, a_begin, a_end, x.src, x.src_chunk, false});
      phases.push_back({t, b_begin, b_end, x.dst, x.dst_chunk, true});
    }
    for (size_t i = 0; i < phases.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const Phase &p = phases[i], &q = phases[j];
        if (p.transfer != q.transfer && (p.writes || q.writes) && p.rank == q.rank &&
            overlap(p.chunk, q.chunk))
          conflicts_.emplace_back(p, q);
      }
  }

  // Visits every set of events that can have happened. A conflict is a race if both phases can be
  // under way at once or each can be over before the other has begun.
  bool any_race() const {
    std::unordered_set<uint32_t> seen{0};
    std::vector<uint32_t> open{0};
    std::vector<int> orders(conflicts_.size(), 0);
    while (!open.empty()) {
      const uint32_t done = open.back();
      open.pop_back();
      for (size_t i = 0; i < conflicts_.size(); ++i) {
        const auto& [p, q] = conflicts_[i];
        const bool p_begun = done & bit(p.transfer, p.begin),
                   p_ended = done & bit(p.transfer, p.end);
        const bool q_begun = done & bit(q.transfer, q.begin),
                   q_ended = done & bit(q.transfer, q.end);
        if (p_begun && !p_ended && q_begun && !q_ended) return true;
        if (p_ended && !q_begun) orders[i] |= 1;
        if (q_ended && !p_begun) orders[i] |= 2;
        if (orders[i] == 3) return true;
      }
      for (size_t e = 0; e < before_.size(); ++e) {
        const uint32_t next = done | uint32_t{1} << e;
        if (next != done && (before_[e] & ~done) == 0 && seen.insert(next).second)
          open.push_back(next);
      }
    }
    return false;
  }

  void step(State& state, size_t t, Event event) const {
    const Transfer x = schedule_.transfer(t);
    const Chunk &from = schedule_.chunks()[x.src_chunk], &to = schedule_.chunks()[x.dst_chunk];
    if (event == a_begin) {
      for (int64_t k = 0; k < from.length; ++k) {
        Content& read = state.read[t][static_cast<size_t>(k)];
        read = state.memory.at(x.src, from.buffer, from.offset + k);
        if (read == undefined) state.undefined_read = true;
      }
    } else if (event == b_end) {
      for (int64_t k = 0; k < to.length; ++k) {
        Content& cell = state.memory.at(x.dst, to.buffer, to.offset + k);
        const Content arrived = state.read[t][static_cast<size_t>(k)];
        if (x.op == TransferOp::reduce && cell == undefined) state.undefined_read = true;
        if (!is_defined(arrived) || (x.op == TransferOp::reduce && !is_defined(cell)))
          cell = unknown;
        else
          cell = x.op == TransferOp::reduce ? cell + arrived : arrived;
      }
      state.read[t].fill(0);
    }
  }

  void try_all_orders(const State& list) {
    std::unordered_map<uint32_t, State> seen;
    seen.emplace(0, State{before(schedule_)});
    std::vector<uint32_t> open{0};
    const uint32_t all = count_ == most_transfers ? UINT32_MAX : (uint32_t{1} << (4 * count_)) - 1;
    while (!open.empty()) {
      const uint32_t done = open.back();
      open.pop_back();
      if (done == all && !(seen.at(done) == list)) same_ = false;
      for (size_t e = 0; e < before_.size(); ++e) {
        const uint32_t next = done | uint32_t{1} << e;
        if (next == done || (before_[e] & ~done) != 0) continue;
        State state = seen.at(done);
        step(state, e / 4, static_cast<Event>(e % 4));
        const auto [found, is_new] = seen.try_emplace(next, state);
        if (is_new)
          open.push_back(next);
        else if (!(found->second.memory == state.memory && found->second.read == state.read))
          same_ = false;
      }
    }
  }

  bool wrong(Memory& memory) const {
    const Buffer buffer = schedule_.collective().in_place ? Buffer::data : Buffer::output;
    for (const auto& [place, content] : wanted(schedule_)) {
      const Content held = memory.at(place.first, buffer, place.second);
      if (held != content && held != unknown) return true;
    }
    return false;
  }

  const Schedule& schedule_;
  size_t count_;
  std::vector<uint32_t> before_;
  std::vector<std::pair<Phase, Phase>> conflicts_;
  bool same_ = true;
};

// ---------------------------------------------------------------- schedules

using Random = std::mt19937_64;

int pick(Random& random, int low, int high) {  // both included; the same on every machine
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}
bool chance(Random& random, int percent) {
  return pick(random, 1, 100) <= percent;
}

struct Step {
  uint32_t src, dst, src_chunk, dst_chunk;
  TransferOp op;
  uint16_t channel;
  std::vector<uint32_t> after;
};
struct Draft {
  Collective collective;
  int64_t units = 1;
  std::vector<Chunk> chunks;
  std::vector<Step> steps;

  Schedule schedule() const {
    Schedule result(collective, units);
    for (const Chunk& chunk : chunks) result.add_chunk(chunk);
    for (const Step& s : steps)
      result.add({s.src, s.dst, s.src_chunk, s.dst_chunk, s.op, s.channel, s.after});
    return result;
  }
};

std::string print(const Draft& draft) {
  std::string text(to_string(draft.collective.type));
  text += draft.collective.in_place ? " in place" : " out of place";
  text += ", root " + std::to_string(draft.collective.root) + ", ranks " +
          std::to_string(draft.collective.ranks) + ", units " + std::to_string(draft.units);
  for (size_t t = 0; t < draft.steps.size(); ++t) {
    const Step& s = draft.steps[t];
    const auto chunk = [&](uint32_t c) {
      return std::string(to_string(draft.chunks[c].buffer)) + " " +
             std::to_string(draft.chunks[c].offset) + "+" + std::to_string(draft.chunks[c].length);
    };
    text += "\n" + std::to_string(t) + ": " + std::to_string(s.src) + " [" + chunk(s.src_chunk) +
            "] -> " + std::to_string(s.dst) + " [" + chunk(s.dst_chunk) + "] " +
            std::string(to_string(s.op)) + " channel " + std::to_string(s.channel) + " after";
    for (const uint32_t d : s.after) text += " " + std::to_string(d);
  }
  return text;
}

// Chunks of one length can replace each other in a mutation.
uint32_t other_chunk(Random& random, const Draft& draft, uint32_t chunk, bool destination) {
  for (int i = 0; i < 20; ++i) {
    const auto c =
        static_cast<uint32_t>(pick(random, 0, static_cast<int>(draft.chunks.size()) - 1));
    if (draft.chunks[c].length != draft.chunks[chunk].length) continue;
    if (destination && draft.chunks[c].buffer == Buffer::input) continue;
    return c;
  }
  return chunk;
}

// All chunks that there can be, scratch of three units included.
void add_all_chunks(Draft& draft) {
  const Collective& c = draft.collective;
  const int64_t part = has_parts(c.type) ? draft.units / c.ranks : draft.units;
  const bool brings_part = c.type == CollectiveType::allgather || c.type == CollectiveType::gather;
  const bool gets_part =
      c.type == CollectiveType::reduce_scatter || c.type == CollectiveType::scatter;
  std::vector<std::pair<Buffer, int64_t>> buffers{{Buffer::scratch, 3}};
  if (c.in_place) {
    buffers.emplace_back(Buffer::data, draft.units);
  } else {
    buffers.emplace_back(Buffer::input, brings_part ? part : draft.units);
    buffers.emplace_back(Buffer::output, gets_part ? part : draft.units);
  }
  for (const auto& [buffer, size] : buffers)
    for (int64_t offset = 0; offset < size; ++offset)
      for (int64_t length = 1; offset + length <= size; ++length)
        draft.chunks.push_back({buffer, offset, length});
}

Draft any_collective(Random& random) {
  Draft draft;
  Collective& c = draft.collective;
  c.type = static_cast<CollectiveType>(pick(random, 0, 7));
  c.ranks = pick(random, 2, 3);
  c.in_place = chance(random, 50);
  if (has_root(c.type)) c.root = pick(random, 0, c.ranks - 1);
  draft.units = has_parts(c.type) ? c.ranks : pick(random, 1, 3);
  if (has_parts(c.type) && c.ranks == 2 && chance(random, 30)) draft.units = 4;
  return draft;
}

uint32_t find_chunk(const Draft& draft, const Chunk& chunk) {
  for (uint32_t c = 0; c < draft.chunks.size(); ++c)
    if (draft.chunks[c] == chunk) return c;
  ADD_FAILURE() << "no such chunk";
  return 0;
}

Draft random_schedule(Random& random) {
  Draft draft = any_collective(random);
  add_all_chunks(draft);
  const int size = pick(random, 1, 6), channels = pick(random, 1, 2),
            density = pick(random, 0, 100);
  const auto ranks = draft.collective.ranks;
  while (static_cast<int>(draft.steps.size()) < size) {
    Step s;
    s.src = static_cast<uint32_t>(pick(random, 0, ranks - 1));
    s.dst = static_cast<uint32_t>(pick(random, 0, ranks - 1));
    if (s.src == s.dst && chance(random, 70)) continue;
    s.src_chunk = static_cast<uint32_t>(pick(random, 0, static_cast<int>(draft.chunks.size()) - 1));
    s.dst_chunk = other_chunk(random, draft, s.src_chunk, true);
    if (draft.chunks[s.dst_chunk].buffer == Buffer::input) continue;
    if (draft.collective.in_place && chance(random, 60)) s.dst_chunk = s.src_chunk;
    s.op = chance(random, 50) ? TransferOp::copy : TransferOp::reduce;
    s.channel = static_cast<uint16_t>(pick(random, 0, channels - 1));
    for (uint32_t d = 0; d < draft.steps.size(); ++d)
      if (chance(random, density / 2)) s.after.push_back(d);
    draft.steps.push_back(std::move(s));
  }
  return draft;
}

// A right schedule for any collective, without regard to speed: contributions are carried to where
// they are wanted one by one, through scratch space now and then; every transfer waits for all that
// it conflicts with.
Draft right_schedule(Random& random) {
  for (;;) {
    Draft draft = any_collective(random);
    if (draft.collective.ranks == 3) draft.units = has_parts(draft.collective.type) ? 3 : 1;
    if (draft.collective.ranks == 2 && draft.units > 2) draft.units = 2;
    add_all_chunks(draft);
    const Collective& c = draft.collective;
    const Buffer source = c.in_place ? Buffer::data : Buffer::input;
    const Buffer target = c.in_place ? Buffer::data : Buffer::output;
    const auto chunk = [&](Buffer buffer, int64_t unit) {
      return find_chunk(draft, {buffer, unit, 1});
    };
    const auto add = [&](int64_t src, uint32_t from, int64_t dst, uint32_t to, TransferOp op) {
      draft.steps.push_back({static_cast<uint32_t>(src),
                             static_cast<uint32_t>(dst),
                             from,
                             to,
                             op,
                             static_cast<uint16_t>(pick(random, 0, 1)),
                             {}});
    };
    const int64_t part = draft.units / c.ranks;
    switch (c.type) {
      case CollectiveType::allreduce:
      case CollectiveType::reduce:
        for (int64_t u = 0; u < draft.units; ++u) {
          // A chain or a star towards the last rank, then back.
          const int64_t end = c.type == CollectiveType::reduce ? c.root : c.ranks - 1;
          if (!c.in_place) add(end, chunk(source, u), end, chunk(target, u), TransferOp::copy);
          const bool chain = chance(random, 50) && c.in_place;
          std::vector<int64_t> others;
          for (int64_t r = 0; r < c.ranks; ++r)
            if (r != end) others.push_back(r);
          for (size_t i = 0; i < others.size(); ++i)
            add(others[i], chunk(source, u), chain && i + 1 < others.size() ? others[i + 1] : end,
                chunk(target, u), TransferOp::reduce);
          if (c.type == CollectiveType::reduce) continue;
          for (size_t i = others.size(); i-- > 0;)
            add(chain && i + 1 < others.size() ? others[i + 1] : end, chunk(target, u), others[i],
                chunk(target, u), TransferOp::copy);
        }
        break;
      case CollectiveType::broadcast:
        for (int64_t u = 0; u < draft.units; ++u) {
          int64_t from = c.root;
          uint32_t from_chunk = chunk(source, u);
          for (int64_t r = 0; r < c.ranks; ++r) {
            if (r == c.root && c.in_place) continue;
            add(from, from_chunk, r, chunk(target, u), TransferOp::copy);
            if (chance(random, 50)) from = r, from_chunk = chunk(target, u);
          }
        }
        break;
      case CollectiveType::reduce_scatter:
        for (int64_t q = 0; q < c.ranks; ++q)
          for (int64_t i = 0; i < part; ++i) {
            const uint32_t from = chunk(source, q * part + i),
                           to = chunk(target, c.in_place ? q * part + i : i);
            if (!c.in_place) add(q, from, q, to, TransferOp::copy);
            for (int64_t r = 0; r < c.ranks; ++r)
              if (r != q) add(r, from, q, to, TransferOp::reduce);
          }
        break;
      case CollectiveType::scatter:
        for (int64_t u = 0; u < draft.units; ++u) {
          const int64_t q = u / part;
          if (q == c.root && c.in_place) continue;
          add(c.root, chunk(source, u), q, chunk(target, c.in_place ? u : u % part),
              TransferOp::copy);
        }
        break;
      case CollectiveType::allgather:
      case CollectiveType::gather:
        for (int64_t q = 0; q < c.ranks; ++q)
          for (int64_t u = 0; u < draft.units; ++u) {
            const int64_t r = u / part;
            if ((q == r && c.in_place) || (c.type == CollectiveType::gather && q != c.root))
              continue;
            add(r, chunk(source, c.in_place ? u : u % part), q, chunk(target, u), TransferOp::copy);
          }
        break;
      case CollectiveType::alltoall:
        if (c.in_place) {
          // Two ranks exchange a unit through scratch space.
          if (draft.units != 2) break;
          add(0, chunk(source, 1), 0, chunk(Buffer::scratch, 0), TransferOp::copy);
          add(1, chunk(source, 0), 0, chunk(target, 1), TransferOp::copy);
          add(0, chunk(Buffer::scratch, 0), 1, chunk(target, 0), TransferOp::copy);
        } else {
          for (int64_t r = 0; r < c.ranks; ++r)
            for (int64_t q = 0; q < c.ranks; ++q)
              add(r, chunk(source, q * part), q, chunk(target, r * part), TransferOp::copy);
        }
        break;
    }
    if (draft.steps.empty() || draft.steps.size() > 6) continue;
    for (size_t t = 0; t < draft.steps.size(); ++t) {
      Step& later = draft.steps[t];
      const bool all = chance(random, 20);
      for (uint32_t d = 0; d < t; ++d) {
        const Step& earlier = draft.steps[d];
        const bool conflict = (earlier.dst == later.src && earlier.dst_chunk == later.src_chunk) ||
                              (earlier.src == later.dst && earlier.src_chunk == later.dst_chunk) ||
                              (earlier.dst == later.dst && earlier.dst_chunk == later.dst_chunk);
        if (conflict || all) later.after.push_back(d);
      }
    }
    return draft;
  }
}

void mutate(Random& random, Draft& draft) {
  std::vector<Step>& steps = draft.steps;
  if (steps.empty()) return;
  const auto t = static_cast<size_t>(pick(random, 0, static_cast<int>(steps.size()) - 1));
  const auto rank = [&] {
    return static_cast<uint32_t>(pick(random, 0, draft.collective.ranks - 1));
  };
  switch (pick(random, 0, 14)) {
    case 0:  // drop a transfer; who waited for it waits for what it waited for
      for (size_t i = t + 1; i < steps.size(); ++i) {
        std::vector<uint32_t> after;
        for (const uint32_t d : steps[i].after) {
          if (d == t)
            after.insert(after.end(), steps[t].after.begin(), steps[t].after.end());
          else
            after.push_back(d > t ? d - 1 : d);
        }
        steps[i].after = after;
      }
      steps.erase(steps.begin() + static_cast<ptrdiff_t>(t));
      break;
    case 1:  // duplicate one
      if (steps.size() >= most_transfers) return;
      steps.insert(steps.begin() + static_cast<ptrdiff_t>(t), steps[t]);
      for (size_t i = t + 1; i < steps.size(); ++i)
        for (uint32_t& d : steps[i].after)
          if (d >= t) ++d;
      if (chance(random, 50)) steps[t + 1].after.push_back(static_cast<uint32_t>(t));
      break;
    case 2:
      steps[t].dst = rank();
      break;
    case 3:
      steps[t].src = rank();
      break;
    case 4:  // swap two neighbours
      if (t + 1 == steps.size()) return;
      std::erase(steps[t + 1].after, static_cast<uint32_t>(t));
      std::swap(steps[t], steps[t + 1]);
      for (size_t i = t + 2; i < steps.size(); ++i)
        for (uint32_t& d : steps[i].after)
          d = d == t ? static_cast<uint32_t>(t + 1) : d == t + 1 ? static_cast<uint32_t>(t) : d;
      break;
    case 5:
      steps[t].op = steps[t].op == TransferOp::copy ? TransferOp::reduce : TransferOp::copy;
      break;
    case 6:
      steps[t].src_chunk = other_chunk(random, draft, steps[t].src_chunk, false);
      break;
    case 7:
      steps[t].dst_chunk = other_chunk(random, draft, steps[t].dst_chunk, true);
      break;
    case 8:
      steps[t].channel ^= 1;
      break;
    case 9:
      if (t > 0)
        steps[t].after.push_back(static_cast<uint32_t>(pick(random, 0, static_cast<int>(t) - 1)));
      break;
    default:  // drop a dependency
      if (steps[t].after.empty()) return;
      steps[t].after.erase(steps[t].after.begin() +
                           pick(random, 0, static_cast<int>(steps[t].after.size()) - 1));
  }
}

// ---------------------------------------------------------------- the comparison

Verdict verdict_of_validator(const Schedule& schedule) {
  Verdict verdict;
  for (const Finding& finding : validate(schedule, {.max_findings = 10000})) {
    if (finding.rule == "self-overlap")
      verdict.self_overlap = true;
    else if (finding.rule == "race")
      verdict.race = true;
    else if (finding.rule == "undefined-read")
      verdict.undefined_read = true;
    else if (finding.rule == "wrong-result")
      verdict.wrong_result = true;
    else
      ADD_FAILURE() << finding.rule << ": " << finding.message;
  }
  return verdict;
}

std::string print(const Verdict& v) {
  return std::string(v.self_overlap ? "self-overlap " : "") + (v.race ? "race " : "") +
         (v.undefined_read ? "undefined-read " : "") + (v.wrong_result ? "wrong-result " : "");
}

struct Tally {
  int right = 0, race_only = 0, race = 0, undefined_read = 0, wrong = 0, self_overlap = 0;
};

template <class Make>
Tally compare(uint64_t seed, Make make) {
  Random random(seed);
  Tally tally;
  for (int i = 0; i < schedules_of_each_kind * scale(); ++i) {
    const Draft draft = make(random);
    const Schedule schedule = draft.schedule();
    BruteForce brute(schedule);
    const Verdict expected = brute.run();
    const Verdict verdict = verdict_of_validator(schedule);
    EXPECT_TRUE(brute.same_in_all_orders()) << "without a race, orders differ:\n" << print(draft);
    EXPECT_EQ(verdict, expected) << "validator: " << print(verdict)
                                 << "\nbrute force: " << print(expected) << "\n"
                                 << print(draft);
    if (testing::Test::HasFailure()) break;
    tally.right += expected == Verdict{};
    tally.race += expected.race;
    tally.race_only += expected.race && !expected.undefined_read && !expected.wrong_result;
    tally.undefined_read += expected.undefined_read;
    tally.wrong += expected.wrong_result;
    tally.self_overlap += expected.self_overlap;
  }
  std::printf(
      "right %d, race %d (nothing else: %d), undefined read %d, wrong %d, self-overlap %d\n",
      tally.right, tally.race, tally.race_only, tally.undefined_read, tally.wrong,
      tally.self_overlap);
  return tally;
}

TEST(ValidateBruteForce, RandomSchedules) {
  const Tally tally = compare(1, random_schedule);
  EXPECT_GT(tally.race, 300);
  EXPECT_GT(tally.undefined_read, 300);
  EXPECT_GT(tally.wrong, 300);
  EXPECT_GT(tally.self_overlap, 50);
}

TEST(ValidateBruteForce, MutantsOfRightSchedules) {
  const Tally tally = compare(2, [](Random& random) {
    Draft draft = right_schedule(random);
    for (int mutations = pick(random, 0, 3); mutations > 0; --mutations) mutate(random, draft);
    return draft;
  });
  EXPECT_GT(tally.right, 300);
  EXPECT_GT(tally.race_only, 50);
  EXPECT_GT(tally.undefined_read, 100);
  EXPECT_GT(tally.wrong, 300);
}

// A right schedule, from which dependencies are dropped one after the other as long as it stays
// right: what is left often stands or falls with the order of the queues.
TEST(ValidateBruteForce, SchedulesWithFewDependencies) {
  const Tally tally = compare(3, [](Random& random) {
    Draft draft = right_schedule(random);
    for (size_t t = 0; t < draft.steps.size(); ++t) {
      std::vector<uint32_t>& after = draft.steps[t].after;
      while (!after.empty() && chance(random, 60))
        after.erase(after.begin() + pick(random, 0, static_cast<int>(after.size()) - 1));
    }
    return draft;
  });
  EXPECT_GT(tally.right, 300);
  EXPECT_GT(tally.race_only, 300);
}

}  // namespace
}  // namespace slackline
