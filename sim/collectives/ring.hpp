// The ring: reduce-scatter and allgather around all ranks, as NCCL's ring algorithm; and the means to make rings
// that other algorithms share.
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// allreduce, reduce_scatter and allgather. T = 2(p-1)/p N/B for an AllReduce (half of it for the others), times
/// the largest slowdown where a rank is slow; B is the NIC bandwidth of a whole server. Where a server has several
/// ranks so many rings run side by side, each on its part of the message, and each leaves the server at another rank,
/// so that all NICs are used (NCCL's channels).
/// Options: `rings`, 1 to 64; the default is the number of ranks per server, 1 where there is one server only.
extern const Algorithm ring_algorithm;

/// The orders of the ranks in `rings` rings: all pass the servers in order; ring c enters a server at its rank c + 1
/// and leaves it at its rank c (modulo the number of ranks of the server).
std::vector<std::vector<uint32_t>> ring_orders(const Network& network, int rings);
/// The default of option `rings`.
int default_rings(const Network& network);
/// The option `rings`.
int rings_option(const GenerateRequest& request);
/// Why there is no ring for the request's collective, or nothing.
std::optional<std::string> no_ring_for(const GenerateRequest& request);

/// Emits the collective around `orders`, ring c on channel c; part q of the message is cut into orders.size()
/// pieces, one a ring. `idle(src, dst)` says, in pieces, how much longer than its bytes a message occupies the
/// ports; such messages are preceded by a copy of so much of the piece into scratch space.
Schedule ring_schedule(const Collective& collective, const std::vector<std::vector<uint32_t>>& orders,
                       const std::function<Fraction(uint32_t src, uint32_t dst)>& idle = {});

/// The transfers alone, without idle time: unit q * orders.size() + c of ranks * orders.size() is ring c's piece of part q,
/// and a chunk of its own.
void emit_ring(const Collective& collective, const std::vector<std::vector<uint32_t>>& orders, TransferSink& sink);

}  // namespace slackline
