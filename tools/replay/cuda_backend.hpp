// The CUDA backend: ranks on NVIDIA GPUs, all in one process, the plan captured in one CUDA graph.
#pragma once

#include <memory>

#include "replay/backend.hpp"

namespace slackline {

struct CudaOptions {
  int ranks_per_gpu = 0;  ///< at most so many ranks share a GPU; 0: as many as must
};

/// Throws Error{device} with one line that says what is missing: driver, a new enough driver, or a GPU.
void require_cuda_device();

/// Ranks go to the GPUs round robin. Each rank has a stream for each channel, on which its receives run in order;
/// everything else that steps wait for is an event. Throws Error{device}, also where a GPU has too little
/// memory or there are too few GPUs.
std::unique_ptr<ReplayBackend> make_cuda_backend(const ReplayJob& job, const CudaOptions& options = {});

}  // namespace slackline
