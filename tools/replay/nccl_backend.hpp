// The NCCL backend: a process a rank under MPI, each with a GPU of its own, on one machine or several.
#pragma once

#include <chrono>
#include <memory>

#include "replay/backend.hpp"

namespace slackline {

struct NcclOptions {
  /// A run that takes longer is ended with an Error{device}.
  std::chrono::milliseconds timeout{30'000};
};

/// Throws Error{device} with one line that says what is missing: driver, GPU, libnccl.so.2 or an MPI library.
void require_nccl();

/// Executes the plan in rounds (rounds.hpp): a group of ncclSend and ncclRecv each, then kernels of ours; a stream a rank. Its reference
/// for an AllReduce is ncclAllReduce. To be called by all processes alike. Throws Error{usage} where there are more or fewer
/// processes than ranks, and Error{device}.
std::unique_ptr<ReplayBackend> make_nccl_backend(const ReplayJob& job, const NcclOptions& options = {});

}  // namespace slackline
