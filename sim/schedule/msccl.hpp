// MSCCL XML algorithms as their executors see them: GPUs with thread blocks that run steps. Reading and writing
// the XML; what it means is for msccl_check.hpp to say.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "schedule/validate.hpp"

namespace slackline {

/// What a step does, in the names of the XML; `(+)` is the user's reduction.
///
/// | op | effect |
/// |---|---|
/// | s | sends src |
/// | r | dst = received |
/// | rcs | dst = received, and sends it on |
/// | rrs | sends received (+) src, and keeps nothing |
/// | rrc | dst = received (+) src |
/// | rrcs | dst = received (+) src, and sends it on |
/// | cpy | dst = src |
/// | re | dst = dst (+) src |
/// | nop | waits only |
enum class MscclOp : uint8_t { s, r, rcs, rrs, rrc, rrcs, cpy, re, nop };
enum class MscclBuffer : uint8_t { input, output, scratch };
enum class MscclProtocol : uint8_t { simple, ll, ll128 };
/// Which rules the reader holds a file to; `any` takes what any of the others takes.
enum class MscclDialect : uint8_t { any, executor, msccl, legacy_taccl };

std::string_view to_string(MscclOp op);
std::string_view to_string(MscclBuffer buffer);  ///< "i", "o", "s"
std::string_view to_string(MscclProtocol protocol);
std::span<const std::string_view> msccl_dialect_names();
/// Throws std::out_of_range for an unknown name.
MscclDialect msccl_dialect(std::string_view name);

inline bool receives(MscclOp op) { return op >= MscclOp::r && op <= MscclOp::rrcs; }
inline bool sends(MscclOp op) {
  return op == MscclOp::s || op == MscclOp::rcs || op == MscclOp::rrs || op == MscclOp::rrcs;
}
/// Reads src of the own GPU.
inline bool reads_source(MscclOp op) {
  return op == MscclOp::s || (op >= MscclOp::rrs && op <= MscclOp::re);
}
/// Writes dst of the own GPU.
inline bool writes_destination(MscclOp op) {
  return op != MscclOp::s && op != MscclOp::rrs && op != MscclOp::nop;
}

struct MscclStep {
  MscclOp op = MscclOp::nop;
  MscclBuffer src_buffer = MscclBuffer::input, dst_buffer = MscclBuffer::input;
  bool posts = false;               ///< `hasdep`: tells waiting blocks that it is done
  int32_t src_offset = 0, dst_offset = 0, count = 0;  ///< in chunks
  int32_t dep_block = -1, dep_step = -1;              ///< -1: waits for nobody
  int32_t declared = 0;             ///< the attribute `s`
  int32_t line = 0;                 ///< 0 when it was not read from a file
};

struct MscclBlock {
  int32_t id = 0;
  int32_t send = -1, receive = -1;  ///< peer ranks, or -1
  int32_t channel = 0;
  int32_t line = 0;
  std::vector<MscclStep> steps;
};

/// `<copy>` of the TACCL dialect: input chunk to output chunk before everything else. No executor does it.
struct MscclCopy {
  int32_t input_offset = 0, output_offset = 0;
  int32_t line = 0;
};

struct MscclGpu {
  int32_t id = 0;
  int32_t input_chunks = 0, output_chunks = 0, scratch_chunks = 0;
  int32_t line = 0;
  std::vector<MscclBlock> blocks;  ///< in document order
  std::vector<MscclCopy> copies;
};

struct MscclProgram {
  std::string file;  ///< for messages; may be empty
  std::string name;
  std::string collective;  ///< as written; empty if it was not
  MscclProtocol protocol = MscclProtocol::simple;
  int32_t channels = 0;
  int32_t chunks = 0;  ///< `nchunksperloop`
  int32_t ranks = 0;   ///< `ngpus`, or the number of GPUs if it was not written
  std::optional<bool> in_place, out_of_place;
  std::optional<int64_t> min_bytes, max_bytes;
  int32_t line = 0;
  std::vector<MscclGpu> gpus;  ///< in document order
  /// Attributes of <algo> that the file has, in order.
  std::vector<std::string> attributes;

  size_t steps() const;
  size_t blocks() const;
};

/// Reads one algorithm. Throws Error{input} with file and line for what is no XML, has no <algo>, lacks an
/// attribute that every dialect has, or has a value that is none. Whatever can be read but is wrong is left to
/// check_msccl(); what is odd about the text itself is appended to `findings`: elements and attributes that
/// executors ignore, spacing that their simple readers stop at.
MscclProgram read_msccl_xml(std::string_view text, const std::string& file, MscclDialect dialect,
                            std::vector<Finding>& findings);

/// True where `text` looks like an MSCCL algorithm.
bool looks_like_msccl_xml(std::string_view text);

/// Writes the program in the form that all executors take: the attributes in their usual order, one space between
/// them, no prolog. `outofplace`, `minBytes` and `maxBytes` are always written.
void write_msccl_xml(const MscclProgram& program, std::ostream& out);

}  // namespace slackline
