// Token buckets that make memory copies as slow as a network: one bucket a port, filled at the port's rate
// divided by one factor for all.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "plan.hpp"
#include "topology/network.hpp"

namespace slackline {

/// A network to imitate.
struct Shape {
  const Network* network = nullptr;  ///< not owned; needs a route for every transfer; outlives the backend
  Sharing sharing = Sharing::fair;
  double factor = 1;  ///< everything takes so many times longer than on the network, >= 1
  /// How much time a port may catch up on after a rank woke up late: the depth of the buckets. In real time. It cannot make
  /// a run faster than the network, as nothing is due before what it waits for was due.
  Duration burst{100'000'000'000};
};

/// Hands out port time. All times are picoseconds of real time since the run began, and a message costs each port
/// of its route factor * (o + bytes/rate), as in the simulator.
class Pacer {
 public:
  /// The way of one transfer.
  struct Path {
    std::vector<uint32_t> links;
    double byte_ps = 0;       ///< time of a byte at the slowest link
    int64_t latency_ps = 0;
    int64_t overhead_ps = 0;  ///< o
    int64_t quantum = 0;      ///< bytes after which other flows get their turn
  };

  Pacer(const Shape& shape, const Plan& plan);

  /// Empties the ports.
  void reset();
  const Path& path(uint32_t src, uint32_t dst) const { return paths_.at({src, dst}); }
  Sharing sharing() const { return sharing_; }

  /// Fair sharing: flows pass each link a quantum at a time, in the order in which they ask. Returns when the
  /// quantum starts on the link, `earliest` or later.
  int64_t take(uint32_t link, int64_t earliest, int64_t bytes, int64_t overhead);
  /// Exclusive sharing: the whole message takes all links of its path at once. Returns when it starts.
  int64_t take_all(const Path& path, int64_t earliest, int64_t bytes);

 private:
  struct Link {
    double byte_ps = 0;
    int64_t free = 0;  // when the last that was handed out ends
  };
  Sharing sharing_;
  std::mutex mutex_;  // guards links_' free
  std::vector<Link> links_;
  std::map<std::pair<uint32_t, uint32_t>, Path> paths_;
};

/// A factor for which pacing, not copying or waking up, takes the time: the run lasts at least a second, at least
/// 25 times what moving all bytes on `cores` cores takes at 1 GB/s each, and long enough that a core has half a
/// millisecond for every transfer. Whole, >= 1.
double shape_factor(const Network& network, const Plan& plan, unsigned cores);

}  // namespace slackline
