// What an MSCCL++ plan does on its executor: whether it loads, ends, races or computes something else than its collective.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/msccl_check.hpp"
#include "schedule/mscclpp.hpp"
#include "schedule/schedule.hpp"

namespace slackline {

struct MscclppCheckOptions {
  bool executor = false;        ///< that today's executor does not load it is an error
  std::optional<Bytes> size;    ///< as the executor counts it: of the input, or with an AllGather of the output
  int multiprocessors = 108;    ///< of the GPU (A100: 108)
  size_t max_per_rule = 5;      ///< findings of one rule that are told apart
};

struct MscclppReport {
  std::vector<Finding> findings;  ///< errors first, then warnings, then what is worth knowing
  bool refused = false;           ///< by today's executor
  bool structure_ok = false;
  bool ends = false;
  /// In place or out of place, as the plan says it is meant; unknown where its collective has no rule.
  MscclResult result = MscclResult::unknown;
  int root = -1;
  /// The plan as transfers; nothing where it has none (structure, deadlock).
  std::optional<Schedule> schedule;

  /// "refused", "broken", "never ends", "wrong", "race", "right", or "runs" where what it computes has no rule.
  std::string verdict() const;
  /// The same without what today's executor would not load.
  std::string contents() const;
};

/// Rules: schedules/README.md. `reading` is what read_mscclpp_plan() found.
///
/// The order that counts as given, from the executor's kernel: a block's operations between two `nop` (or `barrier`) overlap,
/// but for what one thread does, which is the same part of chunks of the same size; a signal is sent, and a wait ends, for
/// one thread, until the next nop; puts on a port channel are done by the host some time after, in order, and a signal on the
/// channel follows them; a packet is read after it has been written. The n-th wait on a channel, or acquisition
/// of a semaphore, follows as many signals as that takes at least. Kernels of one rank follow each other, and between them the
/// caller reads what it got and writes what it brings.
MscclppReport check_mscclpp(const MscclppPlan& plan, const MscclppCheckOptions& options, std::vector<Finding> reading = {});

/// The format of schedule_io.hpp. Whether it is right is for validate() to say; throws Error{input} with the first finding
/// where the structure is broken or it never ends.
Schedule parse_mscclpp_plan(std::string_view text, const std::string& file);

}  // namespace slackline
