// Blink: collectives along spanning trees packed into whatever links the job was given (Wang et al., "Blink: Fast
// and Generic Collectives for Distributed ML", MLSys 2020, arXiv 1910.04940).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// All collectives but alltoall.
/// - Ranks joined by NVLinks: trees packed into them (tree_packing.hpp), directed for one-to-many, undirected for
///   the rest, which are reduced up and broadcast down.
/// - Ranks on one NVSwitch: one-hop trees; rank i roots tree i and owns an equal share (for broadcast and reduce:
///   trees of two hops, one through each other rank).
/// - Several such islands, in one server or many: trees inside each, joined by one hop between islands (by a ring
///   of them where they share a server's PCIe). This is the three-phase protocol, its phases pipelined chunk by
///   chunk. The ranks of an island take turns as its gate, so that all its NICs are busy.
/// Options:
/// - `chunk`: "auto" (default) or the largest chunk; `max_transfers` (262144): bounds what "auto" tries. One-hop
///   trees on a single NVSwitch need no pipeline and use one chunk a tree (broadcast and reduce do pipeline);
/// - `eps` ("1/10"), `threshold` ("1/20"): of the packing (tree_packing.hpp). Between several islands the
///   threshold is at least 1/5 where the NVLinks are not the bottleneck;
/// - `root`: of an allreduce on NVLinks; by default each tree is rooted where it is shallowest;
/// - `hybrid` (false), `switch_over` ("0 ns"): broadcast, reduce and allreduce on NVLinks also use PCIe, between
///   ranks that no NVLink joins (between others transfers take the NVLink), for a share that makes both finish
///   together if PCIe starts `switch_over` late (T_dpa in the paper);
/// - `timings` (false): the wall-clock time of each stage in the notes.
extern const Algorithm blink_algorithm;

}  // namespace slackline
