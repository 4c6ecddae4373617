// What a replay came to: nccl-tests' table for people, the CSV row, the trace.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fraction.hpp"
#include "replay/backend.hpp"
#include "topology/network.hpp"

namespace slackline {

/// The scenario that a run was shaped by.
struct ShapedBy {
  std::string scenario;
  int servers = 0;
  int gpus_per_server = 0;  ///< ranks per server; 0 where servers differ
  std::vector<std::pair<int, Fraction>> slowdowns;
  Sharing sharing = Sharing::fair;
  double factor = 1;  ///< the times below have been divided by it
};

struct ReplayResult {
  std::string backend;
  std::string algorithm;  ///< the schedule's, else the file's name
  Collective collective;
  ElementType element = ElementType::float32;
  int64_t bytes = 0;              ///< of the message that was run
  size_t transfers = 0;           ///< 0: not known
  std::vector<double> times;      ///< seconds, by iteration; not empty
  int64_t wrong = 0;              ///< elements, over all iterations
  std::optional<ShapedBy> shaped;

  double median() const;
  double fastest() const;
  double slowest() const;
  /// Bytes per second, by the median; busbw as nccl-tests defines it.
  double algbw() const;
  double busbw() const;
};

/// The table's two header lines and a row for each result, each with a line end; before the second row and those after it a
/// comment that names the algorithm.
std::string replay_table(std::span<const ReplayResult> results);
/// Header and rows, each with a line end. The columns up to `status` are those of `slackline run` that apply.
std::string replay_csv(std::span<const ReplayResult> results);
/// Chrome's trace format (chrome://tracing, Perfetto): a process a rank, a thread a channel, real time.
std::string replay_trace(const Plan& plan, const std::vector<StepTimes>& times);

}  // namespace slackline
