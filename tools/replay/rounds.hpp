// A plan as programs for ranks that share no memory and no events and exchange messages in groups, as NCCL's ncclSend and
// ncclRecv between ncclGroupStart and ncclGroupEnd: numbered rounds, the same for all ranks.
#pragma once

#include <vector>

#include "plan.hpp"

namespace slackline {

/// `bytes` go to, or come from, `peer`. Received bytes that are to be reduced are put into the rank's staging
/// buffer (`staged`), where `buffer` means nothing.
struct Message {
  uint32_t peer = 0;
  bool send = false;
  bool staged = false;
  Buffer buffer = Buffer::data;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A copy or reduction within the rank, from one of its buffers or (`staged`) from its staging buffer.
struct LocalWork {
  bool reduce = false;
  bool staged = false;
  Buffer source = Buffer::data;
  Buffer destination = Buffer::data;
  Piece piece;
};

/// All messages are exchanged at once, in one group; then comes the work, in order. A round begins when the rank's round before
/// it has ended; nothing else is waited for.
struct Round {
  uint32_t number = 0;
  std::vector<Message> messages;
  std::vector<LocalWork> work;
};

struct RankRounds {
  std::vector<Round> rounds;  ///< those in which the rank does something, by number
  int64_t staging_bytes = 0;
};

/// What `rank` does. Let a transfer's round be the one after those of all steps that its send or its receive waits for, and a local
/// step's the last of those. Then
///  - both sides have a transfer in the same round, and messages from one rank to another within a round in the same order,
///    which is how NCCL matches them; and as all ranks go through rounds by number, none can wait for a message that
///    waits for another of a later round: there is no deadlock;
///  - accesses to a rank's memory that the schedule orders are in order, for they are all made by that rank's own rounds.
///    Ranks need not hear of each other's progress.
RankRounds rounds_of(const Plan& plan, int rank);

}  // namespace slackline
