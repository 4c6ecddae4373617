#include "plan.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.hpp"

namespace slackline {

int64_t Plan::bytes(uint32_t step) const {
  int64_t total = 0;
  for (const Piece& piece : pieces(step)) total += piece.bytes;
  return total;
}

class PlanBuilder {
 public:
  PlanBuilder(const Schedule& schedule, const MessageLayout& message)
      : schedule_(schedule), plan_(BufferLayout(schedule.collective(), message)) {}

  /// False: this size does not do, since units of different lengths would have to change places.
  bool build();
  Plan& plan() { return plan_; }

 private:
  // A scratch unit holds as many bytes as what was last put there; nothing yet counts as a whole unit.
  static constexpr int64_t nothing = -1;
  struct Place {
    int rank;
    Buffer buffer;
    int64_t unit;
  };

  Transfer checked(size_t index) const;
  void check_chunk(size_t index, const Chunk& chunk) const;
  int64_t held(const Place& place);
  bool add_pieces(const Transfer& transfer);
  uint32_t add_step(const Step& step, std::span<const uint32_t> after);
  uint32_t& last(std::vector<std::vector<uint32_t>>& lanes, uint32_t rank, uint16_t channel) {
    if (channel >= lanes.size()) lanes.resize(size_t{channel} + 1, std::vector<uint32_t>(ranks_, Step::none));
    return lanes[channel][rank];
  }
  [[noreturn]] void fail(size_t index, const std::string& message) const {
    throw Error(ErrorKind::input, message, "transfer " + std::to_string(index));
  }

  const Schedule& schedule_;
  Plan plan_;
  size_t ranks_ = 0;
  std::vector<std::vector<int64_t>> scratch_;  // by rank and unit: bytes held
  std::vector<uint32_t> moved_by_;             // by transfer: the step that moves it
  std::vector<std::vector<uint32_t>> sends_, receives_;  // by channel and rank: the last moving step
  std::map<std::pair<uint32_t, uint16_t>, size_t> program_of_;
};

void PlanBuilder::check_chunk(size_t index, const Chunk& chunk) const {
  const bool in_place = schedule_.collective().in_place;
  if (chunk.buffer != Buffer::scratch && (chunk.buffer == Buffer::data) != in_place)
    fail(index, std::string(in_place ? "an in-place" : "an out-of-place") + " collective has no buffer \"" +
                    std::string(to_string(chunk.buffer)) + "\"");
  // The builder keeps a number per unit of scratch.
  const int64_t limit = chunk.buffer == Buffer::scratch ? int64_t{1} << 26 : plan_.layout().units(chunk.buffer);
  if (chunk.offset < 0 || chunk.length < 0 || chunk.offset > limit || chunk.length > limit - chunk.offset)
    fail(index, "a chunk of " + std::to_string(chunk.length) + " units at " + std::to_string(chunk.offset) +
                    " is not within \"" + std::string(to_string(chunk.buffer)) + "\", which has " +
                    (chunk.buffer == Buffer::scratch ? "at most " : "") + std::to_string(limit));
}

Transfer PlanBuilder::checked(size_t index) const {
  const Transfer transfer = schedule_.transfer(index);
  if (transfer.src >= ranks_ || transfer.dst >= ranks_)
    fail(index, "there is no rank " + std::to_string(std::max(transfer.src, transfer.dst)));
  const size_t chunks = schedule_.chunks().size();
  if (transfer.src_chunk >= chunks || transfer.dst_chunk >= chunks)
    fail(index, "there is no chunk " + std::to_string(std::max(transfer.src_chunk, transfer.dst_chunk)));
  const Chunk& source = schedule_.chunks()[transfer.src_chunk];
  const Chunk& destination = schedule_.chunks()[transfer.dst_chunk];
  check_chunk(index, source);
  check_chunk(index, destination);
  if (source.length != destination.length) fail(index, "source and destination differ in length");
  if (transfer.src == transfer.dst && source.buffer == destination.buffer &&
      source.offset < destination.offset + destination.length && destination.offset < source.offset + source.length)
    fail(index, "source and destination overlap");
  for (const uint32_t earlier : transfer.after)
    if (earlier >= index) fail(index, "waits for transfer " + std::to_string(earlier) + ", which is not before it");
  return transfer;
}

int64_t PlanBuilder::held(const Place& place) {
  if (place.buffer != Buffer::scratch) return plan_.layout_.unit_bytes(place.rank, place.buffer, place.unit);
  const int64_t bytes = scratch_[static_cast<size_t>(place.rank)][static_cast<size_t>(place.unit)];
  return bytes == nothing ? plan_.layout_.scratch_unit_bytes() : bytes;
}

bool PlanBuilder::add_pieces(const Transfer& transfer) {
  const BufferLayout& layout = plan_.layout_;
  const Chunk& source = schedule_.chunks()[transfer.src_chunk];
  const Chunk& destination = schedule_.chunks()[transfer.dst_chunk];
  const int src = static_cast<int>(transfer.src), dst = static_cast<int>(transfer.dst);
  const size_t first = plan_.pieces_.size();
  const auto add = [&](const Piece& piece) {
    if (piece.bytes == 0) return;
    if (plan_.pieces_.size() > first) {
      Piece& before = plan_.pieces_.back();
      if (before.source + before.bytes == piece.source && before.destination + before.bytes == piece.destination) {
        before.bytes += piece.bytes;
        return;
      }
    }
    plan_.pieces_.push_back(piece);
  };

  const bool through_scratch = source.buffer == Buffer::scratch || destination.buffer == Buffer::scratch;
  const bool same_position = !through_scratch && layout.first_unit(src, source.buffer) + source.offset ==
                                                     layout.first_unit(dst, destination.buffer) + destination.offset;
  if (same_position) {
    const int64_t begin = layout.offset(src, source.buffer, source.offset);
    const int64_t end = layout.offset(src, source.buffer, source.offset + source.length);
    add({begin, layout.offset(dst, destination.buffer, destination.offset), end - begin});
    return true;
  }
  for (int64_t u = 0; u < source.length; ++u) {
    const Place from{src, source.buffer, source.offset + u}, to{dst, destination.buffer, destination.offset + u};
    const int64_t bytes = held(from);
    if (to.buffer == Buffer::scratch && transfer.op == TransferOp::copy)
      scratch_[static_cast<size_t>(dst)][static_cast<size_t>(to.unit)] = bytes;
    else if (held(to) != bytes)
      return false;
    add({layout.offset(src, from.buffer, from.unit), layout.offset(dst, to.buffer, to.unit), bytes});
  }
  return true;
}

uint32_t PlanBuilder::add_step(const Step& step, std::span<const uint32_t> after) {
  const auto number = static_cast<uint32_t>(plan_.steps_.size());
  plan_.steps_.push_back(step);
  for (const uint32_t earlier : after) plan_.after_.push_back(moved_by_[earlier]);
  plan_.after_begin_.push_back(plan_.after_.size());
  plan_.piece_begin_.push_back(plan_.pieces_.size());
  const auto [entry, is_new] = program_of_.try_emplace({step.rank, step.channel}, program_of_.size());
  if (is_new) plan_.programs_.push_back({step.rank, step.channel, {}});
  plan_.programs_[entry->second].steps.push_back(number);
  return number;
}

bool PlanBuilder::build() {
  const Collective& collective = schedule_.collective();
  if (collective.ranks < 1 || schedule_.units() < 1)
    throw Error(ErrorKind::input, "the schedule has no ranks or no units");
  if (has_root(collective.type) && (collective.root < 0 || collective.root >= collective.ranks))
    throw Error(ErrorKind::input, "there is no root rank " + std::to_string(collective.root));
  if (has_parts(collective.type) && schedule_.units() % collective.ranks != 0)
    throw Error(ErrorKind::input, "the units are not divisible by the ranks");
  if (schedule_.size() >= Step::none / 2) throw Error(ErrorKind::input, "the schedule has too many transfers to execute");
  ranks_ = static_cast<size_t>(collective.ranks);

  // Buffers; scratch is as long as the chunks in it ask for.
  std::vector<int64_t> scratch_units(ranks_, 0);
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const Transfer transfer = checked(i);
    const auto use = [&](uint32_t rank, const Chunk& chunk) {
      if (chunk.buffer == Buffer::scratch)
        scratch_units[rank] = std::max(scratch_units[rank], chunk.offset + chunk.length);
    };
    use(transfer.src, schedule_.chunks()[transfer.src_chunk]);
    use(transfer.dst, schedule_.chunks()[transfer.dst_chunk]);
  }
  const BufferLayout& layout = plan_.layout_;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const int r = static_cast<int>(rank);
    plan_.buffer_bytes_.push_back(collective.in_place ? layout.bytes(r, Buffer::data) : 0);
    plan_.buffer_bytes_.push_back(collective.in_place ? 0 : layout.bytes(r, Buffer::input));
    plan_.buffer_bytes_.push_back(collective.in_place ? 0 : layout.bytes(r, Buffer::output));
    plan_.buffer_bytes_.push_back(scratch_units[rank] * layout.scratch_unit_bytes());
    scratch_.emplace_back(static_cast<size_t>(scratch_units[rank]), nothing);
  }

  moved_by_.reserve(schedule_.size());
  plan_.steps_.reserve(schedule_.size() * 2);
  plan_.transfers_ = schedule_.size();
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const Transfer transfer = schedule_.transfer(i);
    const bool local = transfer.src == transfer.dst, reduce = transfer.op == TransferOp::reduce;
    uint32_t& last_send = last(sends_, transfer.src, transfer.channel);
    uint32_t& last_receive = last(receives_, transfer.dst, transfer.channel);
    Step step;
    step.transfer = static_cast<uint32_t>(i);
    step.channel = transfer.channel;
    step.source = schedule_.chunks()[transfer.src_chunk].buffer;
    step.destination = schedule_.chunks()[transfer.dst_chunk].buffer;
    uint32_t before = last_send;
    if (!local) {
      step.rank = transfer.src;
      step.peer = transfer.dst;
      step.kind = StepKind::send;
      step.order[0] = last_send;
      before = add_step(step, transfer.after);
    }
    const size_t piece = plan_.pieces_.size();
    if (!add_pieces(transfer)) return false;
    for (size_t p = piece; p < plan_.pieces_.size(); ++p) plan_.total_bytes_ += plan_.pieces_[p].bytes;
    step.rank = transfer.dst;
    step.peer = transfer.src;
    step.kind = local ? (reduce ? StepKind::reduce : StepKind::copy)
                      : (reduce ? StepKind::receive_reduce : StepKind::receive);
    step.order[0] = before;
    step.order[1] = last_receive == before ? Step::none : last_receive;
    const std::span<const uint32_t> waits_itself = local ? transfer.after : std::span<const uint32_t>();
    last_send = last_receive = add_step(step, waits_itself);
    moved_by_.push_back(last_receive);
  }
  std::sort(plan_.programs_.begin(), plan_.programs_.end(), [](const Plan::Program& a, const Plan::Program& b) {
    return std::pair(a.rank, a.channel) < std::pair(b.rank, b.channel);
  });
  return true;
}

namespace {

// Rounded up to a multiple. Sizes are those of messages in memory, far below 2^62.
int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Plan build_plan(const Schedule& schedule, Bytes size, Bytes element) {
  const int64_t units = std::max<int64_t>(schedule.units(), 1);
  if (size.count() < 1 || size.count() > int64_t{1} << 46)
    throw Error(ErrorKind::input, "the message size must be between 1 B and 64 TiB");
  if (units > (int64_t{1} << 46) / element.count())
    throw Error(ErrorKind::input, "the message is cut into more units than can be executed");
  const auto layout = [&](int64_t multiple) {
    return MessageLayout(Bytes(round_up(size.count(), multiple)), element, units);
  };
  // Part q of one rank becomes part r of another in an alltoall.
  if (schedule.collective().type != CollectiveType::alltoall) {
    PlanBuilder builder(schedule, layout(element.count()));
    if (builder.build()) return std::move(builder.plan());
  }
  PlanBuilder builder(schedule, layout(units * element.count()));
  if (!builder.build()) throw Error(ErrorKind::internal, "equal units have different lengths");
  return std::move(builder.plan());
}

}  // namespace slackline
