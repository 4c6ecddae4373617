// The schedule IR: which rank sends which chunk to whom, in which order, after what. Columnar, because
// schedules of tens of millions of transfers must fit into memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace slackline {

enum class CollectiveType : uint8_t { allreduce, allgather, reduce_scatter, broadcast, reduce, gather, scatter, alltoall };
enum class Reduction : uint8_t { sum, prod, min, max };
/// `data` is the message in place. With out-of-place collectives `input` is what a rank brings and `output`
/// what it gets. `scratch` is working space that holds nothing at first.
enum class Buffer : uint8_t { data, input, output, scratch };
enum class TransferOp : uint8_t { copy, reduce };

std::string_view to_string(CollectiveType type);
std::string_view to_string(Reduction reduction);
std::string_view to_string(Buffer buffer);
std::string_view to_string(TransferOp op);
std::span<const std::string_view> collective_type_names();
std::span<const std::string_view> reduction_names();
std::span<const std::string_view> buffer_names();
/// Throw std::out_of_range for an unknown name.
CollectiveType collective_type(std::string_view name);
Reduction reduction(std::string_view name);
Buffer buffer(std::string_view name);

/// What the schedule computes. The message of N bytes is cut into `units` equal parts, numbered 0..units-1.
/// Rank r's contribution to unit u is written (r, u); "part q" is units [q*units/ranks, (q+1)*units/ranks).
///
/// | type | before | after |
/// |---|---|---|
/// | allreduce | every rank has all units | every rank has the sum of all ranks in all units |
/// | reduce | every rank has all units | the root has the sum of all ranks in all units |
/// | broadcast | the root has all units | every rank has the root's units |
/// | reduce_scatter | every rank has all units | rank q has the sum of all ranks in part q |
/// | allgather | rank q has part q | every rank has part q of rank q, for every q |
/// | gather | rank q has part q | the root has part q of rank q, for every q |
/// | scatter | the root has all units | rank q has the root's part q |
/// | alltoall | every rank has all units | rank q's part r is rank r's part q |
///
/// In place, everything is in `data` (`units` long) at the position of its unit. Out of place, it is read
/// from `input` and must end in `output`; where a rank brings or gets only its part, that buffer is
/// units/ranks long and starts with the part.
struct Collective {
  CollectiveType type = CollectiveType::allreduce;
  int ranks = 0;
  int root = -1;  ///< of broadcast, reduce, gather, scatter; else -1
  bool in_place = true;
  Reduction reduction = Reduction::sum;
  bool operator==(const Collective&) const = default;
};

/// True where `type` has a root.
bool has_root(CollectiveType type);
/// True where the message consists of one part a rank, so that units must be a multiple of ranks.
bool has_parts(CollectiveType type);

/// [offset, offset + length) in units, in a buffer.
struct Chunk {
  Buffer buffer = Buffer::data;
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const Chunk&) const = default;
};

/// One transfer, as seen through Schedule::transfer(). `after` points into the schedule.
struct Transfer {
  uint32_t src = 0, dst = 0;              ///< ranks; equal for a local copy or reduction
  uint32_t src_chunk = 0, dst_chunk = 0;  ///< indices into Schedule::chunks()
  TransferOp op = TransferOp::copy;       ///< what happens at the destination
  uint16_t channel = 0;
  std::span<const uint32_t> after;  ///< transfers earlier in the list that must have ended
};

/// Takes transfers one by one, in list order. Generators write into this, so that a schedule can be timed
/// without being stored.
class TransferSink {
 public:
  virtual ~TransferSink() = default;
  /// The transfer's index is the number of calls before this one.
  virtual void add(const Transfer& transfer) = 0;
  /// Sinks themselves hold nothing; without this, no class derived from one could default its comparison.
  bool operator==(const TransferSink&) const = default;
};

/// A schedule. On one channel a rank's sends go out in list order, one at a time, and its receives come in in
/// list order; transfers wait for those in `after`, which stand earlier in the list. So the list itself is
/// one valid order of execution, and no schedule can deadlock. That the contents are right is for validate()
/// to say; this class only holds them.
class Schedule : public TransferSink {
 public:
  Schedule() = default;
  Schedule(const Collective& collective, int64_t units) : collective_(collective), units_(units) {}

  const Collective& collective() const { return collective_; }
  void set_collective(const Collective& collective) { collective_ = collective; }
  /// The message is this many equal parts.
  int64_t units() const { return units_; }
  void set_units(int64_t units) { units_ = units; }
  /// The generator that made it, or where it was imported from; may be empty.
  const std::string& algorithm() const { return algorithm_; }
  void set_algorithm(std::string algorithm) { algorithm_ = std::move(algorithm); }

  uint32_t add_chunk(const Chunk& chunk) {
    chunks_.push_back(chunk);
    return static_cast<uint32_t>(chunks_.size() - 1);
  }
  const std::vector<Chunk>& chunks() const { return chunks_; }

  void reserve(size_t transfers, size_t dependencies);
  /// Appends. Throws Error{input} beyond 2^32 - 2 transfers or dependencies.
  void add(const Transfer& transfer) override;

  size_t size() const { return src_.size(); }
  Transfer transfer(size_t index) const {
    return {src_[index], dst_[index], src_chunk_[index], dst_chunk_[index],
            static_cast<TransferOp>(op_[index]), channel_[index], after(index)};
  }
  uint32_t src(size_t index) const { return src_[index]; }
  uint32_t dst(size_t index) const { return dst_[index]; }
  uint32_t src_chunk(size_t index) const { return src_chunk_[index]; }
  uint32_t dst_chunk(size_t index) const { return dst_chunk_[index]; }
  TransferOp op(size_t index) const { return static_cast<TransferOp>(op_[index]); }
  uint16_t channel(size_t index) const { return channel_[index]; }
  std::span<const uint32_t> after(size_t index) const {
    return {after_.data() + after_begin_[index], after_begin_[index + 1] - after_begin_[index]};
  }
  /// Dependencies of all transfers together.
  size_t dependencies() const { return after_.size(); }

  bool operator==(const Schedule&) const = default;

 private:
  Collective collective_;
  int64_t units_ = 0;
  std::string algorithm_;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> src_, dst_, src_chunk_, dst_chunk_;
  std::vector<uint8_t> op_;
  std::vector<uint16_t> channel_;
  std::vector<uint32_t> after_begin_{0}, after_;
};

/// Whether the schedule moves data to other positions than those it has in the message (through scratch space, say).
/// Rounding to whole elements can give the two positions different lengths, so that such a schedule is right only for
/// messages that are a multiple of `units` elements; any other is right for every size. Moves by whole parts are
/// harmless, as parts are equally long.
bool moves_between_positions(const Schedule& schedule);

/// Where units lie in a message of `size` bytes of `element`-byte elements: exact fractions, rounded down
/// to whole elements once, so that adjacent chunks meet for any size. size >= 0, element >= 1, units >= 1.
class MessageLayout {
 public:
  MessageLayout(Bytes size, Bytes element, int64_t units)
      : size_(size.count()), element_(element.count()), units_(units) {}

  /// First byte of `unit` in a message buffer; `unit` may exceed units() in scratch.
  int64_t offset(int64_t unit) const {
    if (unit == units_) return size_;
    const auto exact = static_cast<int64_t>(static_cast<__int128>(size_) * unit / units_);
    return exact - exact % element_;
  }
  /// Bytes of a chunk of a message buffer.
  int64_t length(const Chunk& chunk) const {
    return offset(chunk.offset + chunk.length) - offset(chunk.offset);
  }
  /// Bytes that a transfer between two chunks moves: what the side that is no scratch space holds.
  int64_t length(const Chunk& source, const Chunk& destination) const {
    return length(source.buffer == Buffer::scratch ? destination : source);
  }
  int64_t size() const { return size_; }
  int64_t element() const { return element_; }
  int64_t units() const { return units_; }

 private:
  int64_t size_, element_, units_;
};

}  // namespace slackline
