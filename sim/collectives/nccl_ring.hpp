// The baseline that Blink is compared with: NCCL's rings, made of the NVLinks that the job was given.
#pragma once

#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/islands.hpp"

namespace slackline {

/// Directed rings of ranks, all of equal weight.
struct NcclRings {
  std::vector<std::vector<int>> orders;  ///< each rank sends to the next, the last to the first
  std::string notes;                     ///< what they are made of
};

/// In one server: edge-disjoint Hamiltonian cycles of whole NVLinks, each used in both directions (with two
/// ranks: one ring for each link); one ring through an NVSwitch; or, where there is no cycle, one ring in rank order over
/// PCIe. Over several servers: each server is entered at one rank and left at the one before it in its cycle, and
/// there are as many rings as the largest server has ranks, so that all take turns as entrance; both directions.
NcclRings nccl_rings(const Network& network, const std::vector<Island>& islands);

/// broadcast, reduce, allreduce, allgather, reduce_scatter along nccl_rings(). Options: `chunk`, `max_transfers`
/// as blink's, of broadcast and reduce, which are pipelined chains; in the others each rank sends one chunk a step.
extern const Algorithm nccl_ring_algorithm;

}  // namespace slackline
