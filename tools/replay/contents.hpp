// What the buffers of a collective hold before and after, as byte ranges: what an executor fills in and
// compares.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

/// Where the buffers of one schedule's ranks lie for one message size. All offsets are bytes.
class BufferLayout {
 public:
  BufferLayout(const Collective& collective, const MessageLayout& message);

  const Collective& collective() const { return collective_; }
  const MessageLayout& message() const { return message_; }
  /// Units that a buffer is long; of scratch, unlimited: 0. A buffer that the collective does not use, such as
  /// `output` of a reduction's other ranks, has room for the message.
  int64_t units(Buffer buffer) const;
  /// The unit of the message that unit 0 of the buffer stands for.
  int64_t first_unit(int rank, Buffer buffer) const;
  /// The place of a unit. In scratch all units are equally long, long enough for any of the message.
  int64_t offset(int rank, Buffer buffer, int64_t unit) const;
  /// Length of a unit of the message, or of scratch.
  int64_t unit_bytes(int rank, Buffer buffer, int64_t unit) const;
  int64_t scratch_unit_bytes() const { return scratch_unit_bytes_; }
  /// Bytes of a buffer other than scratch.
  int64_t bytes(int rank, Buffer buffer) const { return offset(rank, buffer, units(buffer)); }

 private:
  bool is_part(Buffer buffer) const;

  Collective collective_;
  MessageLayout message_;
  int64_t scratch_unit_bytes_;
};

/// Bytes [offset, offset + bytes) of `buffer` hold what rank `from` brings, or the reduction of what all
/// ranks bring where `from` is -1, from byte `message_offset` of the message on.
struct Content {
  static constexpr int all_ranks = -1;
  Buffer buffer = Buffer::data;
  int64_t offset = 0;
  int64_t bytes = 0;
  int from = all_ranks;
  int64_t message_offset = 0;
};

/// What `rank` holds before the collective, and what it must hold after it.
std::vector<Content> contents_before(const BufferLayout& layout, int rank);
std::vector<Content> contents_after(const BufferLayout& layout, int rank);

/// True where the collective adds things up.
bool reduces(CollectiveType type);
/// Where `rank` must find its result.
Buffer result_buffer(const Collective& collective);
Buffer source_buffer(const Collective& collective);

}  // namespace slackline
