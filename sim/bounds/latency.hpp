// The bound that remains for the smallest messages: what one rank contributes must get to another.
#pragma once

#include "bounds/bounds.hpp"

namespace slackline {

/// The longest, over pairs of ranks one of which needs something of the other, of the shortest way
/// between them: latencies of links, and the message overhead once for every rank that sends on the
/// way.
///
/// ceil(log2 p) latencies, the usual addition for one-port ranks, would be wrong here: latency does
/// not occupy a port, so a rank can send to all others before its first message has arrived. On
/// large networks not all pairs are tried, which can only make the bound smaller.
void add_latency(const BoundRequest& request, std::vector<Bound>& bounds);

}  // namespace slackline
