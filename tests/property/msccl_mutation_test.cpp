// Mutated MSCCL programs: what check_msccl() says against brute force over all states that the blocks can reach, with
// unlimited FIFOs and with every size of FIFO and of call. The brute force shares nothing with the library but the
// program's structs. SLACKLINE_MUTANTS sets how many (default 3000).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "schedule/msccl_check.hpp"
#include "support/msccl_text.hpp"

namespace slackline {
namespace {

// ------------------------------------------------------------------ brute force

struct Outcome {
  bool structure_ok = false;
  bool deadlock = false;  // with unlimited FIFOs
  MscclResult in_place = MscclResult::unknown, out_of_place = MscclResult::unknown;
  bool operator==(const Outcome&) const = default;
};

class BruteForce {
 public:
  explicit BruteForce(const MscclProgram& program) : program_(program) {
    for (const MscclGpu& gpu : program.gpus)
      for (const MscclBlock& block : gpu.blocks) blocks_.push_back({gpu.id, &block});
  }

  Outcome outcome() {
    Outcome result;
    if (!sound()) return result;
    result.structure_ok = inside_;
    std::set<std::vector<uint8_t>> states;
    result.deadlock = !completes(0, 0, &states);
    if (result.deadlock || !inside_) return result;
    for (const bool in_place : {true, false}) {
      in_place_ = in_place;
      MscclResult& verdict = in_place ? result.in_place : result.out_of_place;
      // A step that reads what it writes itself is wrong whatever else happens.
      verdict = reads_own_writes() ? MscclResult::wrong : races(states) ? MscclResult::race : right() ? MscclResult::right : MscclResult::wrong;
    }
    return result;
  }

  // Whether every order ends with FIFOs of `capacity` calls and `per_call` chunks a call; capacity 0: unlimited.
  // Collects the positions that the blocks can have together.
  bool completes(int capacity, int per_call, std::set<std::vector<uint8_t>>* positions = nullptr) {
    // A state is the step and the call of every block.
    std::set<std::vector<uint8_t>> seen;
    std::vector<std::vector<uint8_t>> todo{std::vector<uint8_t>(2 * blocks_.size(), 0)};
    seen.insert(todo[0]);
    bool ends = false, hangs = false;
    while (!todo.empty()) {
      const std::vector<uint8_t> state = todo.back();
      todo.pop_back();
      if (positions) positions->insert(state);
      bool moved = false, done = true;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        if (state[2 * b] == blocks_[b].block->steps.size()) continue;
        done = false;
        if (!enabled(state, b, capacity, per_call)) continue;
        moved = true;
        std::vector<uint8_t> next = state;
        if (++next[2 * b + 1] >= calls(step(state, b), per_call)) {
          ++next[2 * b];
          next[2 * b + 1] = 0;
        }
        if (seen.insert(next).second) todo.push_back(std::move(next));
      }
      ends |= done;
      hangs |= !done && !moved;
    }
    EXPECT_NE(ends, hangs) << "whether it hangs depends on the order";
    return ends && !hangs;
  }

  bool sound() {
    std::map<std::tuple<int, int, int>, int> senders, receivers;
    std::map<std::tuple<int, int, int>, std::vector<int>> sent, received;
    inside_ = true;
    const int p = program_.ranks;
    for (const auto& [rank, block] : blocks_) {
      bool out = false, in = false;
      for (const int peer : {block->send, block->receive})
        if (peer == rank || peer >= p) return false;
      for (size_t s = 0; s < block->steps.size(); ++s) {
        const MscclStep& st = block->steps[s];
        if (has_send(st.op)) {
          if (block->send < 0) return false;
          out = true;
          sent[{rank, block->send, block->channel}].push_back(st.count);
        }
        if (has_receive(st.op)) {
          if (block->receive < 0) return false;
          in = true;
          received[{block->receive, rank, block->channel}].push_back(st.count);
        }
        if (st.op != MscclOp::nop && st.count < 1) return false;
        if (st.dep_block >= 0) {
          const auto& own = program_.gpus[static_cast<size_t>(rank)].blocks;
          if (st.dep_block >= static_cast<int>(own.size()) || st.dep_step < 0 || st.dep_step >= static_cast<int>(own[static_cast<size_t>(st.dep_block)].steps.size())) return false;
        }
        for (const auto& [used, buffer, offset] : {std::tuple(reads_local(st.op), st.src_buffer, st.src_offset), std::tuple(writes_local(st.op), st.dst_buffer, st.dst_offset)})
          if (used && (offset < 0 || offset + st.count > length(rank, buffer))) inside_ = false;
      }
      if (out && ++senders[{rank, block->send, block->channel}] > 1) return false;
      if (in && ++receivers[{block->receive, rank, block->channel}] > 1) return false;
    }
    if (sent != received) inside_ = false;  // such a program runs, or hangs, but computes nothing
    matched_ = sent == received;
    return true;
  }

 private:
  struct Block {
    int rank;
    const MscclBlock* block;
  };
  struct Value {
    bool defined = false;
    std::vector<int> count;  // by rank and unit
  };

  // The table of operations, once more.
  static bool has_send(MscclOp op) { return op == MscclOp::s || op == MscclOp::rcs || op == MscclOp::rrs || op == MscclOp::rrcs; }
  static bool has_receive(MscclOp op) { return op == MscclOp::r || op == MscclOp::rcs || op == MscclOp::rrs || op == MscclOp::rrc || op == MscclOp::rrcs; }
  static bool reads_local(MscclOp op) {
    return op == MscclOp::s || op == MscclOp::rrs || op == MscclOp::rrc || op == MscclOp::rrcs || op == MscclOp::cpy || op == MscclOp::re;
  }
  static bool writes_local(MscclOp op) {
    return op == MscclOp::r || op == MscclOp::rcs || op == MscclOp::rrc || op == MscclOp::rrcs || op == MscclOp::cpy || op == MscclOp::re;
  }

  const MscclStep& step(const std::vector<uint8_t>& state, size_t b) const { return blocks_[b].block->steps[state[2 * b]]; }
  static int calls(const MscclStep& s, int per_call) {
    if (!has_send(s.op) && !has_receive(s.op)) return 1;
    return per_call == 0 ? 1 : (s.count + per_call - 1) / per_call;
  }

  // Calls that a block has put into, or taken out of, its connection so far.
  int moved(const std::vector<uint8_t>& state, size_t b, bool sending, int per_call) const {
    int total = 0;
    for (size_t s = 0; s < blocks_[b].block->steps.size() && s <= state[2 * b]; ++s) {
      const MscclStep& st = blocks_[b].block->steps[s];
      if (sending ? !has_send(st.op) : !has_receive(st.op)) continue;
      total += s < state[2 * b] ? calls(st, per_call) : state[2 * b + 1];
    }
    return total;
  }
  size_t other_end(size_t b, bool sending) const {
    for (size_t o = 0; o < blocks_.size(); ++o) {
      const Block &self = blocks_[b], &other = blocks_[o];
      const bool fits = sending ? other.rank == self.block->send && other.block->receive == self.rank : other.rank == self.block->receive && other.block->send == self.rank;
      if (!fits || other.block->channel != self.block->channel) continue;
      for (const MscclStep& s : other.block->steps)
        if (sending ? has_receive(s.op) : has_send(s.op)) return o;
    }
    return SIZE_MAX;
  }

  bool enabled(const std::vector<uint8_t>& state, size_t b, int capacity, int per_call) const {
    const MscclStep& s = step(state, b);
    if (s.dep_block >= 0 && state[2 * b + 1] == 0) {
      for (size_t o = 0; o < blocks_.size(); ++o) {
        if (blocks_[o].rank != blocks_[b].rank || blocks_[o].block->id != s.dep_block) continue;
        bool posted = false;
        for (size_t t = static_cast<size_t>(s.dep_step); t < state[2 * o]; ++t)
          posted |= blocks_[o].block->steps[t].posts && blocks_[o].block->steps[t].op != MscclOp::nop;
        if (!posted) return false;
      }
    }
    if (has_receive(s.op)) {
      const size_t o = other_end(b, false);
      if (o == SIZE_MAX || moved(state, o, true, per_call) <= moved(state, b, false, per_call)) return false;
    }
    if (has_send(s.op) && capacity > 0) {
      const size_t o = other_end(b, true);
      const int taken = o == SIZE_MAX ? 0 : moved(state, o, false, per_call);
      if (moved(state, b, true, per_call) - taken >= capacity) return false;
    }
    return true;
  }

  int length(int rank, MscclBuffer buffer) const {
    const int n = program_.chunks, part = n / program_.ranks;
    const std::string& c = program_.collective;
    if (buffer == MscclBuffer::scratch) return program_.gpus[static_cast<size_t>(rank)].scratch_chunks;
    if (buffer == MscclBuffer::input) return c == "allgather" ? part : n;
    return c == "reducescatter" ? part : n;
  }
  // The memory cell of a chunk: buffer 3 is the one buffer of in-place calls.
  std::pair<int, int> cell(int rank, MscclBuffer buffer, int offset) const {
    if (buffer == MscclBuffer::scratch) return {2, offset};
    if (!in_place_) return {buffer == MscclBuffer::input ? 0 : 1, offset};
    const int part = program_.chunks / program_.ranks;
    if (program_.collective == "allgather" && buffer == MscclBuffer::input) return {3, rank * part + offset};
    if (program_.collective == "reducescatter" && buffer == MscclBuffer::output) return {3, rank * part + offset};
    return {3, offset};
  }
  void accesses(size_t b, const MscclStep& s, std::set<std::pair<int, int>>& reads, std::set<std::pair<int, int>>& writes) const {
    if (s.op == MscclOp::cpy && same_memory(b, s)) return;  // moves nothing
    for (int c = 0; c < s.count; ++c) {
      if (reads_local(s.op)) reads.insert(cell(blocks_[b].rank, s.src_buffer, s.src_offset + c));
      if (writes_local(s.op)) writes.insert(cell(blocks_[b].rank, s.dst_buffer, s.dst_offset + c));
    }
  }
  bool same_memory(size_t b, const MscclStep& s) const {
    return cell(blocks_[b].rank, s.src_buffer, s.src_offset) == cell(blocks_[b].rank, s.dst_buffer, s.dst_offset);
  }

  // Two steps that can run next at the same time and touch the same cell.
  bool races(const std::set<std::vector<uint8_t>>& states) const {
    for (const std::vector<uint8_t>& state : states) {
      for (size_t a = 0; a < blocks_.size(); ++a) {
        if (state[2 * a] == blocks_[a].block->steps.size() || !enabled(state, a, 0, 0)) continue;
        std::set<std::pair<int, int>> reads, writes;
        accesses(a, step(state, a), reads, writes);
        for (size_t b = a + 1; b < blocks_.size(); ++b) {
          if (blocks_[b].rank != blocks_[a].rank || state[2 * b] == blocks_[b].block->steps.size() || !enabled(state, b, 0, 0)) continue;
          std::set<std::pair<int, int>> more_reads, more_writes;
          accesses(b, step(state, b), more_reads, more_writes);
          for (const auto& w : writes)
            if (more_reads.contains(w) || more_writes.contains(w)) return true;
          for (const auto& w : more_writes)
            if (reads.contains(w)) return true;
        }
      }
    }
    return false;
  }

  // Runs in one order and looks at what is there.
  bool right() const {
    const int p = program_.ranks, n = program_.chunks, part = n / p;
    const std::string& coll = program_.collective;
    const auto one = [&](int rank, int unit) {
      Value value{true, std::vector<int>(static_cast<size_t>(p * n), 0)};
      value.count[static_cast<size_t>(rank * n + unit)] = 1;
      return value;
    };
    std::map<std::tuple<int, int, int>, Value> memory;  // rank, buffer, offset
    const int source = in_place_ ? 3 : 0, target = in_place_ ? 3 : 1;
    for (int r = 0; r < p; ++r) {
      for (int u = 0; u < n; ++u) {
        if (coll != "allgather") memory[{r, source, u}] = one(r, u);
        else if (u / part == r) memory[{r, source, in_place_ ? u : u - r * part}] = one(r, u);
      }
    }
    std::map<std::tuple<int, int, int>, std::vector<std::vector<Value>>> fifo;
    std::vector<uint8_t> state(2 * blocks_.size(), 0);
    bool defined = true;
    const auto load = [&](int rank, MscclBuffer buffer, int offset) {
      const auto [kind, at] = cell(rank, buffer, offset);
      const Value value = memory[{rank, kind, at}];
      defined &= value.defined;
      return value;
    };
    const auto plus = [](Value a, const Value& b) {
      for (size_t i = 0; i < a.count.size() && i < b.count.size(); ++i) a.count[i] += b.count[i];
      return a;
    };
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        while (state[2 * b] < blocks_[b].block->steps.size() && enabled(state, b, 0, 0)) {
          const MscclStep& s = step(state, b);
          const int rank = blocks_[b].rank;
          std::vector<Value> values(static_cast<size_t>(s.count));
          if (has_receive(s.op)) values = fifo[{blocks_[b].block->receive, rank, blocks_[b].block->channel}][static_cast<size_t>(moved(state, b, false, 0))];
          const bool skip = s.op == MscclOp::cpy && same_memory(b, s);
          for (int c = 0; c < s.count && !skip; ++c) {
            Value& value = values[static_cast<size_t>(c)];
            if (reads_local(s.op)) {
              const Value own = load(rank, s.src_buffer, s.src_offset + c);
              value = has_receive(s.op) ? plus(value, own) : own;
            }
            if (s.op == MscclOp::re) value = plus(load(rank, s.dst_buffer, s.dst_offset + c), value);
          }
          for (int c = 0; c < s.count && !skip && writes_local(s.op); ++c) {
            const auto [kind, at] = cell(rank, s.dst_buffer, s.dst_offset + c);
            memory[{rank, kind, at}] = values[static_cast<size_t>(c)];
          }
          if (has_send(s.op)) fifo[{rank, blocks_[b].block->send, blocks_[b].block->channel}].push_back(values);
          ++state[2 * b];
          progress = true;
        }
      }
    }
    if (!defined) return false;
    for (int r = 0; r < p; ++r) {
      for (int u = 0; u < n; ++u) {
        Value wanted;
        int at = u;
        if (coll == "allreduce") {
          wanted = one(0, u);
          for (int q = 1; q < p; ++q) wanted = plus(wanted, one(q, u));
        } else if (coll == "allgather") {
          wanted = one(u / part, u);
        } else if (coll == "reducescatter") {
          if (u / part != r) continue;
          if (!in_place_) at = u - r * part;
          wanted = one(0, u);
          for (int q = 1; q < p; ++q) wanted = plus(wanted, one(q, u));
        } else {
          wanted = one(u / part, r * part + u % part);
        }
        const Value held = memory[{r, target, at}];
        if (!held.defined || held.count != wanted.count) return false;
      }
    }
    return true;
  }
  bool reads_own_writes() const {
    for (size_t b = 0; b < blocks_.size(); ++b)
      for (const MscclStep& s : blocks_[b].block->steps)
        if ((s.op == MscclOp::cpy || s.op == MscclOp::re) && overlaps(b, s) && !(s.op == MscclOp::cpy && same_memory(b, s))) return true;
    return false;
  }
  bool overlaps(size_t b, const MscclStep& s) const {
    const auto [src_buffer, src] = cell(blocks_[b].rank, s.src_buffer, s.src_offset);
    const auto [dst_buffer, dst] = cell(blocks_[b].rank, s.dst_buffer, s.dst_offset);
    return src_buffer == dst_buffer && src < dst + s.count && dst < src + s.count;
  }

  const MscclProgram& program_;
  std::vector<Block> blocks_;
  bool in_place_ = true, inside_ = true, matched_ = true;
};

// ------------------------------------------------------------------ programs to mutate

// One block a rank around a ring, as msccl-tools lowers it.
MscclProgram ring_allreduce(int p) {
  MscclText text("allreduce", p, p);
  for (int r = 0; r < p; ++r) {
    text.gpu(r, p, p, 0).tb((r + 1) % p, (r + p - 1) % p);
    const auto at = [&](int hop) { return ((r - hop) % p + p) % p; };
    text.step("s", 'i', at(0), 'i', at(0));
    for (int hop = 1; hop < p - 1; ++hop) text.step("rrs", 'i', at(hop), 'i', at(hop));
    text.step("rrcs", 'i', at(p - 1), 'i', at(p - 1));
    for (int hop = 0; hop < p - 2; ++hop) text.step("rcs", 'i', at(hop), 'i', at(hop));
    text.step("r", 'i', at(p - 2), 'i', at(p - 2));
  }
  return text.program();
}

// Everyone sends its part to everyone; two blocks a peer. Works in place and out of place.
MscclProgram direct_allgather(int p, int per_rank) {
  MscclText text("allgather", p, p * per_rank);
  for (int r = 0; r < p; ++r) {
    text.gpu(r, per_rank, p * per_rank, 0);
    for (int q = 0; q < p; ++q) {
      if (q == r) continue;
      text.tb(q, q).step("s", 'i', 0, 'o', r * per_rank, per_rank).step("r", 'o', q * per_rank, 'o', q * per_rank, per_rank);
    }
    text.tb(-1, -1).step("cpy", 'i', 0, 'o', r * per_rank, per_rank);
  }
  return text.program();
}

// Two ranks exchange all their data into scratch and add it up, with nops and flags between blocks.
MscclProgram pair_allreduce() {
  MscclText text("allreduce", 2, 2);
  for (int r = 0; r < 2; ++r) {
    text.gpu(r, 2, 2, 2).tb(1 - r, 1 - r).step("s", 'i', 0, 's', 0, 2, -1, -1, true).step("r", 's', 0, 's', 0, 2, -1, -1, true);
    text.tb(-1, -1).step("nop", 'i', 0, 'i', 0, 1, 0, 0).step("re", 's', 0, 'i', 0, 1, 0, 1, true).step("cpy", 'i', 0, 'o', 0);
    text.tb(-1, -1).step("nop", 'i', 0, 'i', 0, 1, 0, 0).step("re", 's', 1, 'i', 1, 1, 0, 1, false).step("cpy", 'i', 1, 'o', 1);
  }
  return text.program();
}

// Two ranks swap halves and add them up, in one step of two chunks.
MscclProgram halving_reduce_scatter() {
  MscclText text("reducescatter", 2, 4);
  for (int r = 0; r < 2; ++r) {
    const int other = (1 - r) * 2, own = r * 2;
    text.gpu(r, 4, 2, 2).tb(1 - r, -1).step("s", 'i', other, 'i', other, 2);
    text.tb(-1, 1 - r).step("rrc", 'i', own, 'i', own, 2, -1, -1, true);
    text.tb(-1, -1).step("cpy", 'i', own, 'o', 0, 2, 1, 0);
  }
  return text.program();
}

MscclProgram small_alltoall(int p) {
  MscclText text("alltoall", p, p);
  for (int r = 0; r < p; ++r) {
    text.gpu(r, p, p, 0);
    for (int q = 0; q < p; ++q)
      if (q != r) text.tb(q, q).step("s", 'i', q, 'o', r).step("r", 'o', q, 'o', q);
    text.tb(-1, -1).step("cpy", 'i', r, 'o', r);
  }
  return text.program();
}

// Both ends send three messages of two chunks before they receive: hangs with small FIFOs.
MscclProgram eager_exchange() {
  MscclText text("allgather", 2, 12);
  for (int r = 0; r < 2; ++r) {
    text.gpu(r, 6, 12, 0).tb(1 - r, 1 - r);
    for (int k = 0; k < 3; ++k) text.step("s", 'o', r * 6 + 2 * k, 'o', r * 6 + 2 * k, 2);
    for (int k = 0; k < 3; ++k) text.step("r", 'o', (1 - r) * 6 + 2 * k, 'o', (1 - r) * 6 + 2 * k, 2);
  }
  return text.program();
}

std::vector<MscclProgram> originals() {
  std::vector<MscclProgram> list = {ring_allreduce(2), ring_allreduce(3), direct_allgather(2, 2), direct_allgather(3, 1), pair_allreduce(),
                                    halving_reduce_scatter(), small_alltoall(2), small_alltoall(3), eager_exchange()};
  const std::string corpus = std::string(SLACKLINE_SHARED_DIR) + "/corpus/schedules/";
  for (const char* file : {"dailiuyao+msccl_tools_lyd/examples/xml/xml_lyd/binary_h_gpu01_reverse_p/allreduce_binary_tree_p_gpu01_2nodes_2gpus_channel1_reverse_chunk1.fa0c4e4b.xml",
                           "dailiuyao+msccl_tools_lyd/examples/xml/xml_lyd/binary_h_gpu01_reverse_p/allreduce_binary_tree_p_gpu01_2nodes_2gpus_channel1_reverse_chunk4.5c2cc77b.xml",
                           "dailiuyao+msccl_tools_lyd/examples/xml/xml_lyd/binary_tree/allreduce_binary-tree_node4_gpu4_mcl1_mck1_gan0.b7f61168.xml"}) {
    if (!std::filesystem::exists(corpus + file)) continue;
    std::vector<Finding> findings;
    list.push_back(read_msccl_xml(read_file(corpus + file), "", MscclDialect::any, findings));
  }
  return list;
}

// ------------------------------------------------------------------ mutation

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  MscclProgram mutate(const MscclProgram& original, std::string& what) {
    MscclProgram program = original;
    MscclGpu& gpu = pick(program.gpus);
    MscclBlock& block = pick(gpu.blocks);
    if (block.steps.empty()) return program;
    const size_t s = below(block.steps.size());
    MscclStep& step = block.steps[s];
    const size_t kind = below(11);
    what = "gpu " + std::to_string(gpu.id) + " tb " + std::to_string(block.id) + " step " + std::to_string(s) + " mutation " + std::to_string(kind);
    switch (kind) {
      case 0: block.steps.erase(block.steps.begin() + static_cast<ptrdiff_t>(s)); break;
      case 1: block.steps.insert(block.steps.begin() + static_cast<ptrdiff_t>(s), MscclStep(step)); break;
      case 2: (below(2) ? block.send : block.receive) = static_cast<int32_t>(below(static_cast<size_t>(program.ranks) + 1)) - 1; break;
      case 3: std::swap(step, pick(block.steps)); break;
      case 4: step.op = static_cast<MscclOp>(below(9)); break;
      case 5: step.src_offset += below(2) ? 1 : -1; break;
      case 6: step.dst_offset += below(2) ? 1 : -1; break;
      case 7: step.dep_block = step.dep_step = -1; break;
      case 8: step.posts = !step.posts; break;
      case 9: {
        step.dep_block = static_cast<int32_t>(below(gpu.blocks.size()));
        step.dep_step = static_cast<int32_t>(below(3));
        break;
      }
      case 10: (below(2) ? step.src_buffer : step.dst_buffer) = static_cast<MscclBuffer>(below(3)); break;
    }
    for (size_t i = 0; i < block.steps.size(); ++i) block.steps[i].declared = static_cast<int32_t>(i);
    return program;
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  template <class T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }
  std::mt19937_64 random_;
};

std::string show(const MscclProgram& program) {
  std::ostringstream out;
  write_msccl_xml(program, out);
  return out.str();
}

// What brute force finds for FIFOs of the protocol's size: completes, needs_capacity or completes_small.
void expect_same_fifos(const MscclProgram& program, BruteForce& brute, const MscclReport& report) {
  int largest = 1;
  for (const MscclGpu& gpu : program.gpus)
    for (const MscclBlock& block : gpu.blocks)
      for (const MscclStep& s : block.steps)
        if (sends(s.op) || receives(s.op)) largest = std::max(largest, s.count);
  for (const bool wide : {false, true}) {
    const MscclFifoVerdict& verdict = wide ? report.all_nodes : report.one_node;
    const int capacity = msccl_fifo_calls(program.protocol, wide);
    MscclProgress expected = MscclProgress::completes;
    int64_t calls = 0, chunks = 1;
    if (!brute.completes(capacity, largest)) {
      expected = MscclProgress::needs_capacity;
      for (calls = 1; !brute.completes(static_cast<int>(calls) * (wide ? 2 : 1), largest);) ++calls;
    } else {
      for (int per_call = largest - 1; per_call >= 1; --per_call) {
        if (brute.completes(capacity, per_call)) continue;
        expected = MscclProgress::completes_small;
        chunks = per_call + 1;
        break;
      }
    }
    EXPECT_EQ(to_string(verdict.progress), to_string(expected)) << show(program);
    if (verdict.progress != expected) return;
    if (expected == MscclProgress::needs_capacity) {
      EXPECT_EQ(verdict.needed_calls, calls) << show(program);
    }
    if (expected == MscclProgress::completes_small) {
      EXPECT_EQ(verdict.least_chunks_per_call, chunks) << show(program);
      // The largest size whose calls move enough chunks, by trying sizes around it.
      const Bytes size = *verdict.largest_safe_size;
      EXPECT_GE(msccl_chunks_per_call(program.protocol, {}, size, program.chunks), chunks);
      EXPECT_LT(msccl_chunks_per_call(program.protocol, {}, size + Bytes(1), program.chunks), chunks);
    }
  }
}

void compare(const MscclProgram& program, const std::string& what) {
  MscclCheckOptions options;
  const MscclReport report = check_msccl(program, options);
  BruteForce brute(program);
  const Outcome expected = brute.outcome();
  if (!brute.sound()) {
    EXPECT_FALSE(report.structure_ok) << what << "\n" << show(program);
    return;
  }
  ASSERT_EQ(report.structure_ok, expected.structure_ok) << what << "\n" << show(program);
  ASSERT_EQ(report.one_node.progress == MscclProgress::never, expected.deadlock) << what << "\n" << show(program);
  if (expected.deadlock) return;
  EXPECT_EQ(to_string(report.in_place), to_string(expected.in_place)) << what << "\n" << show(program);
  EXPECT_EQ(to_string(report.out_of_place), to_string(expected.out_of_place)) << what << "\n" << show(program);
  if (expected.structure_ok) expect_same_fifos(program, brute, report);
}

TEST(MscclMutation, OriginalsAreRight) {
  for (const MscclProgram& program : originals()) {
    compare(program, "original");
    const MscclReport report = check_msccl(program, {});
    EXPECT_TRUE(report.in_place == MscclResult::right || report.out_of_place == MscclResult::right) << show(program);
  }
}

TEST(MscclMutation, AgreesWithBruteForce) {
  const char* setting = std::getenv("SLACKLINE_MUTANTS");
  const size_t mutants = setting ? std::strtoull(setting, nullptr, 10) : 3000;
  const std::vector<MscclProgram> programs = originals();
  Mutator mutator(20261201);
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < mutants && !HasFailure(); ++i) {
    std::string what, more;
    MscclProgram mutant = mutator.mutate(programs[i % programs.size()], what);
    if (i % 3 == 0) mutant = mutator.mutate(mutant, more);
    compare(mutant, what + ", " + more);
    const MscclReport report = check_msccl(mutant, {});
    ++seen[!report.structure_ok ? "broken" : report.one_node.progress == MscclProgress::never ? "deadlock" : std::string(to_string(report.in_place))];
  }
  // A test in which one verdict never comes up would prove little.
  if (mutants < 1000) return;
  for (const char* verdict : {"broken", "deadlock", "right", "race", "wrong"}) EXPECT_GT(seen[verdict], mutants / 200) << verdict;
}

}  // namespace
}  // namespace slackline
