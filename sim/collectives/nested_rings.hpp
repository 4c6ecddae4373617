// Nested rings: a bandwidth-optimal AllReduce for servers of unequal NIC bandwidths (design/bounds.md). The rings are the one
// around the fastest servers and, inside none of the others' way, rings of one: each slower server that has time to spare.
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// Which part of the message each server sums up. With c_v a server's bandwidth over the fastest's, p servers and z_v its
/// part, v hands its data of all other parts to their owners, gets p - 1 such pieces of its own, and the same with the
/// results: it sends and receives 1 + (p-2) z_v of the message. So
///     z_v = max(0, T c_v - 1)/(p-2),   sum z_v = 1
/// loads every server for exactly T N/B, and max(T, 1/c_min) = T* = max(2(p-1) / sum c_v, 1/c_min) is the lower bound of
/// design/bounds.md. (There classes of the message go round ever smaller rings. A server's load depends only on how much of the
/// message each ring carries over its size, so that rings of one do as well, and every flow is then equally fast for all
/// of its time.) `bandwidths` are the c_v, at least two, positive; the result is in their order.
std::vector<double> nested_ring_parts(const std::vector<double>& bandwidths);

/// AllReduce for servers with equally many ranks each and NICs of any bandwidths. Under `fair` sharing and without
/// latency it takes about (k+1)/k T* with k segments. Under `exclusive` sharing a slow server's message holds up a healthy
/// port, and the schedule is valid but slower.
///
/// How the rates come about. A slow server exchanges with all others at the same time, so that its NICs are the bottleneck of
/// each of these flows, which get equal shares of them; equal is also what they need, as the parts of the fastest servers
/// are equal. The fastest servers do among themselves a ring, one flow each, which gets all the bandwidth that is left
/// over, on every link the same. Where slow servers are not few, the flows among them need less than those to the fastest,
/// and then there are several flows in parallel between two servers, in proportion to what they have to carry.
/// What arrives from different servers for one place goes to scratch space first, and is added there one after the other.
/// The message must be a multiple of (ranks per server) elements.
/// Options:
///   `segments`       from 1, or "auto" (the default), with `max_transfers` as limit (default 67108864)
///   `exchange`       "ring" (the default): the fastest servers among themselves do a ring, if they are at least three;
///                    "direct": they, too, exchange directly, in two steps for any number of servers, which suits
///                    small messages
///   `flows`          the most flows in parallel between two servers, 1 to 128, or "auto" (the default): 1 where less than half of
///                    the servers are slow, or only one, else the fastest of those tried, which are the fewest that come within 5 %, 2 %, .. of
///                    loads and flows in proportion
extern const Algorithm nested_rings_algorithm;

}  // namespace slackline
