// What an executor of plans is. Backends are created by their own factories and used through this alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "element.hpp"
#include "plan.hpp"

namespace slackline {

/// What to run.
struct ReplayJob {
  std::shared_ptr<const Plan> plan;
  ElementType element = ElementType::float32;
};

/// When a step that moved data began and ended, in nanoseconds since the run began; and, in shaped runs, when its
/// data were due to arrive: what `end_ns` would be, with the latency, had no rank ever woken up late.
struct StepTimes {
  uint32_t step = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t due_ns = 0;
};

/// Holds the buffers of one job. Throws Error{device} where the device fails or a rank stops.
class ReplayBackend {
 public:
  virtual ~ReplayBackend() = default;
  /// Lines about the machine, for people.
  virtual std::vector<std::string> notes() const = 0;
  /// Poisons all buffers, brings in what the ranks contribute (`seed` varies it), executes the plan once and
  /// returns how long the execution took, from the start of the first rank to the end of the last, in seconds.
  virtual double run(uint32_t seed) = 0;
  /// Compares every element that the collective asks for, of every rank, with what it must be after the last
  /// run; returns how many differ.
  virtual int64_t wrong() = 0;
  /// Step times of the last run; empty where they were not asked for or are not to be had.
  virtual std::vector<StepTimes> times() const = 0;

  /// False in a process for which another prints and writes. What run(), wrong() and run_reference() return is for all ranks,
  /// in all processes.
  virtual bool reports() const { return true; }
  /// Who else implements the collective on these buffers, e.g. "ncclAllReduce"; empty: nobody.
  virtual std::string_view reference() const { return {}; }
  /// run() by the reference instead of the plan.
  virtual double run_reference(uint32_t) { return 0; }
};

}  // namespace slackline
