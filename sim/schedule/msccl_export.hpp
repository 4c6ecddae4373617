// Schedules as MSCCL programs that executors take: a transfer becomes a send in one block and a receive in another,
// what it waits for becomes flags between the blocks of a GPU.
#pragma once

#include "schedule/msccl.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

struct MscclExportOptions {
  /// Whose limits and whose name for reduce_scatter; never null.
  const MscclExecutor* executor = &msccl_executors()[1];
  MscclProtocol protocol = MscclProtocol::simple;
  int64_t min_bytes = 0, max_bytes = 0;  ///< for which the file is used; 0: no limit
};

/// Every rank has a block for every peer and channel that it sends to, one for every that it receives from, and one
/// for every channel's local copies; channels are numbered through, as long as they are 32. A block that
/// would exceed the executor's steps goes on in another, on a channel of its own. The order of a channel's sends and receives is kept by waiting where blocks differ.
///
/// What a transfer waits for is taken over where the earlier transfer touches one of its two ranks. Throws
/// Error{input} where it touches neither (MSCCL has no way to say that), where the executor's limits do not
/// suffice (which one, and what would help), and for a schedule whose indices are out of range.
///
/// The result cannot deadlock, whatever its FIFOs hold: every step waits only for steps of transfers that stand
/// earlier in the list.
MscclProgram export_msccl(const Schedule& schedule, const MscclExportOptions& options);

}  // namespace slackline
