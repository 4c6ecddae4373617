// The NVLink islands of a job: groups of ranks that reach each other over NVLinks, directly or through an
// NVSwitch. Between islands there is PCIe or the network.
#pragma once

#include <string>
#include <vector>

#include "collectives/tree_packing.hpp"
#include "topology/network.hpp"

namespace slackline {

struct Island {
  std::vector<int> ranks;  ///< ascending
  int server = 0;
  bool switched = false;          ///< all ranks are on one NVSwitch; `graph` is then empty
  CapacityGraph graph{0};         ///< the direct NVLinks among `ranks` (vertex i is ranks[i]), in links
  double link_bytes_per_second = 0;  ///< of one link; on an NVSwitch of the slowest rank's port
  bool equal_ports = true;        ///< on an NVSwitch: all ranks have the same bandwidth, both ways
};

/// In the order of their lowest rank. A link is the fastest NVLink of the island (bundles divided by their number).
std::vector<Island> nvlink_islands(const Network& network);

/// "{0, 1, 2}", by rank.
std::string rank_set(const std::vector<int>& ranks);

/// Why ranks of different islands cannot talk to each other, or nothing.
std::string missing_route(const Network& network, const std::vector<Island>& islands);

}  // namespace slackline
