// CodeGen: turns trees into a schedule. A stream is a share of the message that goes up and down trees of ranks,
// cut into chunks that are pipelined along them.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "base/fraction.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/tree_packing.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// One hop of every chunk of a stream.
struct StreamOp {
  int src = 0, dst = 0;
  TransferOp op = TransferOp::copy;
  std::array<int, 2> after{-1, -1};  ///< earlier ops of the stream, of the same chunk; -1: none
  int level = 0;                     ///< hops before it: chunk j makes this hop in step level + j
  int channel = 0;
};

/// A share of the message and its way. Built with the functions below; ops stand in an order that respects `after`.
struct Stream {
  Fraction share;  ///< of the message, or of the part
  int part = -1;   ///< the part it belongs to, in collectives that have parts
  std::vector<StreamOp> ops;
};

/// Appends reductions from the leaves to the root. Trees may leave ranks out: their parent is -1. Where several
/// children reduce into one rank they do so one after the other, so that no two write to it at once; the
/// pipeline keeps all of them busy.
void add_reduce(Stream& stream, const Tree& tree);
/// Appends copies from the root to the leaves, after all that the stream does at the root so far.
void add_broadcast(Stream& stream, const Tree& tree);

/// Gives every stream channels of its own, as few as let all hops of a stream go on at once. With them, and
/// max-min fair sharing, a stream gets at least the share of every link that it was planned, however the others
/// behave, if all streams have equal shares: so a plan's rate is reached.
void assign_own_channels(std::vector<Stream>& streams);

/// What a set of streams can do.
struct StreamPlan {
  double bytes_per_second = 0;  ///< message size over time, with infinitely many chunks and no latency
  int levels = 0;               ///< hops of the longest stream
  Duration latency;             ///< of the slowest route
  size_t ops = 0;
};
/// Throws Error{input} where the network has no route for an op.
StreamPlan plan_streams(const Network& network, const std::vector<Stream>& streams);

/// Schedule with every stream cut into `chunks` equal chunks, of which the first `shown` are sent. Throws Error{input} for
/// more than 65536 channels.
Schedule schedule_streams(const Collective& collective, const std::vector<Stream>& streams, int64_t chunks,
                          int64_t shown = std::numeric_limits<int64_t>::max());

/// The options `chunk` ("auto" or a size) and `max_transfers` of generators that use streams.
struct ChunkOptions {
  Bytes chunk;  ///< largest chunk; 0 bytes: auto
  int64_t max_transfers = 262144;
};
ChunkOptions parse_chunk_options(const JsonCursor& options);

/// (levels + n - 1)(overhead + bytes/n/rate) + levels latency: the time of a pipeline of n chunks. (Blink, section
/// on chunk size, where the latency, there a part of the overhead, is paid by every chunk; here it is pipelined.)
double pipeline_seconds(const StreamPlan& plan, const Network& network, Bytes size, int64_t chunks);

/// Number of chunks a stream: such that no chunk exceeds the size given; or with "auto" by multiplicative increase
/// and additive decrease of the chunk size on the simulated time, extrapolated for long pipelines (on pipeline_seconds()
/// where the request has no simulator). Says in `notes` what was decided.
int64_t choose_chunks(const GenerateRequest& request, const std::vector<Stream>& streams, const StreamPlan& plan,
                      const ChunkOptions& options, std::vector<std::string>& notes);

/// choose_chunks and schedule_streams with the plan's rate in the notes.
Generated generate_streams(const GenerateRequest& request, const std::vector<Stream>& streams,
                           const ChunkOptions& options, std::vector<std::string> notes);

}  // namespace slackline
