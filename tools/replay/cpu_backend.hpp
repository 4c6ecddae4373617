// The CPU backend: a thread a rank, real buffers, and, with a shape, ports as slow as a network's.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "backend.hpp"
#include "pacer.hpp"

namespace slackline {

struct CpuOptions {
  std::optional<Shape> shape;  ///< imitate this network
  bool record_times = false;   ///< make times() answer
  /// A run in which no rank completes anything for so long is ended with an Error{device} that says who is
  /// waited for.
  std::chrono::milliseconds timeout{30'000};
  /// Called on the thread of `rank` before it executes `step`. Tests make ranks fail with it.
  std::function<void(uint32_t rank, uint32_t step)> before_step;
};

/// Ranks are threads that execute whichever of their steps are ready, those of earlier transfers first, and
/// sleep on a futex when none is: with any number of cores, and any number of channels, somebody can go on as
/// long as the run is not over. Throws Error{input} where the shape has no route for a transfer, and
/// std::bad_alloc.
std::unique_ptr<ReplayBackend> make_cpu_backend(const ReplayJob& job, const CpuOptions& options = {});

/// Bytes that `threads` threads copy with memcpy per second, each `bytes` at a time between buffers of its own.
double measure_memcpy(unsigned threads, size_t bytes);

}  // namespace slackline
