// What ICCL (also VCCL) makes of NIC failures: a ring whose channels on a dead NIC fail over to a backup NIC, which then
// carries two channels at once while the others carry one (arXiv 2510.00991).
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// allreduce, reduce_scatter and allgather. T = ceil(l) * T0, with l the largest slowdown and T0 the ring without
/// failures (design/baselines.md: about 2 T0 for the channels that share the backup NIC; the collective ends with them).
///
/// The model: a server with the part 1/l of its NICs left spreads the lost NICs' channels over the living ones as evenly
/// as whole channels allow; then some NIC carries ceil(l) of them, and all rings wait for it, though the other NICs have
/// time to spare. A Network knows a server's NICs by their sum only, so that spare time is filled: at a straggler every
/// message is preceded by a copy of (ceil(l) - l)/l of its bytes to scratch space. ICCL's retries before the
/// fail-over (about 10 s without any traffic) are left out: this is the state after them.
/// Options: `rings`, as for the ring.
extern const Algorithm iccl_algorithm;

}  // namespace slackline
