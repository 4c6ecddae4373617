// What the cuda and nccl backends share: kernels that reduce, fill and check, and owners of the CUDA runtime's things.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "base/error.hpp"
#include "replay/pattern.hpp"

namespace slackline {

/// Throws Error{device} that says what was tried, unless `result` is success.
void check(cudaError_t result, const char* what);

/// Kernels on `stream`, on the current device. `bytes` are whole elements; addresses are aligned to elements.
/// to[i] = to[i] (+) from[i].
void launch_reduction(void* to, const void* from, int64_t bytes, ElementType type, Reduction reduction, cudaStream_t stream);
/// What `rank` contributes to `bytes` of the message from element `first` on.
void launch_fill(void* to, const Pattern& pattern, int rank, int64_t first, int64_t bytes, cudaStream_t stream);
/// Adds to *wrong, which is on the device, how many elements differ from what rank `from` brings, or all ranks
/// together where `from` is Content::all_ranks.
void launch_check(const void* found, const Pattern& pattern, int from, int64_t first, int64_t bytes, unsigned long long* wrong,
                  cudaStream_t stream);

/// Owners. Each belongs to the device that was current when it was made.
class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes) {
    if (bytes == 0) return;
    if (cudaMalloc(&memory_, static_cast<size_t>(bytes)) == cudaSuccess) return;
    cudaGetLastError();
    throw Error(ErrorKind::device, "a GPU has no room for another buffer of " + std::to_string(bytes) +
                                       " B; use a smaller --size or fewer ranks per GPU");
  }
  DeviceMemory(DeviceMemory&& other) noexcept : memory_(other.memory_) { other.memory_ = nullptr; }
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() { cudaFree(memory_); }
  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

class CudaStream {
 public:
  CudaStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
  CudaStream(CudaStream&& other) noexcept : stream_(other.stream_) { other.stream_ = nullptr; }
  CudaStream& operator=(CudaStream&&) = delete;
  ~CudaStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags) { check(cudaEventCreateWithFlags(&event_, flags), "creating an event"); }
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace slackline
