// MSCCL++ execution plans (JSON) as microsoft/mscclpp's executor sees them: GPUs with thread blocks that run operations on
// each other's memory. Reading them, in all generations of the format; what they do is for mscclpp_check.hpp to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/msccl.hpp"
#include "schedule/validate.hpp"

namespace slackline {

/// What an operation does (design/formats.md 2.4); `(+)` is the user's reduction. A packet carries data and a flag, so
/// that who reads it waits until it is there.
enum class MscclppKind : uint8_t {
  nop,                ///< the threads of the block wait for each other
  barrier,            ///< so do `barrier_blocks` blocks of the GPU
  copy,               ///< local dst0 = src0
  put,                ///< remote dst_i = local src_i; maybe `with_signal`, `with_flush`
  get,                ///< local dst_i = remote src_i
  signal,             ///< +1 on each channel
  wait,               ///< takes 1 on each channel, and blocks until there is one
  flush,              ///< waits until the puts on the channels have been read from here
  reduce,             ///< dst0 = src0 (+) src1 ..., also written to dst1 ...
  put_packets,        ///< packets at dst_i = src_i
  forward_packets,    ///< packets at dst_i = packets at src0
  pack,               ///< packets at dst0 = src0
  unpack,             ///< dst0 = packets at src0
  reduce_packets,     ///< dst0 = src0 (+) packets at src1 ..., also written as packets to dst1 ...
  load_reduce_store,  ///< dst0 of all ranks of a group = sum of src0 of all ranks of a group
  multi_store,        ///< dst0 of all ranks of a group = src0
  acquire, release,   ///< semaphores of the GPU
  pipeline,           ///< its operations, again and again, each time on the next `unit_bytes` of their chunks
};
enum class MscclppLink : uint8_t { none, memory, port, multicast };

/// Chunks of a buffer.
struct MscclppRegion {
  int32_t rank = -1;   ///< whose; -1: of all ranks of `group`
  int32_t group = -1;  ///< index into MscclppPlan::groups
  MscclBuffer buffer = MscclBuffer::input;
  int64_t index = 0, size = 0;
  bool packets = false;
};

struct MscclppOp {
  MscclppKind kind = MscclppKind::nop;
  std::string name;  ///< as written
  MscclppLink link = MscclppLink::none;
  std::vector<MscclppRegion> sources, destinations;
  std::vector<uint32_t> channels;    ///< indices into MscclppGpu::channels
  std::vector<uint32_t> semaphores;  ///< indices into MscclppGpu::semaphores
  int64_t barrier = -1, barrier_blocks = 0;
  int32_t part = 0, parts = 1;  ///< `tbg_info`: does this of so many equal parts of its chunks
  bool with_signal = false, with_flush = false;
  int64_t unit_bytes = 0, pipeline_chunks = 0;
  std::vector<MscclppOp> inner;
  std::string where;  ///< "plan.json: /gpus/0/threadblocks/1/ops/3"
};

struct MscclppBlock {
  std::vector<MscclppOp> ops;
};

/// A rank's end of a channel. The n-th channel from a to b of a kind has the n-th from b to a as its other end.
struct MscclppChannel {
  MscclppLink link = MscclppLink::memory;
  uint32_t peer = 0, number = 0;
};

struct MscclppGpu {
  int64_t input_chunks = 0, output_chunks = 0, scratch_chunks = 0;
  std::vector<MscclppChannel> channels;
  std::vector<int64_t> semaphores;  ///< initial values
  std::vector<MscclppBlock> blocks;
};

/// Ranks whose buffers a switch can write and add up together.
struct MscclppGroup {
  MscclBuffer buffer = MscclBuffer::input;
  std::vector<uint32_t> ranks;
};

struct MscclppPlan {
  std::string file, name, collective;
  bool packets = false;  ///< protocol LL: packets, and scratch space of twice the length
  bool in_place = false, double_scratch = false, reuse_scratch = false;
  int64_t alignment = 16;
  uint64_t least_bytes = 0, most_bytes = UINT64_MAX;
  std::vector<MscclppGroup> groups;
  std::vector<MscclppGpu> gpus;

  size_t ops() const;
};

/// True where `text` looks like an MSCCL++ plan or a part of one.
bool looks_like_mscclpp_plan(std::string_view text);

/// Reads a plan of any generation: operations with `o_cids` and `i_cids` (2024), the drafts of the language that followed,
/// and those with `src_buff` and `dst_buff` (since 2025). Throws Error{input}, at `file: /pointer`, for what is no JSON,
/// for what has no meaning (an operation that no executor has, a channel or buffer that the block lacks), and for templates
/// of plans. Why the executor of today would not load it is appended to `findings`, with rule `loader`.
MscclppPlan read_mscclpp_plan(std::string_view text, const std::string& file, std::vector<Finding>& findings);

}  // namespace slackline
