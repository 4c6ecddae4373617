// See cuda_kernels.hpp. The one file that nvcc compiles; it can do neither fmt nor JSON.
#include "replay/cuda_kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "replay/contents.hpp"

namespace slackline {

namespace {

// Reductions of 32-bit words: a float, an integer, or two 16-bit floats.
template <class To, class From>
__device__ To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

template <class Number>
__device__ Number combine(Number a, Number b, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return a + b;
    case Reduction::prod: return a * b;
    case Reduction::min: return b < a ? b : a;
    default: return b > a ? b : a;
  }
}
template <class Pair>
__device__ Pair combine_pair(Pair a, Pair b, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return __hadd2(a, b);
    case Reduction::prod: return __hmul2(a, b);
    case Reduction::min: return __hmin2(a, b);
    default: return __hmax2(a, b);
  }
}

template <ElementType type, Reduction reduction>
__device__ uint32_t combine_words(uint32_t a, uint32_t b) {
  if constexpr (type == ElementType::float32) {
    return reinterpret<uint32_t>(combine(reinterpret<float>(a), reinterpret<float>(b), reduction));
  } else if constexpr (type == ElementType::float16) {
    return reinterpret<uint32_t>(combine_pair(reinterpret<__half2>(a), reinterpret<__half2>(b), reduction));
  } else if constexpr (type == ElementType::bfloat16) {
    return reinterpret<uint32_t>(combine_pair(reinterpret<__nv_bfloat162>(a), reinterpret<__nv_bfloat162>(b), reduction));
  } else if constexpr (reduction == Reduction::sum || reduction == Reduction::prod) {
    return combine(a, b, reduction);  // unsigned, which wraps around
  } else {
    return static_cast<uint32_t>(combine(static_cast<int32_t>(a), static_cast<int32_t>(b), reduction));
  }
}

// to[i] (+)= from[i]. 16 bytes at a time where both sides can be aligned together, else element by element.
template <ElementType type, Reduction reduction>
__global__ void reduce_kernel(void* to_bytes, const void* from_bytes, int64_t bytes) {
  using Stored = std::conditional_t<element_bytes(type) == 2, uint16_t, uint32_t>;
  auto* to = static_cast<Stored*>(to_bytes);
  const auto* from = static_cast<const Stored*>(from_bytes);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(Stored));
  const int64_t thread = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t threads = gridDim.x * static_cast<int64_t>(blockDim.x);
  const auto to_address = reinterpret_cast<uintptr_t>(to), from_address = reinterpret_cast<uintptr_t>(from);
  constexpr int64_t lane = 16 / sizeof(Stored);
  int64_t head = static_cast<int64_t>((16 - to_address % 16) % 16 / sizeof(Stored));
  if (head > count || to_address % 16 != from_address % 16) head = count;
  const int64_t vectors = (count - head) / lane;
  auto* to_vectors = reinterpret_cast<uint4*>(to + head);
  const auto* from_vectors = reinterpret_cast<const uint4*>(from + head);
  for (int64_t i = thread; i < vectors; i += threads) {
    uint4 a = to_vectors[i];
    const uint4 b = from_vectors[i];
    a.x = combine_words<type, reduction>(a.x, b.x);
    a.y = combine_words<type, reduction>(a.y, b.y);
    a.z = combine_words<type, reduction>(a.z, b.z);
    a.w = combine_words<type, reduction>(a.w, b.w);
    to_vectors[i] = a;
  }
  const int64_t rest = count - vectors * lane;  // the head and the tail
  for (int64_t i = thread; i < rest; i += threads) {
    const int64_t place = i < head ? i : i + vectors * lane;
    to[place] = static_cast<Stored>(combine_words<type, reduction>(to[place], from[place]));
  }
}

template <class Stored>
__global__ void fill_kernel(Stored* to, Pattern pattern, uint32_t rank, int64_t first, int64_t count) {
  const int64_t threads = gridDim.x * static_cast<int64_t>(blockDim.x);
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += threads)
    to[i] = static_cast<Stored>(pattern.input(rank, first + i));
}

template <class Stored>
__global__ void check_kernel(const Stored* found, Pattern pattern, int from, int64_t first, int64_t count,
                             unsigned long long* wrong) {
  const int64_t threads = gridDim.x * static_cast<int64_t>(blockDim.x);
  unsigned long long differing = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += threads) {
    const uint32_t expected = from == Content::all_ranks ? pattern.reduced(first + i)
                                                         : pattern.input(static_cast<uint32_t>(from), first + i);
    differing += found[i] != static_cast<Stored>(expected);
  }
  if (differing > 0) atomicAdd(wrong, differing);
}

constexpr int block_threads = 256;
unsigned blocks_for(int64_t work_items) {
  return static_cast<unsigned>(std::clamp<int64_t>((work_items + block_threads - 1) / block_threads, 1, 1 << 16));
}

template <ElementType type>
void launch_typed_reduction(void* to, const void* from, int64_t bytes, Reduction reduction, cudaStream_t stream) {
  const unsigned blocks = blocks_for(bytes / 16);
  switch (reduction) {
    case Reduction::sum: reduce_kernel<type, Reduction::sum><<<blocks, block_threads, 0, stream>>>(to, from, bytes); break;
    case Reduction::prod: reduce_kernel<type, Reduction::prod><<<blocks, block_threads, 0, stream>>>(to, from, bytes); break;
    case Reduction::min: reduce_kernel<type, Reduction::min><<<blocks, block_threads, 0, stream>>>(to, from, bytes); break;
    case Reduction::max: reduce_kernel<type, Reduction::max><<<blocks, block_threads, 0, stream>>>(to, from, bytes); break;
  }
  check(cudaGetLastError(), "launching a reduction");
}

}  // namespace

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // forget it, unless it is one that sticks
  throw Error(ErrorKind::device, std::string(what) + ": " + cudaGetErrorString(result));
}

void launch_reduction(void* to, const void* from, int64_t bytes, ElementType type, Reduction reduction, cudaStream_t stream) {
  switch (type) {
    case ElementType::float32: return launch_typed_reduction<ElementType::float32>(to, from, bytes, reduction, stream);
    case ElementType::float16: return launch_typed_reduction<ElementType::float16>(to, from, bytes, reduction, stream);
    case ElementType::bfloat16: return launch_typed_reduction<ElementType::bfloat16>(to, from, bytes, reduction, stream);
    case ElementType::int32: return launch_typed_reduction<ElementType::int32>(to, from, bytes, reduction, stream);
  }
}

void launch_fill(void* to, const Pattern& pattern, int rank, int64_t first, int64_t bytes, cudaStream_t stream) {
  const int64_t count = bytes / element_bytes(pattern.type());
  const unsigned blocks = blocks_for(count);
  const auto from = static_cast<uint32_t>(rank);
  if (element_bytes(pattern.type()) == 2)
    fill_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<uint16_t*>(to), pattern, from, first, count);
  else
    fill_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<uint32_t*>(to), pattern, from, first, count);
  check(cudaGetLastError(), "launching the fill");
}

void launch_check(const void* found, const Pattern& pattern, int from, int64_t first, int64_t bytes, unsigned long long* wrong,
                  cudaStream_t stream) {
  const int64_t count = bytes / element_bytes(pattern.type());
  const unsigned blocks = blocks_for(count);
  if (element_bytes(pattern.type()) == 2)
    check_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<const uint16_t*>(found), pattern, from, first, count, wrong);
  else
    check_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<const uint32_t*>(found), pattern, from, first, count, wrong);
  check(cudaGetLastError(), "launching the check");
}

}  // namespace slackline
