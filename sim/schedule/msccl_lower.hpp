// MSCCL programs as schedules: a connection's FIFO becomes scratch space at the receiver, a send a transfer into it,
// a receive a local copy or reduction out of it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/msccl.hpp"
#include "schedule/msccl_machine.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

/// The collective of a program's `coll`, or nothing for those without a rule (custom, send, recv, alltoallv).
std::optional<CollectiveType> msccl_collective(std::string_view name);

/// Where chunks of a rank's buffer lie in a schedule's; in place, input and output are parts of one. `part` is a rank's
/// share of the message, in the same unit as `offset` and `count`.
Chunk place_msccl_chunk(std::optional<CollectiveType> type, bool in_place, int64_t part, uint32_t rank, MscclBuffer buffer,
                        int64_t offset, int64_t count);

/// Chunks of the input and output buffers of a rank that exist; scratch is as long as it is declared.
struct MscclExtent {
  int64_t input = 0, output = 0;
};
/// For collectives without a rule, the declared lengths.
MscclExtent msccl_extent(const MscclProgram& program, const MscclGpu& gpu);

struct MscclLowerOptions {
  bool in_place = true;
  int root = -1;
  /// Take dst instead of src as the local operand of rrc, rrs and rrcs: what msccl-tools means by files that
  /// name the remote source there.
  bool destination_is_operand = false;
  /// Do the <copy> elements, which no executor does.
  bool copies = false;
};

struct LoweredMscclProgram {
  Schedule schedule;
  /// For every transfer the block (index into MscclMachine::blocks()) and its step; MscclMachine::none for a <copy>.
  std::vector<uint32_t> block, step;
};

/// The program must complete with unlimited FIFOs, matching sends and receives must have the same count, all
/// chunks must be inside their buffers, and `chunks` must be a multiple of the ranks where the collective has
/// parts. Every message has scratch space of its own, so races and contents hold for FIFOs of any size.
///
/// The order that it allows is that of the executors: a block's steps one after the other; a message is received
/// after it has been sent; a step that waits begins after the posting step has ended (design/formats.md 1.9).
LoweredMscclProgram lower_msccl(const MscclMachine& machine, const MscclLowerOptions& options);

/// The program as direct transfers, without FIFOs: a send and its receive are one transfer, which waits for what both
/// wait for. Nothing where that changes more than it must: where a step forwards what it receives, where a GPU's sends or
/// receives of one channel number are not in a fixed order (a schedule's channel would order them), and where blocks send
/// ahead of each other's receives. What export_msccl() makes comes back this way, in its old channels.
std::optional<Schedule> lower_msccl_directly(const MscclMachine& machine, const MscclLowerOptions& options);

}  // namespace slackline
