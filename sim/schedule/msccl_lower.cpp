#include "schedule/msccl_lower.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.hpp"
#include "schedule/order.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = MscclMachine::none;

Chunk place_chunk(const MscclProgram& program, std::optional<CollectiveType> type, bool in_place, uint32_t rank, MscclBuffer buffer,
                  int32_t offset, int32_t count) {
  return place_msccl_chunk(type, in_place, program.chunks / std::max(program.ranks, 1), rank, buffer, offset, count);
}

// Numbers the chunks of a schedule, each once.
class ChunkTable {
 public:
  uint32_t find(const Chunk& chunk, Schedule& schedule) {
    // Buffers are 4, lengths below 2^21, and offsets below 2^41.
    const uint64_t key = static_cast<uint64_t>(chunk.offset) << 23 | static_cast<uint64_t>(chunk.length) << 2 | static_cast<uint64_t>(chunk.buffer);
    const auto [entry, fresh] = known_.try_emplace(key, 0);
    if (fresh) entry->second = schedule.add_chunk(chunk);
    return entry->second;
  }

 private:
  std::unordered_map<uint64_t, uint32_t> known_;  // only looked up
};

class Lowering {
 public:
  Lowering(const MscclMachine& machine, const MscclLowerOptions& options);
  LoweredMscclProgram take() { return std::move(result_); }

 private:
  struct Message {
    uint32_t transfer;
    int64_t slot;  // in the receiver's scratch
  };

  void number_channels();
  void add_copies();
  void add_step(uint32_t block, uint32_t step);
  Chunk place(uint32_t rank, MscclBuffer buffer, int32_t offset, int32_t count) const {
    return place_chunk(program_, type_, options_.in_place, rank, buffer, offset, count);
  }
  // Adds a transfer that waits for `after_`.
  uint32_t transfer(uint32_t src, uint32_t dst, const Chunk& from, const Chunk& to, TransferOp op, uint16_t channel);
  uint32_t local(uint32_t rank, const Chunk& from, const Chunk& to, TransferOp op) {
    if (to.buffer == Buffer::scratch && to.offset < first_slot_)
      for (int64_t i = 0; i < to.length; ++i)
        scratch_column_[rank][static_cast<size_t>(to.offset + i)] = static_cast<int32_t>((column(rank, from) + i) % columns_);
    return transfer(rank, rank, from, to, op, local_channel_);
  }
  // The column of the data that a chunk holds: the place in the message where it came from.
  int64_t column(uint32_t rank, const Chunk& chunk) const {
    if (chunk.buffer == Buffer::scratch)
      return chunk.offset < first_slot_ ? scratch_column_[rank][static_cast<size_t>(chunk.offset)] : (chunk.offset - first_slot_) % columns_;
    const MscclBuffer buffer = chunk.buffer == Buffer::output ? MscclBuffer::output : MscclBuffer::input;
    if (chunk.buffer == Buffer::data) return chunk.offset;
    return place_chunk(program_, type_, true, rank, buffer, static_cast<int32_t>(chunk.offset), 1).offset;
  }
  void send(const Chunk& from, int32_t count);

  const MscclMachine& machine_;
  const MscclProgram& program_;
  MscclLowerOptions options_;
  std::optional<CollectiveType> type_;
  LoweredMscclProgram result_;
  ChunkTable chunks_;
  std::vector<uint16_t> connection_channel_, local_channel_of_;
  // Messages of the same data lie in the same column of a table in the receiver's scratch, one row after the other, so
  // that the data of different columns stay apart and can be proven apart.
  int64_t first_slot_ = 0, columns_ = 1;
  std::vector<std::vector<int32_t>> rows_;            // by rank and column: how many are in use
  std::vector<std::vector<int32_t>> scratch_column_;  // by rank and chunk of the program's own scratch: whose data is there
  std::vector<std::vector<Message>> messages_;  // by connection
  std::vector<size_t> taken_;                   // by connection
  // By block: what has to have ended for it to go on, the last transfer of its last step and what the nops since
  // wait for.
  std::vector<std::vector<uint32_t>> progress_;
  std::vector<uint32_t> sent_last_;             // by block: the transfer of its last step, if that was a send
  std::vector<uint32_t> last_of_step_;          // the transfer that ends a step that posts
  std::map<uint32_t, std::vector<uint32_t>> ends_of_step_;  // where that takes more than one

  // Of the step at hand.
  uint32_t block_ = none, step_ = none, rank_ = 0;
  uint16_t local_channel_ = 0;
  std::vector<uint32_t> after_;
};

Lowering::Lowering(const MscclMachine& machine, const MscclLowerOptions& options)
    : machine_(machine),
      program_(machine.program()),
      options_(options),
      type_(msccl_collective(program_.collective)),
      messages_(machine.connections().size()),
      taken_(machine.connections().size(), 0),
      progress_(machine.blocks().size()),
      sent_last_(machine.blocks().size(), none),
      last_of_step_(machine.steps(), none) {
  Collective collective;
  collective.type = type_.value_or(CollectiveType::allreduce);
  collective.ranks = program_.ranks;
  collective.root = has_root(collective.type) ? options.root : -1;
  collective.in_place = options.in_place;
  result_.schedule = Schedule(collective, program_.chunks);
  result_.schedule.set_algorithm(program_.name);
  columns_ = std::max(program_.chunks, machine.largest_count());
  for (const MscclGpu& gpu : program_.gpus) {
    first_slot_ = std::max<int64_t>(first_slot_, gpu.scratch_chunks);
    rows_.emplace_back(static_cast<size_t>(columns_), 0);
    scratch_column_.emplace_back(static_cast<size_t>(gpu.scratch_chunks), 0);
  }
  number_channels();
  if (options.copies) add_copies();
  machine.run(INT32_MAX / 2, {}, [this](uint32_t block, uint32_t step) { add_step(block, step); });
}

// In a schedule a rank's sends on one channel are ordered, as are its receives; in MSCCL only those of one
// connection are, and those of a block. So connections that meet at a rank get different channels. The local steps
// of a block that sends share the channel of its sends, so that a step begins when the send before it is through
// with its source, not when it has arrived; those of other blocks have a channel for each block.
void Lowering::number_channels() {
  std::vector<std::vector<bool>> used(program_.gpus.size());
  size_t highest = 0;
  for (const MscclMachine::Connection& connection : machine_.connections()) {
    std::vector<bool>& a = used[connection.src];
    std::vector<bool>& b = used[connection.dst];
    size_t channel = 0;
    while ((channel < a.size() && a[channel]) || (channel < b.size() && b[channel])) ++channel;
    for (std::vector<bool>* of_rank : {&a, &b}) {
      if (of_rank->size() <= channel) of_rank->resize(channel + 1);
      (*of_rank)[channel] = true;
    }
    highest = std::max(highest, channel + 1);
    connection_channel_.push_back(static_cast<uint16_t>(channel));
  }
  for (const MscclMachine::Block& block : machine_.blocks()) {
    if (highest + block.index > UINT16_MAX)
      throw Error(ErrorKind::input, "needs more than 65536 channels in a schedule", program_.file);
    local_channel_of_.push_back(block.send != none ? connection_channel_[block.send] : static_cast<uint16_t>(highest + block.index));
  }
}

void Lowering::add_copies() {
  for (uint32_t b = 0; b < machine_.blocks().size(); ++b) {
    const MscclMachine::Block& block = machine_.blocks()[b];
    if (block.index == 0) {
      rank_ = block.gpu;
      local_channel_ = local_channel_of_[b];
      for (const MscclCopy& copy : program_.gpus[block.gpu].copies) {
        const Chunk from = place(rank_, MscclBuffer::input, copy.input_offset, 1);
        const Chunk to = place(rank_, MscclBuffer::output, copy.output_offset, 1);
        if (from == to) continue;
        after_.clear();
        progress_[b].push_back(local(rank_, from, to, TransferOp::copy));
      }
    } else if (b > 0) {
      progress_[b] = progress_[b - 1];
    }
  }
}

uint32_t Lowering::transfer(uint32_t src, uint32_t dst, const Chunk& from, const Chunk& to, TransferOp op, uint16_t channel) {
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
  const auto index = static_cast<uint32_t>(result_.schedule.size());
  result_.schedule.add({src, dst, chunks_.find(from, result_.schedule), chunks_.find(to, result_.schedule), op, channel, after_});
  result_.block.push_back(block_);
  result_.step.push_back(step_);
  after_.assign(1, index);
  return index;
}

void Lowering::send(const Chunk& from, int32_t count) {
  const uint32_t connection = machine_.blocks()[block_].send;
  const uint32_t peer = machine_.connections()[connection].dst;
  const auto first = rows_[peer].begin() + std::min(column(rank_, from), columns_ - count);
  const int32_t row = *std::max_element(first, first + count);
  std::fill_n(first, count, row + 1);
  const int64_t slot = first_slot_ + row * columns_ + (first - rows_[peer].begin());
  messages_[connection].push_back(
      {transfer(rank_, peer, from, {Buffer::scratch, slot, count}, TransferOp::copy, connection_channel_[connection]), slot});
}

void Lowering::add_step(uint32_t block, uint32_t step) {
  const MscclMachine::Block& tb = machine_.blocks()[block];
  const MscclStep& s = tb.program->steps[step];
  std::vector<uint32_t>& progress = progress_[block];
  if (const MscclMachine::Wait& wait = machine_.wait(tb.first_step + step); wait.block != none) {
    const uint32_t posting = machine_.blocks()[wait.block].first_step + wait.step;
    if (last_of_step_[posting] != none) progress.push_back(last_of_step_[posting]);
    if (const auto several = ends_of_step_.find(posting); several != ends_of_step_.end())
      progress.insert(progress.end(), several->second.begin(), several->second.end());
  }
  if (s.op == MscclOp::nop) return;
  block_ = block;
  step_ = step;
  rank_ = tb.gpu;
  local_channel_ = local_channel_of_[block];
  after_ = progress;
  // A send need not have arrived when the next step begins; their channel keeps their order.
  std::erase(after_, sent_last_[block]);

  const int32_t n = s.count;
  Chunk slot;
  if (receives(s.op)) {
    const Message& message = messages_[tb.receive][taken_[tb.receive]++];
    after_.push_back(message.transfer);
    slot = {Buffer::scratch, message.slot, n};
  }
  Chunk src, dst;
  if (reads_source(s.op)) src = place(rank_, s.src_buffer, s.src_offset, n);
  if (writes_destination(s.op)) dst = place(rank_, s.dst_buffer, s.dst_offset, n);
  if (options_.destination_is_operand && receives(s.op) && reads_source(s.op))
    src = place(rank_, s.dst_buffer, s.dst_offset, n);
  switch (s.op) {
    case MscclOp::s: send(src, n); break;
    case MscclOp::r: local(rank_, slot, dst, TransferOp::copy); break;
    case MscclOp::rcs:
      local(rank_, slot, dst, TransferOp::copy);
      send(slot, n);
      break;
    case MscclOp::rrs:
      local(rank_, src, slot, TransferOp::reduce);
      send(slot, n);
      break;
    case MscclOp::rrc:
    case MscclOp::rrcs:
      if (src == dst) {
        local(rank_, slot, dst, TransferOp::reduce);
        slot = dst;
      } else {
        local(rank_, src, slot, TransferOp::reduce);
        local(rank_, slot, dst, TransferOp::copy);
      }
      if (s.op == MscclOp::rrcs) send(slot, n);
      break;
    case MscclOp::cpy:
      if (src != dst) local(rank_, src, dst, TransferOp::copy);
      break;
    case MscclOp::re: local(rank_, src, dst, TransferOp::reduce); break;
    case MscclOp::nop: break;
  }
  progress = after_;
  sent_last_[block] = sends(s.op) ? after_.back() : none;
  if (s.posts && after_.size() == 1) last_of_step_[tb.first_step + step] = after_.front();
  if (s.posts && after_.size() > 1) ends_of_step_[tb.first_step + step] = after_;
}

}  // namespace

Chunk place_msccl_chunk(std::optional<CollectiveType> type, bool in_place, int64_t part, uint32_t rank, MscclBuffer buffer,
                        int64_t offset, int64_t count) {
  if (buffer == MscclBuffer::scratch) return {Buffer::scratch, offset, count};
  if (!in_place) return {buffer == MscclBuffer::input ? Buffer::input : Buffer::output, offset, count};
  const bool gathers = type == CollectiveType::allgather || type == CollectiveType::gather;
  const bool scatters = type == CollectiveType::reduce_scatter || type == CollectiveType::scatter;
  const bool shifted = (gathers && buffer == MscclBuffer::input) || (scatters && buffer == MscclBuffer::output);
  return {Buffer::data, (shifted ? rank * part : 0) + offset, count};
}

std::optional<CollectiveType> msccl_collective(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, CollectiveType>, 9> names = {{
      {"allreduce", CollectiveType::allreduce},
      {"allgather", CollectiveType::allgather},
      {"reduce_scatter", CollectiveType::reduce_scatter},
      {"reducescatter", CollectiveType::reduce_scatter},
      {"alltoall", CollectiveType::alltoall},
      {"broadcast", CollectiveType::broadcast},
      {"reduce", CollectiveType::reduce},
      {"gather", CollectiveType::gather},
      {"scatter", CollectiveType::scatter},
  }};
  for (const auto& [known, type] : names)
    if (known == name) return type;
  return std::nullopt;
}

MscclExtent msccl_extent(const MscclProgram& program, const MscclGpu& gpu) {
  const int64_t all = program.chunks, part = program.chunks / std::max(program.ranks, 1);
  switch (msccl_collective(program.collective).value_or(CollectiveType::allreduce)) {
    case CollectiveType::allgather:
    case CollectiveType::gather: return {part, all};
    case CollectiveType::reduce_scatter:
    case CollectiveType::scatter: return {all, part};
    default: break;
  }
  if (!msccl_collective(program.collective)) return {gpu.input_chunks, gpu.output_chunks};
  return {all, all};
}

namespace {

// Steps as nodes of a graph; a send and its receive share one.
class DirectLowering {
 public:
  DirectLowering(const MscclMachine& machine, const MscclLowerOptions& options)
      : machine_(machine), options_(options), node_(machine.steps(), none) {}
  std::optional<Schedule> lower();

 private:
  struct Step {
    uint32_t block, index;
  };
  struct Node {
    std::vector<Step> steps;  // the send first
    std::vector<uint32_t> next;
    uint32_t open = 0;  // nodes that come before it
  };
  const MscclStep& step(const Step& s) const { return machine_.blocks()[s.block].program->steps[s.index]; }
  bool pair_up();
  bool sort();
  bool channels_are_ordered() const;
  Schedule build() const;

  const MscclMachine& machine_;
  const MscclLowerOptions& options_;
  std::vector<uint32_t> node_;  // by step
  std::vector<Node> nodes_;
  std::vector<uint32_t> order_;
};

bool DirectLowering::pair_up() {
  std::vector<std::vector<uint32_t>> sent(machine_.connections().size());
  std::vector<std::vector<Step>> received(machine_.connections().size());
  for (uint32_t b = 0; b < machine_.blocks().size(); ++b) {
    const MscclMachine::Block& block = machine_.blocks()[b];
    for (uint32_t i = 0; i < block.program->steps.size(); ++i) {
      const MscclStep& s = block.program->steps[i];
      if (sends(s.op) && receives(s.op)) return false;
      if (s.op == MscclOp::rrc && (s.src_buffer != s.dst_buffer || s.src_offset != s.dst_offset)) return false;
      if (receives(s.op)) {
        received[block.receive].push_back({b, i});
        continue;
      }
      node_[block.first_step + i] = static_cast<uint32_t>(nodes_.size());
      if (sends(s.op)) sent[block.send].push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({{{b, i}}, {}, 0});
    }
  }
  for (size_t c = 0; c < sent.size(); ++c) {
    for (size_t k = 0; k < sent[c].size(); ++k) {
      const Step& receive = received[c][k];
      nodes_[sent[c][k]].steps.push_back(receive);
      node_[machine_.blocks()[receive.block].first_step + receive.index] = sent[c][k];
    }
  }
  return true;
}

bool DirectLowering::sort() {
  const auto edge = [&](uint32_t from, uint32_t to) {
    nodes_[from].next.push_back(to);
    ++nodes_[to].open;
  };
  for (const MscclMachine::Block& block : machine_.blocks()) {
    for (uint32_t i = 0; i < block.program->steps.size(); ++i) {
      const uint32_t to = node_[block.first_step + i];
      if (i > 0) edge(node_[block.first_step + i - 1], to);
      if (const MscclMachine::Wait& wait = machine_.wait(block.first_step + i); wait.block != none)
        edge(node_[machine_.blocks()[wait.block].first_step + wait.step], to);
    }
  }
  std::vector<uint32_t> ready;
  for (uint32_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].open == 0) ready.push_back(n);
  for (size_t i = 0; i < ready.size(); ++i)
    for (const uint32_t next : nodes_[ready[i]].next)
      if (--nodes_[next].open == 0) ready.push_back(next);
  order_ = std::move(ready);
  return order_.size() == nodes_.size();
}

// Whether the program itself orders what a schedule's channels would order, found out on the program with FIFOs.
bool DirectLowering::channels_are_ordered() const {
  const LoweredMscclProgram lowered = lower_msccl(machine_, options_);
  std::vector<uint32_t> transfer(machine_.steps(), none);
  for (uint32_t t = 0; t < lowered.schedule.size(); ++t)
    if (lowered.block[t] != none) transfer[machine_.blocks()[lowered.block[t]].first_step + lowered.step[t]] = t;
  std::map<std::tuple<uint32_t, int32_t, bool>, Step> before;
  std::vector<OrderQuery> queries;
  for (const uint32_t n : order_) {
    for (const Step& s : nodes_[n].steps) {
      const MscclMachine::Block& block = machine_.blocks()[s.block];
      const bool sending = sends(step(s).op);
      if (!sending && !receives(step(s).op)) continue;
      const auto [entry, fresh] = before.try_emplace({block.gpu, block.program->channel, sending}, s);
      if (fresh) continue;
      const Step last = entry->second;
      entry->second = s;
      if (last.block == s.block) continue;
      const uint32_t a = transfer[machine_.blocks()[last.block].first_step + last.index], b = transfer[block.first_step + s.index];
      if (a > b) return false;
      queries.push_back({a, b, sending ? Conflict::write_read : Conflict::write_write});
    }
  }
  return unordered_pairs(lowered.schedule, std::move(queries), 1).empty();
}

Schedule DirectLowering::build() const {
  const MscclProgram& program = machine_.program();
  const auto type = *msccl_collective(program.collective);
  Schedule schedule({type, program.ranks, has_root(type) ? options_.root : -1, options_.in_place, Reduction::sum}, program.chunks);
  schedule.set_algorithm(program.name);
  ChunkTable chunks;
  const auto chunk_of = [&](const Chunk& chunk) { return chunks.find(chunk, schedule); };
  int32_t highest = 0;
  for (const MscclMachine::Connection& c : machine_.connections()) highest = std::max(highest, c.channel);
  std::vector<std::vector<uint32_t>> ended(machine_.blocks().size());  // what a block's next step waits for
  std::vector<std::vector<uint32_t>> of_node(nodes_.size());
  for (const uint32_t n : order_) {
    const Node& node = nodes_[n];
    const bool message = node.steps.size() == 2;
    const Step& first = node.steps.front();
    const Step& last = node.steps.back();
    const MscclStep& s = step(first);
    const uint32_t src = machine_.blocks()[first.block].gpu, dst = machine_.blocks()[last.block].gpu;
    const auto channel = static_cast<uint16_t>(message ? machine_.blocks()[first.block].program->channel
                                                       : highest + 1 + static_cast<int32_t>(machine_.blocks()[first.block].index));
    for (const Step& part : node.steps) {
      const MscclMachine::Wait& wait = machine_.wait(machine_.blocks()[part.block].first_step + part.index);
      if (wait.block == none) continue;
      const std::vector<uint32_t>& posted = of_node[node_[machine_.blocks()[wait.block].first_step + wait.step]];
      ended[part.block].insert(ended[part.block].end(), posted.begin(), posted.end());
    }
    if (s.op == MscclOp::nop) {
      of_node[n] = ended[first.block];
      continue;
    }
    std::vector<uint32_t> after;
    for (const Step& part : node.steps) {
      for (const uint32_t t : ended[part.block]) {
        // The channel keeps this order.
        const bool by_channel = message && schedule.channel(t) == channel && (sends(step(part).op) ? schedule.src(t) == src : schedule.dst(t) == dst);
        if (!by_channel) after.push_back(t);
      }
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    const MscclStep& to = step(last);
    const Chunk source = place_chunk(program, type, options_.in_place, src, s.src_buffer, s.src_offset, s.count);
    const Chunk target = place_chunk(program, type, options_.in_place, dst, to.dst_buffer, to.dst_offset, to.count);
    std::vector<uint32_t> done;
    if (!message && s.op == MscclOp::cpy && source == target) {
      done = ended[first.block];
    } else {
      done = {static_cast<uint32_t>(schedule.size())};
      const bool reduces = to.op == MscclOp::rrc || to.op == MscclOp::re;
      schedule.add({src, dst, chunk_of(source), chunk_of(target), reduces ? TransferOp::reduce : TransferOp::copy, channel, after});
    }
    for (const Step& part : node.steps) ended[part.block] = done;
    of_node[n] = std::move(done);
  }
  return schedule;
}

std::optional<Schedule> DirectLowering::lower() {
  if (!msccl_collective(machine_.program().collective) || options_.copies || options_.destination_is_operand) return std::nullopt;
  if (!pair_up() || !sort() || !channels_are_ordered()) return std::nullopt;
  return build();
}

}  // namespace

LoweredMscclProgram lower_msccl(const MscclMachine& machine, const MscclLowerOptions& options) {
  return Lowering(machine, options).take();
}

std::optional<Schedule> lower_msccl_directly(const MscclMachine& machine, const MscclLowerOptions& options) {
  return DirectLowering(machine, options).lower();
}

}  // namespace slackline
