// A collective among servers, carried out by their g GPUs side by side: NVLink reduces a segment into g slices,
// slice r crosses the network among the r-th GPUs of all servers, and NVLink gathers the results.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// How the NVLink work of segments relates to their NIC work.
enum class NvlinkOrder : uint8_t {
  overlapped,   ///< on its own channel: NVLink works on one segment while the NICs work on others
  alternating,  ///< on channel 0, in list order with the NIC work, as the OptCC paper does
};

/// Why the ranks of `network` cannot be cut into slices, or nothing. Wants several servers with equally many
/// ranks each, numbered server by server, and a path between any two ranks of a server.
std::optional<std::string> unsliceable(const Network& network);

/// Translates transfers between servers into transfers between ranks. First segments and chunks are declared, then
/// transfers emitted. With one rank a server it passes everything through.
class Slices {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  /// `channels` is the number of channels that transfers between servers use, numbered from 0.
  Slices(const Network& network, int channels, NvlinkOrder order);

  int servers() const { return servers_; }
  int ranks_per_server() const { return g_; }
  /// Same for all ranks of the server.
  const Fraction& slowdown(int server) const { return network_.slowdown(server * g_); }

  /// Appends a segment whose slices are `units` long.
  int64_t add_segment(int64_t units);
  /// A chunk of every slice of the last segment. Returns its number, counted from 0.
  uint32_t add_chunk(int64_t offset, int64_t length);
  /// Scratch space of every rank, for data of the last segment. Numbered with the chunks.
  uint32_t add_scratch(int64_t offset, int64_t length);
  /// To be called once after the last chunk.
  void finish_layout();
  int64_t units() const { return units_; }
  /// Of the schedule: those that the transfers given to the sink refer to.
  const std::vector<Chunk>& chunks() const { return rank_chunks_; }

  /// Starts emitting into `sink`. As a probe only what the first rank of each server does is emitted, which takes
  /// as long as the whole, since the slices are alike and do not touch.
  void start(TransferSink& sink, bool probe);
  /// A transfer of `chunk` from server to server, of all slices. `after` holds earlier results of add(), or none.
  /// Waits by itself until NVLink has reduced the chunk's segment at both ends.
  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op, uint16_t channel,
               std::initializer_list<uint32_t> after) {
    return add(src, dst, chunk, op, channel, std::span<const uint32_t>(after.begin(), after.size()));
  }
  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op, uint16_t channel,
               std::span<const uint32_t> after) {
    return add(src, dst, chunk, chunk, op, channel, after);
  }
  /// Between two chunks of one segment.
  uint32_t add(uint32_t src, uint32_t dst, uint32_t source, uint32_t destination, TransferOp op, uint16_t channel,
               std::span<const uint32_t> after);
  /// NVLink phases of a segment; nothing with one rank a server. The second waits for everything that the
  /// servers have received of the segment by then.
  void reduce_scatter(int64_t segment);
  void allgather(int64_t segment);
  /// Transfers that the NVLink phases of one segment make.
  int64_t nvlink_transfers() const { return int64_t{2} * servers_ * g_ * (g_ - 1); }
  uint32_t emitted() const { return next_; }

 private:
  struct Segment {
    int64_t begin, units;
    uint32_t first_chunk;           // server chunks of this segment: [first_chunk, next one's)
    uint32_t slice_chunk = 0;       // rank chunk of slice 0
    uint32_t reduced = none;        // index of the first transfer of the last round of the reduce-scatter
  };
  size_t place(int64_t segment, uint32_t server, uint16_t channel) const {
    return (static_cast<size_t>(segment) * static_cast<size_t>(servers_) + server) * static_cast<size_t>(channels_) + channel;
  }
  uint32_t reduced_at(const Segment& segment, uint32_t server, uint32_t slice) const;
  void exchange(const Segment& segment, bool gather, int64_t number);

  const Network& network_;
  int servers_, g_, channels_;
  uint16_t nvlink_channel_;
  int64_t units_ = 0;
  std::vector<Segment> segments_;
  std::vector<uint32_t> segment_of_;  // by server chunk
  std::vector<Chunk> rank_chunks_;

  TransferSink* sink_ = nullptr;
  uint32_t copies_ = 1;  // slices that are emitted
  uint32_t next_ = 0;
  std::vector<uint8_t> touched_;         // by place: 1 sent, 2 received
  std::vector<uint32_t> last_received_;  // by place
  std::vector<uint32_t> known_, waits_;  // scratch of add() and exchange()
};

}  // namespace slackline
