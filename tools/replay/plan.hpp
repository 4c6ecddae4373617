// The plan: a schedule taken apart into what each rank does on each channel, with the events that every
// step waits for. All backends execute plans; nothing in here knows threads or CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contents.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

/// `send` moves nothing: it says that the source may now be read. The receiving rank moves the data, straight from
/// the sender's buffer into its own. `copy` and `reduce` are local.
enum class StepKind : uint8_t { send, receive, receive_reduce, copy, reduce };

/// Bytes [source, source + bytes) of the source buffer go to `destination` of the destination buffer.
struct Piece {
  int64_t source = 0;
  int64_t destination = 0;
  int64_t bytes = 0;
};

/// A step of a rank's program. Its end is the event of the step's number; a step that moves data ends after
/// the last byte is written.
struct Step {
  static constexpr uint32_t none = UINT32_MAX;
  uint32_t transfer = 0;  ///< index in the schedule
  uint32_t rank = 0;      ///< whose step it is
  uint32_t peer = 0;      ///< the other side of the transfer; `rank` for local steps
  uint16_t channel = 0;
  StepKind kind = StepKind::send;
  Buffer source = Buffer::data;       ///< on the sending side
  Buffer destination = Buffer::data;  ///< on the receiving side
  /// Steps that must have ended because of the order of sends and receives on the channel: `none` or a step. A send
  /// waits for the step that read the source of the send before it. A receive waits for its send, and for
  /// the receive before it.
  uint32_t order[2] = {none, none};

  bool moves() const { return kind != StepKind::send; }
  bool reduces() const { return kind == StepKind::receive_reduce || kind == StepKind::reduce; }
  uint32_t source_rank() const { return kind == StepKind::send ? rank : peer; }
};

class Plan {
 public:
  const BufferLayout& layout() const { return layout_; }
  int ranks() const { return layout_.collective().ranks; }

  /// In list order; a transfer's send stands right before its receive.
  const std::vector<Step>& steps() const { return steps_; }
  /// Steps whose data must have arrived (the transfer's `after`). Empty for receives, whose sends wait.
  std::span<const uint32_t> after(uint32_t step) const { return slice(after_, after_begin_, step); }
  /// What a step moves. Empty for sends.
  std::span<const Piece> pieces(uint32_t step) const { return slice(pieces_, piece_begin_, step); }
  int64_t bytes(uint32_t step) const;

  /// The steps of a rank on a channel, in order.
  struct Program {
    uint32_t rank = 0;
    uint16_t channel = 0;
    std::vector<uint32_t> steps;
  };
  /// By rank, then channel; only those that have steps.
  const std::vector<Program>& programs() const { return programs_; }

  /// Size of a rank's buffer; 0 for one that nothing touches.
  int64_t buffer_bytes(int rank, Buffer buffer) const {
    return buffer_bytes_[static_cast<size_t>(rank) * 4 + static_cast<size_t>(buffer)];
  }
  /// Bytes that all transfers together move.
  int64_t total_bytes() const { return total_bytes_; }
  size_t transfers() const { return transfers_; }

 private:
  friend class PlanBuilder;
  explicit Plan(const BufferLayout& layout) : layout_(layout) {}

  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<uint64_t>& begin, uint32_t step) {
    return {all.data() + begin[step], all.data() + begin[step + 1]};
  }

  BufferLayout layout_;
  std::vector<Step> steps_;
  std::vector<uint64_t> after_begin_{0}, piece_begin_{0};
  std::vector<uint32_t> after_;
  std::vector<Piece> pieces_;
  std::vector<Program> programs_;
  std::vector<int64_t> buffer_bytes_;
  int64_t total_bytes_ = 0;
  size_t transfers_ = 0;
};

/// The plan of `schedule` for a message of at least `size` bytes (>= 1): the size is rounded up to whole elements,
/// and where units of the message change places (an alltoall; a transfer between different positions), so that
/// they must be equally long, to a multiple of units * element. plan.layout().message() tells.
///
/// The plan allows exactly the orders that the schedule does (validate.hpp): a step may start once the steps in
/// `order` and `after` have ended.
///
/// Throws Error{input} for what makes a schedule impossible to execute (ranks, units, chunks or dependencies out of
/// range, chunks of different lengths, buffers that the collective does not have), wrong or not.
Plan build_plan(const Schedule& schedule, Bytes size, Bytes element);

}  // namespace slackline
