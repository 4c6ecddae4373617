#include "schedule/msccl_lower.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/error.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = MscclMachine::none;

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
  Chunk place(uint32_t rank, MscclBuffer buffer, int32_t offset, int32_t count) const;
  uint32_t chunk(const Chunk& chunk);
  // Adds a transfer that waits for `after_`.
  uint32_t transfer(uint32_t src, uint32_t dst, const Chunk& from, const Chunk& to, TransferOp op, uint16_t channel);
  uint32_t local(uint32_t rank, const Chunk& from, const Chunk& to, TransferOp op) {
    return transfer(rank, rank, from, to, op, local_channel_);
  }
  void send(const Chunk& from, int32_t count);

  const MscclMachine& machine_;
  const MscclProgram& program_;
  MscclLowerOptions options_;
  std::optional<CollectiveType> type_;
  int64_t part_ = 0;  // chunks of one rank
  LoweredMscclProgram result_;
  std::map<std::tuple<Buffer, int64_t, int64_t>, uint32_t> chunks_;
  std::vector<uint16_t> connection_channel_, local_channel_of_;
  std::vector<int64_t> scratch_used_;
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
      part_(program_.chunks / std::max(program_.ranks, 1)),
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
  for (const MscclGpu& gpu : program_.gpus) scratch_used_.push_back(gpu.scratch_chunks);
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

Chunk Lowering::place(uint32_t rank, MscclBuffer buffer, int32_t offset, int32_t count) const {
  if (buffer == MscclBuffer::scratch) return {Buffer::scratch, offset, count};
  if (!options_.in_place)
    return {buffer == MscclBuffer::input ? Buffer::input : Buffer::output, offset, count};
  int64_t shift = 0;
  const bool gathers = type_ == CollectiveType::allgather || type_ == CollectiveType::gather;
  const bool scatters = type_ == CollectiveType::reduce_scatter || type_ == CollectiveType::scatter;
  if ((gathers && buffer == MscclBuffer::input) || (scatters && buffer == MscclBuffer::output)) shift = rank * part_;
  return {Buffer::data, shift + offset, count};
}

uint32_t Lowering::chunk(const Chunk& chunk) {
  const auto [entry, fresh] = chunks_.try_emplace({chunk.buffer, chunk.offset, chunk.length}, 0);
  if (fresh) entry->second = result_.schedule.add_chunk(chunk);
  return entry->second;
}

uint32_t Lowering::transfer(uint32_t src, uint32_t dst, const Chunk& from, const Chunk& to, TransferOp op, uint16_t channel) {
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
  const auto index = static_cast<uint32_t>(result_.schedule.size());
  result_.schedule.add({src, dst, chunk(from), chunk(to), op, channel, after_});
  result_.block.push_back(block_);
  result_.step.push_back(step_);
  after_.assign(1, index);
  return index;
}

void Lowering::send(const Chunk& from, int32_t count) {
  const uint32_t connection = machine_.blocks()[block_].send;
  const uint32_t peer = machine_.connections()[connection].dst;
  const int64_t slot = scratch_used_[peer];
  scratch_used_[peer] += count;
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

LoweredMscclProgram lower_msccl(const MscclMachine& machine, const MscclLowerOptions& options) {
  return Lowering(machine, options).take();
}

}  // namespace slackline
