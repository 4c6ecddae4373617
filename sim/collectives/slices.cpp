#include "collectives/slices.hpp"

#include <algorithm>

namespace slackline {

std::optional<std::string> unsliceable(const Network& network) {
  const int g = network.ranks_per_server();
  if (g == 0) return "it wants the same number of ranks on every server";
  if (network.servers() < 2) return "it wants several servers";
  for (int rank = 0; rank < network.ranks(); ++rank) {
    if (network.server_of(rank) != network.server_of(rank / g * g)) return "the ranks are not numbered server by server";
    for (int other = rank / g * g; other < rank; ++other)
      if (!network.has_route(rank, other) || !network.has_route(other, rank))
        return "ranks " + std::to_string(other) + " and " + std::to_string(rank) + " of one server have no path to each other";
  }
  return std::nullopt;
}

Slices::Slices(const Network& network, int channels, NvlinkOrder order)
    : network_(network),
      servers_(network.servers()),
      g_(network.ranks_per_server()),
      channels_(channels),
      nvlink_channel_(order == NvlinkOrder::overlapped ? static_cast<uint16_t>(channels) : uint16_t{0}) {}

int64_t Slices::add_segment(int64_t units) {
  segments_.push_back({units_, units, static_cast<uint32_t>(segment_of_.size())});
  units_ += units * g_;
  return static_cast<int64_t>(segments_.size()) - 1;
}

uint32_t Slices::add_chunk(int64_t offset, int64_t length) {
  const Segment& segment = segments_.back();
  for (int r = 0; r < g_; ++r)
    rank_chunks_.push_back({Buffer::data, segment.begin + r * segment.units + offset, length});
  segment_of_.push_back(static_cast<uint32_t>(segments_.size()) - 1);
  return static_cast<uint32_t>(segment_of_.size()) - 1;
}

uint32_t Slices::add_scratch(int64_t offset, int64_t length) {
  for (int r = 0; r < g_; ++r) rank_chunks_.push_back({Buffer::scratch, offset, length});
  segment_of_.push_back(static_cast<uint32_t>(segments_.size()) - 1);
  return static_cast<uint32_t>(segment_of_.size()) - 1;
}

void Slices::finish_layout() {
  if (g_ == 1) return;
  for (Segment& segment : segments_) {
    segment.slice_chunk = static_cast<uint32_t>(rank_chunks_.size());
    for (int r = 0; r < g_; ++r)
      rank_chunks_.push_back({Buffer::data, segment.begin + r * segment.units, segment.units});
  }
}

void Slices::start(TransferSink& sink, bool probe) {
  sink_ = &sink;
  next_ = 0;
  copies_ = probe ? 1 : static_cast<uint32_t>(g_);
  if (g_ == 1) return;
  const size_t places = segments_.size() * static_cast<size_t>(servers_) * static_cast<size_t>(channels_);
  touched_.assign(places, 0);
  last_received_.assign(places, none);
  for (Segment& segment : segments_) segment.reduced = none;
}

uint32_t Slices::add(uint32_t src, uint32_t dst, uint32_t source, uint32_t destination, TransferOp op, uint16_t channel,
                     std::span<const uint32_t> after) {
  known_.clear();
  for (const uint32_t earlier : after)
    if (earlier != none) known_.push_back(earlier);
  const uint32_t index = next_;
  if (g_ == 1) {
    sink_->add({src, dst, source, destination, op, channel, known_});
    ++next_;
    return index;
  }
  // Later transfers of this rank on this channel come after this one, so only the first need wait for NVLink.
  const uint32_t g = static_cast<uint32_t>(g_);
  const uint32_t number = segment_of_[source];
  const Segment& segment = segments_[number];
  uint8_t& sent = touched_[place(number, src, channel)];
  uint8_t& received = touched_[place(number, dst, channel)];
  const bool source_waits = !(sent & 1) && segment.reduced != none;
  const bool destination_waits = !(received & 2) && segment.reduced != none;
  sent |= 1;
  received |= 2;
  last_received_[place(number, dst, channel)] = index;
  for (uint32_t r = 0; r < copies_; ++r) {
    waits_.clear();
    for (const uint32_t earlier : known_) waits_.push_back(earlier + r);
    if (source_waits) waits_.push_back(reduced_at(segment, src, r));
    if (destination_waits) waits_.push_back(reduced_at(segment, dst, r));
    sink_->add({src * g + r, dst * g + r, source * g + r, destination * g + r, op, channel, waits_});
  }
  next_ += copies_;
  return index;
}

// The transfer that rank `slice` of the server receives last in the reduce-scatter: in round g - 1, from the
// rank after it.
uint32_t Slices::reduced_at(const Segment& segment, uint32_t server, uint32_t slice) const {
  const uint32_t g = static_cast<uint32_t>(g_);
  if (copies_ == 1) return segment.reduced + 2 * server + 1;
  return segment.reduced + server * g + (slice + 1) % g;
}

// Round d: the i-th rank of every server sends to the (i+d)-th, in the reduce-scatter what the receiver's slice
// is, in the allgather its own. Every rank sends one and receives one message a round.
void Slices::exchange(const Segment& segment, bool gather, int64_t number) {
  const uint32_t g = static_cast<uint32_t>(g_);
  const auto send = [&](uint32_t server, uint32_t from, uint32_t to) {
    waits_.clear();
    for (int channel = 0; gather && channel < channels_; ++channel) {
      const uint32_t last = last_received_[place(number, server, static_cast<uint16_t>(channel))];
      if (last != none) waits_.push_back(last + (copies_ == 1 ? 0 : from));
    }
    const uint32_t chunk = segment.slice_chunk + (gather ? from : to);
    sink_->add({server * g + from, server * g + to, chunk, chunk, gather ? TransferOp::copy : TransferOp::reduce,
                nvlink_channel_, waits_});
    ++next_;
  };
  for (uint32_t d = 1; d < g; ++d) {
    for (uint32_t server = 0; server < static_cast<uint32_t>(servers_); ++server) {
      if (copies_ == 1) {
        send(server, 0, d);
        send(server, g - d, 0);
      } else {
        for (uint32_t i = 0; i < g; ++i) send(server, i, (i + d) % g);
      }
    }
  }
}

void Slices::reduce_scatter(int64_t number) {
  if (g_ == 1) return;
  Segment& segment = segments_[static_cast<size_t>(number)];
  exchange(segment, false, number);
  segment.reduced = next_ - static_cast<uint32_t>(servers_) * (copies_ == 1 ? 2 : static_cast<uint32_t>(g_));
}

void Slices::allgather(int64_t number) {
  if (g_ == 1) return;
  exchange(segments_[static_cast<size_t>(number)], true, number);
}

}  // namespace slackline
