// What an MSCCL algorithm does on an executor: whether it is taken, hangs, races or computes something else than
// its collective, in which order of severity and above which message size.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "schedule/msccl.hpp"

namespace slackline {

/// An executor of MSCCL algorithms: its limits, and how it cuts a step into calls (design/formats.md 1.1, 1.7,
/// from the executors' sources).
struct MscclExecutor {
  std::string_view name;
  std::string_view summary;
  int max_steps = 0;       ///< a block
  int max_blocks = 0;      ///< a GPU
  int max_dep_block = 0;   ///< the highest block id that a step can wait for
  std::span<const std::string_view> required;     ///< attributes of <algo>
  std::span<const std::string_view> collectives;  ///< the names of `coll`
  int64_t default_max_bytes = 0;                  ///< where maxBytes is missing; 0: no limit
};

/// msccl (microsoft/msccl), azure (Azure/msccl-executor-nccl), rccl (ROCm/rccl).
std::span<const MscclExecutor> msccl_executors();
std::span<const std::string_view> msccl_executor_names();
/// Throws std::out_of_range for an unknown name.
const MscclExecutor& msccl_executor(std::string_view name);

/// Chunk bytes that one primitive call can carry: Simple buffer/8*4, LL buffer/16, LL128 buffer/8*15/16, where the
/// buffer is the executor's default (4 MiB, 512 KiB, 4915200 bytes) if `buffer` is 0.
Bytes msccl_call_bytes(MscclProtocol protocol, Bytes buffer);
/// Calls that a connection's FIFO holds inside a node: 2 for Simple, 8 for LL and LL128; twice that between nodes.
int msccl_fifo_calls(MscclProtocol protocol, bool between_nodes);
/// Chunks that a call moves at most, 1 to 71, for messages of `size` bytes in `chunks` chunks.
int msccl_chunks_per_call(MscclProtocol protocol, Bytes buffer, Bytes size, int chunks);

struct MscclCheckOptions {
  const MscclExecutor* executor = nullptr;  ///< null: all; what only some refuse is then a warning
  int ranks_per_node = 0;                   ///< 0: not known
  Bytes buffer;                             ///< of a connection; 0: the executor's default
  std::optional<Bytes> size;                ///< as the executor counts it (count * size of all ranks' parts)
  Bytes element{4};
  int multiprocessors = 108;  ///< of the GPU (A100: 108)
  size_t max_per_rule = 5;    ///< findings of one rule that are told apart
};

/// How a run ends with FIFOs of limited size.
enum class MscclProgress : uint8_t {
  unknown,         ///< the structure is too broken to say
  completes,       ///< for every message size
  completes_small, ///< up to MscclFifoVerdict::largest_safe_size
  needs_capacity,  ///< only with FIFOs of at least MscclFifoVerdict::needed_calls calls
  never,           ///< not even with unlimited FIFOs
};
std::string_view to_string(MscclProgress progress);

struct MscclFifoVerdict {
  MscclProgress progress = MscclProgress::unknown;
  /// completes_small: runs that move fewer chunks a call than this hang.
  int least_chunks_per_call = 1;
  std::optional<Bytes> largest_safe_size;
  int64_t needed_calls = 0;        ///< needs_capacity: inside a node; twice as many between nodes
  std::vector<std::string> waits;  ///< who waits for whom where it hangs
};

/// What the buffers hold at the end.
enum class MscclResult : uint8_t {
  unknown,   ///< not checked: the structure is broken, it hangs, or the collective has no rule
  right,     ///< proven, under every interleaving
  race,      ///< depends on timing
  wrong,     ///< wrong under every interleaving, or reads what nobody wrote
};
std::string_view to_string(MscclResult result);

struct MscclReport {
  std::vector<Finding> findings;  ///< errors first, then warnings, then what is worth knowing
  bool structure_ok = false;
  std::array<bool, 3> refused{};  ///< by each of msccl_executors()
  MscclFifoVerdict one_node;      ///< all ranks in one node, or the map that the options give
  MscclFifoVerdict all_nodes;     ///< every rank in a node of its own, or the map that the options give
  MscclResult in_place = MscclResult::unknown, out_of_place = MscclResult::unknown;
  /// Which calls the file is for; without `outofplace`, the one that `inplace` says.
  bool for_in_place = false, for_out_of_place = false;
  int root = -1;                  ///< of broadcast and reduce, as found

  /// In a word or a few what comes of it on msccl_executors()[executor]: "refused"; "broken" (the structure says nothing
  /// that can be run); "never ends"; "hangs"; "hangs in one node"; "wrong"; "race"; "right"; "right up to N bytes [in one node]"; "runs" where what it
  /// computes has no rule.
  std::string verdict(size_t executor) const;
};

/// The findings' rules are described in schedules/README.md. Takes the program by value: GPUs and blocks are
/// put in the order of their ids. `reading` is what read_msccl_xml() found.
MscclReport check_msccl(MscclProgram program, const MscclCheckOptions& options, std::vector<Finding> reading = {});

/// The program as a schedule, in place where it is meant to be used so, with the root that makes it right if it
/// has one. Whether it is right is for validate() to say; throws Error{input} with the first finding where the
/// structure is broken or it never ends, since then there is no schedule. Through FIFOs (lower_msccl()), but direct
/// (lower_msccl_directly()) where that is the same.
Schedule schedule_from_msccl(const MscclProgram& program);

/// The formats of schedule_io.hpp: reads in any dialect; writes for the azure executor with protocol Simple.
Schedule parse_schedule_msccl(std::string_view text, const std::string& file);
void write_schedule_msccl(const Schedule& schedule, std::ostream& stream);

}  // namespace slackline
