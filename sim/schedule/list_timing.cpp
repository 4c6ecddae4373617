#include "schedule/list_timing.hpp"

#include <algorithm>

namespace slackline {

namespace {

// Per rank and channel, grown as channels appear.
TimePoint& slot(std::vector<TimePoint>& table, size_t ranks, uint16_t channel, uint32_t rank) {
  const size_t index = channel * ranks + rank;
  if (index >= table.size()) table.resize((size_t{channel} + 1) * ranks);
  return table[index];
}

}  // namespace

ListTiming::ListTiming(const Network& network, const MessageLayout& layout,
                       const std::vector<Chunk>& chunks)
    : network_(network), layout_(layout), chunks_(chunks), link_free_(network.links().size()) {}

const ListTiming::Connection& ListTiming::connection(uint32_t src, uint32_t dst) {
  const uint64_t key = uint64_t{src} << 32 | dst;
  if (const auto found = connections_.find(key); found != connections_.end()) return found->second;
  const Route& route = network_.route(static_cast<int>(src), static_cast<int>(dst));
  Bandwidth rate = network_.links()[route.links.front()].capacity;
  for (const uint32_t link : route.links) rate = std::min(rate, network_.links()[link].capacity);
  return connections_.emplace(key, Connection{&route, rate}).first->second;
}

void ListTiming::add(const Transfer& transfer) {
  const size_t ranks = static_cast<size_t>(network_.ranks());
  TimePoint start;
  for (const uint32_t earlier : transfer.after) start = std::max(start, arrival_[earlier]);
  TimePoint& send_free = slot(send_free_, ranks, transfer.channel, transfer.src);
  TimePoint& receive_free = slot(receive_free_, ranks, transfer.channel, transfer.dst);
  TimePoint& arrived = slot(arrived_, ranks, transfer.channel, transfer.dst);
  start = std::max({start, send_free, receive_free});
  const Bytes bytes(layout_.length(chunks_[transfer.src_chunk], chunks_[transfer.dst_chunk]));
  TimePoint end = start;
  Duration latency;
  if (transfer.src != transfer.dst && bytes.count() > 0) {
    const Connection& way = connection(transfer.src, transfer.dst);
    for (const uint32_t link : way.route->links) start = std::max(start, link_free_[link]);
    end = start + network_.message_overhead() + transfer_time(bytes, way.rate);
    for (const uint32_t link : way.route->links) link_free_[link] = end;
    latency = way.route->latency;
  }
  send_free = end;
  receive_free = end;
  arrived = std::max(arrived, end + latency);
  arrival_.push_back(arrived);
  completion_ = std::max(completion_, arrived);
}

}  // namespace slackline
