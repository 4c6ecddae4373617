#include "replay/registry.hpp"

#include "base/error.hpp"
#include "replay/cpu_backend.hpp"
#ifdef SLACKLINE_CUDA
#include "replay/cuda_backend.hpp"
#endif
#ifdef SLACKLINE_NCCL
#include "replay/nccl_backend.hpp"
#endif

namespace slackline {

namespace {

std::unique_ptr<ReplayBackend> make_cpu(const ReplayJob& job, const BackendOptions& options) {
  if (options.ranks_per_gpu > 0) throw Error(ErrorKind::usage, "--ranks-per-gpu is for GPUs");
  CpuOptions cpu;
  cpu.shape = options.shape;
  cpu.record_times = options.record_times;
  cpu.timeout = options.timeout;
  return make_cpu_backend(job, cpu);
}

#ifdef SLACKLINE_CUDA
std::unique_ptr<ReplayBackend> make_cuda(const ReplayJob& job, const BackendOptions& options) {
  if (options.shape) throw Error(ErrorKind::usage, "--shape is for the cpu backend: GPUs cannot be paced");
  if (options.record_times)
    throw Error(ErrorKind::usage, "--trace is for the cpu backend: a CUDA graph is timed as a whole");
  return make_cuda_backend(job, {options.ranks_per_gpu});
}
#else
void require_cuda() {
  throw Error(ErrorKind::device, "this build has no CUDA backend: there was no nvcc when it was configured");
}
#endif

#ifdef SLACKLINE_NCCL
std::unique_ptr<ReplayBackend> make_nccl(const ReplayJob& job, const BackendOptions& options) {
  if (options.ranks_per_gpu > 0) throw Error(ErrorKind::usage, "--ranks-per-gpu is for the cuda backend: NCCL needs a GPU for each rank");
  if (options.shape) throw Error(ErrorKind::usage, "--shape is for the cpu backend: GPUs cannot be paced");
  if (options.record_times) throw Error(ErrorKind::usage, "--trace is for the cpu backend");
  return make_nccl_backend(job, {options.timeout});
}
#else
void require_nccl() {
  throw Error(ErrorKind::device, "this build has no NCCL backend: there was no nvcc or no nccl.h when it was configured");
}
#endif

}  // namespace

const std::vector<BackendEntry>& replay_backends() {
  static const std::vector<BackendEntry> list = {
      {"cpu", "a thread a rank", [] {}, make_cpu},
#ifdef SLACKLINE_CUDA
      {"cuda", "NVIDIA GPUs, one process", require_cuda_device, make_cuda},
#else
      {"cuda", "NVIDIA GPUs, one process (not in this build)", require_cuda, nullptr},
#endif
#ifdef SLACKLINE_NCCL
      {"nccl", "NVIDIA GPUs, a process a rank under mpirun", require_nccl, make_nccl},
#else
      {"nccl", "NVIDIA GPUs, a process a rank under mpirun (not in this build)", require_nccl, nullptr},
#endif
  };
  return list;
}

}  // namespace slackline
