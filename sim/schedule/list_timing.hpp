// The completion time of a schedule whose transfers never share a port: computed in one pass over the list,
// without a simulator. Generators use it to choose parameters; tests hold it against the simulator.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/units.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// Times transfers as they are added. Every transfer starts once the transfers in its `after` have arrived,
/// every link of its route is free and its rank's earlier sends and receives on its channel are done;
/// it occupies the links for o + bytes/rate and arrives a latency later. Links serve transfers in list order, so
/// the result is the simulator's wherever list order is the order in which each link is used: with one channel
/// and one port per rank and direction, always.
class ListTiming : public TransferSink {
 public:
  /// `chunks` are those that the transfers refer to. The arguments must outlive this object.
  ListTiming(const Network& network, const MessageLayout& layout, const std::vector<Chunk>& chunks);

  void reserve(size_t transfers) { arrival_.reserve(transfers); }
  void add(const Transfer& transfer) override;
  /// When the last transfer so far arrives.
  TimePoint completion() const { return completion_; }
  size_t size() const { return arrival_.size(); }

 private:
  struct Connection {
    const Route* route;
    Bandwidth rate;
  };
  const Connection& connection(uint32_t src, uint32_t dst);

  const Network& network_;
  const MessageLayout& layout_;
  const std::vector<Chunk>& chunks_;
  std::unordered_map<uint64_t, Connection> connections_;
  std::vector<TimePoint> link_free_;
  std::vector<TimePoint> send_free_, receive_free_, arrived_;  // by channel and rank
  std::vector<TimePoint> arrival_;
  TimePoint completion_;
};

}  // namespace slackline
