// The double binary tree: two complementary trees, each for half of the message, pipelined, as NCCL's tree algorithm
// (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// allreduce, reduce and broadcast. Every rank is an inner node of at most one of the two trees, so that over all no
/// rank receives or sends more than N bytes up or down the trees: an allreduce tends to 2 N/B, a reduce or broadcast to
/// N/B, in a logarithmic number of latencies. Where a server has several ranks, the trees span the servers, one pair of
/// trees per rank of a server with that rank as its head, and chains lead through the servers.
/// Options: `segments`, the number of pieces of each tree's part that follow each other, or "auto" (the default), with
/// `max_transfers` as limit (default 67108864).
extern const Algorithm tree_algorithm;

}  // namespace slackline
