// NCCL's double binary trees: two trees, each for half of the message; the inner nodes of one are leaves of the
// other (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009).
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/tree_packing.hpp"

namespace slackline {

/// The in-order binary tree over 0..n-1: a number's height is that of its lowest set bit (0 is the root). Leaves
/// are the odd numbers.
Tree binary_tree(int n);
/// Its complement: the tree mirrored (n even) or shifted by one (n odd), so that its inner nodes are the leaves of
/// the first.
Tree complementary_binary_tree(int n);

/// allreduce: reduced up and broadcast down both trees at once. Nodes are the servers, or the ranks where there is
/// one server. Inside a server the ranks form a chain (along NVLinks if they can) whose head is the node; the ranks
/// take turns as heads, so that all NICs are busy. Options: `chunk`, `max_transfers` as blink's.
extern const Algorithm nccl_tree_algorithm;

}  // namespace slackline
