// Cuts the buffers of a schedule into pieces that every transfer moves whole or not at all, and
// sorts them into groups between which nothing is ever moved. The validator looks at one group at a
// time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

/// How long `buffer` is on every rank, in units, or 0 where the collective does not use it; scratch
/// space is as long as it needs to be and has INT64_MAX.
int64_t buffer_length(const Collective& collective, int64_t units, Buffer buffer);

/// The pieces are the intervals between all ends of the chunks in use, carried along by the
/// transfers: where the source of a transfer is cut, so is the destination, and the reverse. Needs
/// memory linear in the chunks, in the pairs of chunks in use, and in the pieces.
class Pieces {
public:
  /// The pieces of a chunk, one after the other from `first`.
  struct Span {
    uint32_t first = 0, count = 0;
  };

  /// All ranks and chunks of `schedule` must be in range, and lengths must match.
  explicit Pieces(const Schedule& schedule);

  /// False where transfers shift data by so little that there would be more than limit() pieces.
  /// Then nothing else may be asked for.
  bool fine_enough() const { return fine_enough_; }
  size_t limit() const { return limit_; }

  size_t size() const { return begin_.size(); }
  Buffer buffer(uint32_t piece) const;
  /// First unit.
  int64_t begin(uint32_t piece) const { return begin_[piece]; }
  /// One past the last unit.
  int64_t end(uint32_t piece) const { return end_[piece]; }
  /// No pieces for a chunk that no transfer uses.
  Span of_chunk(uint32_t chunk) const { return spans_[chunk]; }

  size_t groups() const { return group_begin_.size() - 1; }
  uint32_t group(uint32_t piece) const { return group_[piece]; }
  /// The pieces of a group, ascending.
  std::span<const uint32_t> members(uint32_t group) const {
    return {members_.data() + group_begin_[group], group_begin_[group + 1] - group_begin_[group]};
  }
  /// Position of a piece in members(group(piece)).
  uint32_t position(uint32_t piece) const { return position_[piece]; }

private:
  static constexpr size_t buffers = 4;
  using Cuts = std::array<std::vector<int64_t>, buffers>;  // by buffer, ascending

  void find_pairs(const Schedule& schedule);
  void cut(const Schedule& schedule);
  bool carry_cuts(const Schedule& schedule);
  bool cut_evenly();
  void find_spans(const Schedule& schedule);
  void form_groups();

  size_t limit_ = 0;
  bool fine_enough_ = true;
  std::vector<char> used_;  // by chunk
  std::vector<std::pair<uint32_t, uint32_t>>
      pairs_;  // (source, destination) chunks that are not the same
  Cuts cuts_;
  std::array<uint32_t, buffers + 1> buffer_begin_{};  // first piece of each buffer
  std::vector<int64_t> begin_, end_;
  std::vector<Span> spans_;
  std::vector<uint32_t> group_, position_, group_begin_, members_;
};

}  // namespace slackline
