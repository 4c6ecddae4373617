#include "schedule/msccl_check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "schedule/findings.hpp"
#include "schedule/msccl_lower.hpp"
#include "schedule/msccl_machine.hpp"
#include "schedule/traffic.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = MscclMachine::none;

constexpr std::array<std::string_view, 7> msccl_attributes = {"name", "nchannels", "nchunksperloop", "ngpus",
                                                              "coll", "proto",     "inplace"};
constexpr std::array<std::string_view, 9> azure_attributes = {"nchunksperloop", "nchannels", "ngpus",   "proto",     "coll",
                                                              "minBytes",       "maxBytes",  "inplace", "outofplace"};
constexpr std::array<std::string_view, 7> msccl_collectives = {"allreduce", "allgather", "reduce", "broadcast",
                                                               "alltoall",  "custom",    "reduce_scatter"};
constexpr std::array<std::string_view, 11> azure_collectives = {"allreduce", "allgather", "reduce",  "broadcast",
                                                                "alltoall",  "send",      "recv",    "gather",
                                                                "scatter",   "alltoallv", "reducescatter"};
constexpr std::array<MscclExecutor, 3> executors = {{
    {"msccl", "microsoft/msccl, the NCCL 2.12 fork", 256, 216, INT8_MAX, msccl_attributes, msccl_collectives, int64_t{1} << 27},
    {"azure", "Azure/msccl-executor-nccl", 64, 1024, INT8_MAX, azure_attributes, azure_collectives, 0},
    {"rccl", "ROCm/rccl", 64, 64, INT8_MAX, azure_attributes, azure_collectives, 0},
}};
constexpr std::array<std::string_view, 3> executor_names = {"msccl", "azure", "rccl"};

// Limits that all executors share.
constexpr int max_channels = 32;
constexpr int max_channel_blocks = 32;
constexpr int max_count = 71;
constexpr int max_xml_nodes = 4096;
constexpr int max_xml_children = 1024;
constexpr size_t max_xml_attributes = 16;

constexpr unsigned every_executor = (1U << executors.size()) - 1;

std::string bytes_text(Bytes bytes) { return to_string(bytes) + " (" + std::to_string(bytes.count()) + " bytes)"; }

class Checker {
 public:
  Checker(MscclProgram program, const MscclCheckOptions& options)
      : program_(std::move(program)), options_(options), findings_(options.max_per_rule) {}
  MscclReport check(std::vector<Finding> reading);

 private:
  std::string place(const MscclGpu& gpu) const { return line(gpu.line) + "gpu " + std::to_string(gpu.id); }
  std::string place(const MscclGpu& gpu, const MscclBlock& block) const {
    return line(block.line) + "gpu " + std::to_string(gpu.id) + " tb " + std::to_string(block.id);
  }
  std::string place(const MscclGpu& gpu, const MscclBlock& block, size_t step) const {
    return line(block.steps[step].line) + "gpu " + std::to_string(gpu.id) + " tb " + std::to_string(block.id) + " step " +
           std::to_string(step);
  }
  std::string line(int32_t number) const {
    if (number == 0) return {};
    return (program_.file.empty() ? "line " : program_.file + ":") + std::to_string(number) + " ";
  }
  std::string algo() const {
    std::string text = line(program_.line);
    if (!text.empty()) text.pop_back();
    return text;
  }
  Finding* error(std::string_view rule, std::string message, std::string where) {
    return findings_.add(rule, Severity::error, std::move(message), std::move(where));
  }
  // What the executors in the mask do not take. An error where the executor that was asked for, or all of them,
  // are among them.
  void refuse(unsigned mask, std::string_view rule, const std::string& message, std::string where);
  bool chosen(size_t executor) const { return !options_.executor || options_.executor == &executors[executor]; }

  bool check_shape();
  bool check_blocks();
  bool check_connections();
  bool check_messages(const MscclMachine& machine);
  bool check_bounds();
  void check_limits();
  void check_dependency_chains();
  void check_annotations(const MscclMachine& machine);
  void check_residency();
  void check_selection();
  MscclFifoVerdict fifo_verdict(const MscclMachine& machine, int ranks_per_node) const;
  void check_fifos(const MscclMachine& machine);
  void check_results(const MscclMachine& machine);
  struct Evaluation {
    MscclResult result = MscclResult::unknown;
    std::vector<Finding> findings;
    int root = -1;
  };
  Evaluation evaluate(const MscclMachine& machine, MscclLowerOptions lowering) const;
  Finding translate(const MscclMachine& machine, const LoweredMscclProgram& lowered, Finding finding) const;
  std::string describe(const MscclMachine& machine, uint32_t block, uint32_t step) const;
  void check_input_writes();
  void check_remote_sources();
  void check_traffic(const MscclMachine& machine);

  MscclProgram program_;
  const MscclCheckOptions& options_;
  FindingList findings_;
  MscclReport report_;
  std::optional<CollectiveType> type_;
  bool has_remote_source_ = false;
};

void Checker::refuse(unsigned mask, std::string_view rule, const std::string& message, std::string where) {
  std::string who;
  bool is_error = mask == every_executor;
  for (size_t e = 0; e < executors.size(); ++e) {
    if (!(mask & 1U << e)) continue;
    report_.refused[e] = true;
    who += (who.empty() ? "" : ", ") + std::string(executors[e].name);
    if (options_.executor == &executors[e]) is_error = true;
  }
  if (options_.executor && !is_error) return;
  findings_.add(rule, is_error ? Severity::error : Severity::warning,
                message + (mask == every_executor ? "; no executor takes it" : "; not taken by " + who), std::move(where));
}

// GPUs and blocks at the index of their ids, or nothing else can be said.
bool Checker::check_shape() {
  const size_t before = findings_.errors();
  if (program_.chunks < 1) error("no-chunks", "nchunksperloop is " + std::to_string(program_.chunks) + ", so there is nothing to move", algo());
  if (static_cast<size_t>(program_.ranks) != program_.gpus.size())
    error("gpu-count", "ngpus is " + std::to_string(program_.ranks) + ", but there are " + std::to_string(program_.gpus.size()) + " <gpu>", algo());
  std::set<int32_t> seen;
  for (const MscclGpu& gpu : program_.gpus) {
    if (gpu.id >= program_.ranks) error("gpu-id", "there is no rank " + std::to_string(gpu.id) + " among " + std::to_string(program_.ranks), place(gpu));
    if (!seen.insert(gpu.id).second) error("gpu-id", "there are two <gpu> for rank " + std::to_string(gpu.id), place(gpu));
    std::set<int32_t> ids;
    for (const MscclBlock& block : gpu.blocks)
      if (!ids.insert(block.id).second) error("block-id", "there are two <tb> of this id; an executor keeps one", place(gpu, block));
    int32_t expected = 0;
    for (const int32_t id : ids) {
      if (id != expected) {
        error("block-id", "the ids of the <tb> must be 0, 1, 2, ..., but " + std::to_string(expected) + " is missing", place(gpu));
        break;
      }
      ++expected;
    }
    if (gpu.scratch_chunks < 0) error("scratch-chunks", "s_chunks is negative", place(gpu));
  }
  if (findings_.errors() > before) return false;
  std::sort(program_.gpus.begin(), program_.gpus.end(), [](const MscclGpu& a, const MscclGpu& b) { return a.id < b.id; });
  for (MscclGpu& gpu : program_.gpus)
    std::sort(gpu.blocks.begin(), gpu.blocks.end(), [](const MscclBlock& a, const MscclBlock& b) { return a.id < b.id; });
  return true;
}

bool Checker::check_blocks() {
  const size_t before = findings_.errors();
  for (const MscclGpu& gpu : program_.gpus) {
    for (const MscclBlock& block : gpu.blocks) {
      for (const auto& [peer, what] : {std::pair{block.send, "send"}, std::pair{block.receive, "recv"}}) {
        if (peer == gpu.id) error("peer", std::string(what) + " names the GPU itself", place(gpu, block));
        if (peer >= program_.ranks)
          error("peer", std::string(what) + " names rank " + std::to_string(peer) + ", but there are " + std::to_string(program_.ranks), place(gpu, block));
      }
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        if (step.declared != static_cast<int32_t>(s))
          error("step-id", "is written as step " + std::to_string(step.declared) + "; executors count steps in the order of the file",
                place(gpu, block, s));
        if (sends(step.op) && block.send < 0) error("peer", "sends, but its tb has send=\"-1\"", place(gpu, block, s));
        if (receives(step.op) && block.receive < 0) error("peer", "receives, but its tb has recv=\"-1\"", place(gpu, block, s));
        if (step.op != MscclOp::nop && step.count < 1)
          error("count", "cnt is " + std::to_string(step.count) + "; a step must move at least one chunk", place(gpu, block, s));
        if (step.dep_block < 0) continue;
        if (static_cast<size_t>(step.dep_block) >= gpu.blocks.size()) {
          error("dependency-missing", "waits for tb " + std::to_string(step.dep_block) + ", which this GPU does not have", place(gpu, block, s));
          continue;
        }
        const MscclBlock& target = gpu.blocks[static_cast<size_t>(step.dep_block)];
        if (step.dep_step < 0 || static_cast<size_t>(step.dep_step) >= target.steps.size()) {
          error("dependency-missing", "waits for step " + std::to_string(step.dep_step) + " of tb " + std::to_string(step.dep_block) +
                    ", which has " + std::to_string(target.steps.size()) + " steps",
                place(gpu, block, s));
        }
      }
    }
  }
  return findings_.errors() == before;
}

// A connection is one sending and one receiving block.
bool Checker::check_connections() {
  const size_t before = findings_.errors();
  struct Ends {
    std::vector<std::pair<uint32_t, uint32_t>> senders, receivers;  // gpu, block
  };
  std::map<std::tuple<int32_t, int32_t, int32_t>, Ends> connections;
  for (uint32_t g = 0; g < program_.gpus.size(); ++g) {
    for (uint32_t b = 0; b < program_.gpus[g].blocks.size(); ++b) {
      const MscclBlock& block = program_.gpus[g].blocks[b];
      const auto id = static_cast<int32_t>(g);
      // A block with a peer that it never uses still takes the connection.
      if (block.send >= 0) connections[{id, block.send, block.channel}].senders.emplace_back(g, b);
      if (block.receive >= 0) connections[{block.receive, id, block.channel}].receivers.emplace_back(g, b);
    }
  }
  for (const auto& [key, ends] : connections) {
    const auto& [src, dst, channel] = key;
    const std::string name = "the connection from gpu " + std::to_string(src) + " to gpu " + std::to_string(dst) + " on channel " + std::to_string(channel);
    const auto uses = [&](const std::pair<uint32_t, uint32_t>& end, bool sending) {
      const std::vector<MscclStep>& steps = program_.gpus[end.first].blocks[end.second].steps;
      return std::any_of(steps.begin(), steps.end(), [&](const MscclStep& s) { return sending ? sends(s.op) : receives(s.op); });
    };
    for (const bool sending : {true, false}) {
      const auto& list = sending ? ends.senders : ends.receivers;
      if (list.size() < 2) continue;
      const auto users = std::count_if(list.begin(), list.end(), [&](const auto& end) { return uses(end, sending); });
      std::string blocks;
      for (const auto& [g, b] : list) blocks += (blocks.empty() ? "" : ", ") + std::to_string(b);
      const MscclGpu& gpu = program_.gpus[list[0].first];
      const std::string message = name + " has " + std::to_string(list.size()) + (sending ? " sending" : " receiving") + " blocks (tb " + blocks + ")";
      if (users > 1)
        error("connection-shared", message + "; they write over each other's place in its FIFO", place(gpu, gpu.blocks[list[1].second]));
      else
        findings_.add("connection-unused", Severity::warning, message + ", of which at most one uses it", place(gpu, gpu.blocks[list[1].second]));
    }
  }
  return findings_.errors() == before;
}

// The k-th send of a connection meets its k-th receive.
bool Checker::check_messages(const MscclMachine& machine) {
  const size_t before = findings_.errors();
  const auto steps_of = [&](uint32_t block, bool sending) {
    std::vector<uint32_t> list;
    if (block == none) return list;
    const std::vector<MscclStep>& steps = machine.blocks()[block].program->steps;
    for (uint32_t s = 0; s < steps.size(); ++s)
      if (sending ? sends(steps[s].op) : receives(steps[s].op)) list.push_back(s);
    return list;
  };
  const auto name = [&](uint32_t block, uint32_t step) {
    return msccl_step_name(program_, machine.blocks()[block].gpu, machine.blocks()[block].index, step);
  };
  for (const MscclMachine::Connection& c : machine.connections()) {
    const std::vector<uint32_t> sent = steps_of(c.sender, true), received = steps_of(c.receiver, false);
    const std::string what = "gpu " + std::to_string(c.src) + " sends " + std::to_string(sent.size()) + " messages to gpu " +
                             std::to_string(c.dst) + " on channel " + std::to_string(c.channel) + ", which receives " + std::to_string(received.size());
    if (sent.size() > received.size())
      error("message-unreceived", what, name(c.sender, sent[received.size()]));
    else if (received.size() > sent.size())
      error("message-missing", what, name(c.receiver, received[sent.size()]));
    for (size_t k = 0; k < std::min(sent.size(), received.size()); ++k) {
      const int32_t out = machine.blocks()[c.sender].program->steps[sent[k]].count;
      const int32_t in = machine.blocks()[c.receiver].program->steps[received[k]].count;
      if (out == in) continue;
      if (Finding* finding = error("message-count", "receives " + std::to_string(in) + " chunks, but message " + std::to_string(k) +
                                       " of its connection has " + std::to_string(out),
                                   name(c.receiver, received[k])))
        finding->witness = {name(c.sender, sent[k]) + " sends it"};
    }
  }
  return findings_.errors() == before;
}

// Chunks that lie outside what is declared, which executors look at by halves, and outside what exists.
bool Checker::check_bounds() {
  bool inside = true;
  for (const MscclGpu& gpu : program_.gpus) {
    const MscclExtent extent = msccl_extent(program_, gpu);
    const auto check = [&](const MscclBlock& block, size_t s, MscclBuffer buffer, int32_t offset, bool looked_at, const char* side) {
      const int32_t count = block.steps[s].count;
      const int64_t declared = buffer == MscclBuffer::input    ? gpu.input_chunks
                               : buffer == MscclBuffer::output ? gpu.output_chunks
                                                               : gpu.scratch_chunks;
      const int64_t exists = buffer == MscclBuffer::input    ? extent.input
                             : buffer == MscclBuffer::output ? extent.output
                                                             : gpu.scratch_chunks;
      const int64_t end = static_cast<int64_t>(offset) + count;
      const std::string range = std::string(side) + " is chunks " + std::to_string(offset) + " to " + std::to_string(end - 1) + " of buffer " + std::string(to_string(buffer));
      if (offset < 0 || end > exists) {
        inside = false;
        error("out-of-bounds", range + ", which has " + std::to_string(exists), place(gpu, block, s));
      } else if (offset >= declared && looked_at) {
        refuse(every_executor, "beyond-declared", range + ", of which its <gpu> declares " + std::to_string(declared), place(gpu, block, s));
      } else if (end > declared) {
        findings_.add("beyond-declared", Severity::warning, range + ", of which its <gpu> declares " + std::to_string(declared), place(gpu, block, s));
      }
    };
    for (const MscclBlock& block : gpu.blocks) {
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        // The executors' readers forget rrc.
        const bool looked_at = step.op != MscclOp::rrc;
        if (reads_source(step.op)) check(block, s, step.src_buffer, step.src_offset, looked_at, "src");
        if (writes_destination(step.op)) check(block, s, step.dst_buffer, step.dst_offset, looked_at, "dst");
      }
    }
    for (const MscclCopy& copy : gpu.copies) {
      if (copy.input_offset < extent.input && copy.output_offset < extent.output) continue;
      inside = false;
      error("out-of-bounds", "<copy> of input chunk " + std::to_string(copy.input_offset) + " to output chunk " + std::to_string(copy.output_offset) + " leaves the buffers",
            line(copy.line) + "gpu " + std::to_string(gpu.id));
    }
  }
  return inside;
}

// A step with several dependencies is a chain of nops and the step itself, which must carry the last of them.
void Checker::check_dependency_chains() {
  for (const MscclGpu& gpu : program_.gpus) {
    for (const MscclBlock& block : gpu.blocks) {
      bool pending = false;
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        if (step.op == MscclOp::nop) {
          if (step.dep_block >= 0) {
            pending = true;
            continue;
          }
          const bool numbered = std::any_of(block.steps.begin() + static_cast<ptrdiff_t>(s), block.steps.end(), [](const MscclStep& later) { return later.posts; });
          findings_.add("nop-empty", numbered ? Severity::error : Severity::warning,
                        numbered ? "is a nop that waits for nothing; executors drop it and number the flags of the steps after it one lower"
                                 : "is a nop that waits for nothing",
                        place(gpu, block, s));
          continue;
        }
        if (pending && step.dep_block < 0)
          refuse(every_executor, "nop-chain", "follows nops that wait, but waits for nothing itself: the last dependency must be on the step", place(gpu, block, s));
        pending = false;
      }
    }
  }
}

void Checker::check_limits() {
  const auto several = [&](auto exceeds) {
    unsigned mask = 0;
    for (size_t e = 0; e < executors.size(); ++e)
      if (exceeds(executors[e])) mask |= 1U << e;
    return mask;
  };
  // <algo>
  std::map<std::string, unsigned> missing;
  for (size_t e = 0; e < executors.size(); ++e)
    for (const std::string_view name : executors[e].required)
      if (std::find(program_.attributes.begin(), program_.attributes.end(), name) == program_.attributes.end())
        missing[std::string(name)] |= 1U << e;
  for (const auto& [name, mask] : missing) refuse(mask, "attribute-missing", "<algo> lacks \"" + name + "\"", algo());
  if (!program_.collective.empty()) {
    const unsigned mask = several([&](const MscclExecutor& e) {
      return std::find(e.collectives.begin(), e.collectives.end(), program_.collective) == e.collectives.end();
    });
    if (mask) refuse(mask, "collective-unknown", "coll=\"" + program_.collective.substr(0, 40) + "\" is not known", algo());
  }
  if (program_.attributes.size() > max_xml_attributes) refuse(every_executor, "limit-xml", "<algo> has more than 16 attributes", algo());
  if (program_.channels > max_channels)
    refuse(every_executor, "limit-channels", "nchannels is " + std::to_string(program_.channels) + ", more than " + std::to_string(max_channels), algo());
  if (program_.gpus.size() > max_xml_children) refuse(every_executor, "limit-xml", "<algo> has more than 1024 elements", algo());
  // microsoft/msccl alone holds the declared lengths against the collective.
  const bool gathers = program_.collective == "allgather", scatters = program_.collective == "reduce_scatter";

  for (const MscclGpu& gpu : program_.gpus) {
    if ((gpu.input_chunks > 0 && int64_t{gpu.input_chunks} * (gathers ? program_.ranks : 1) != program_.chunks) ||
        (gpu.output_chunks > 0 && int64_t{gpu.output_chunks} * (scatters ? program_.ranks : 1) != program_.chunks))
      refuse(1, "chunks-inconsistent", "i_chunks=" + std::to_string(gpu.input_chunks) + " and o_chunks=" + std::to_string(gpu.output_chunks) +
                 " do not fit nchunksperloop=" + std::to_string(program_.chunks) + " for " + program_.collective,
             place(gpu));
    size_t nodes = 1 + program_.gpus.size() + gpu.blocks.size();
    std::map<int32_t, std::pair<int, int>> peers;  // by channel: sending, receiving blocks
    for (const MscclBlock& block : gpu.blocks) {
      nodes += block.steps.size();
      if (block.channel < 0 || block.channel >= max_channels)
        refuse(every_executor, "limit-channels", "chan is " + std::to_string(block.channel) + "; it must be 0 to " + std::to_string(max_channels - 1), place(gpu, block));
      else if (block.channel >= program_.channels && (block.send >= 0 || block.receive >= 0))
        error("channel-undeclared", "chan is " + std::to_string(block.channel) + ", but nchannels is " + std::to_string(program_.channels) +
                  ", so executors do not connect it",
              place(gpu, block));
      auto& [senders, receivers] = peers[block.channel];
      if (block.send >= 0 && ++senders == max_channel_blocks + 1)
        refuse(every_executor, "limit-channel-blocks", "more than 32 blocks of the GPU send on channel " + std::to_string(block.channel), place(gpu, block));
      if (block.receive >= 0 && ++receivers == max_channel_blocks + 1)
        refuse(every_executor, "limit-channel-blocks", "more than 32 blocks of the GPU receive on channel " + std::to_string(block.channel), place(gpu, block));
      const auto steps = static_cast<int>(block.steps.size());
      if (const unsigned mask = several([&](const MscclExecutor& e) { return steps > e.max_steps; }))
        refuse(mask, "limit-steps", "the block has " + std::to_string(steps) + " steps", place(gpu, block));
      if (block.steps.size() > max_xml_children) refuse(every_executor, "limit-xml", "the block has more than 1024 elements", place(gpu, block));
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        if (step.op != MscclOp::nop && step.count > max_count)
          refuse(every_executor, "limit-count", "cnt is " + std::to_string(step.count) + ", more than " + std::to_string(max_count), place(gpu, block, s));
        if (std::max(step.src_offset, step.dst_offset) > INT16_MAX)
          refuse(every_executor, "limit-offset", "an offset is above 32767, which executors keep in 16 bits", place(gpu, block, s));
        if (step.dep_block > INT8_MAX)
          refuse(several([&](const MscclExecutor& e) { return step.dep_block > e.max_dep_block; }), "limit-dependency",
                 "waits for tb " + std::to_string(step.dep_block) + ", above 127, which executors keep in 8 bits", place(gpu, block, s));
      }
    }
    const auto blocks = static_cast<int>(gpu.blocks.size());
    if (const unsigned mask = several([&](const MscclExecutor& e) { return blocks > e.max_blocks; }))
      refuse(mask, "limit-blocks", "the GPU has " + std::to_string(blocks) + " blocks", place(gpu));
    if (nodes > max_xml_nodes) refuse(every_executor, "limit-xml", "rank " + std::to_string(gpu.id) + " sees " + std::to_string(nodes) + " elements, more than 4096", place(gpu));
  }
}

// All blocks of a GPU spin on each other, so all must run at once.
void Checker::check_residency() {
  for (const MscclGpu& gpu : program_.gpus) {
    const auto blocks = static_cast<int>(gpu.blocks.size());
    if (blocks <= options_.multiprocessors) continue;
    const std::string message = std::to_string(blocks) + " blocks must run at once on " + std::to_string(options_.multiprocessors) + " multiprocessors";
    if (blocks > 2 * options_.multiprocessors)
      error("not-resident", message + ", which hold two each at most: it hangs", place(gpu));
    else
      findings_.add("not-resident", Severity::warning, message + ", so some must hold two", place(gpu));
  }
}

// Sender and receiver both note where the data belongs; where the notes differ, one of them is wrong.
void Checker::check_annotations(const MscclMachine& machine) {
  for (const MscclMachine::Connection& c : machine.connections()) {
    if (c.sender == none || c.receiver == none) continue;
    const std::vector<MscclStep>&out = machine.blocks()[c.sender].program->steps, &in = machine.blocks()[c.receiver].program->steps;
    size_t r = 0;
    for (size_t s = 0; s < out.size(); ++s) {
      if (!sends(out[s].op)) continue;
      while (r < in.size() && !receives(in[r].op)) ++r;
      if (r == in.size()) break;
      if (out[s].op == MscclOp::s && in[r].op == MscclOp::r &&
          (out[s].dst_buffer != in[r].dst_buffer || out[s].dst_offset != in[r].dst_offset)) {
        if (Finding* finding = findings_.add("annotation", Severity::info,
                                             "the sender notes " + std::string(to_string(out[s].dst_buffer)) + "[" + std::to_string(out[s].dst_offset) +
                                                 "] as the destination, the receiver writes " + std::string(to_string(in[r].dst_buffer)) + "[" + std::to_string(in[r].dst_offset) + "]",
                                             msccl_step_name(program_, c.dst, machine.blocks()[c.receiver].index, r)))
          finding->witness = {msccl_step_name(program_, c.src, machine.blocks()[c.sender].index, s) + " sends it"};
      }
      ++r;
    }
  }
}

MscclFifoVerdict Checker::fifo_verdict(const MscclMachine& machine, int ranks_per_node) const {
  MscclFifoVerdict verdict;
  const auto crosses = [&](const MscclMachine::Connection& c) {
    return c.src / static_cast<uint32_t>(ranks_per_node) != c.dst / static_cast<uint32_t>(ranks_per_node);
  };
  const auto run = [&](int chunks_per_call, int64_t calls) {
    return machine.run(chunks_per_call, [&](const MscclMachine::Connection& c) { return crosses(c) ? 2 * calls : calls; });
  };
  const MscclMachine::Outcome unlimited = machine.run(max_count, {});
  if (!unlimited.completed) {
    verdict.progress = MscclProgress::never;
    verdict.waits = unlimited.waits;
    return verdict;
  }
  const int64_t calls = msccl_fifo_calls(program_.protocol, false);
  if (MscclMachine::Outcome best = run(max_count, calls); !best.completed) {
    // Progress is monotone in the capacity.
    int64_t low = calls, high = calls;
    do high *= 2;
    while (!run(max_count, high).completed);
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (run(max_count, middle).completed ? high : low) = middle;
    }
    verdict.progress = MscclProgress::needs_capacity;
    verdict.needed_calls = high;
    verdict.waits = std::move(best.waits);
    return verdict;
  }
  // From small messages, where a step is one call, to large ones, where it is one call a chunk: the first that hangs
  // bounds the safe sizes.
  for (int chunks_per_call = std::min(machine.largest_count(), max_count) - 1; chunks_per_call >= 1; --chunks_per_call) {
    MscclMachine::Outcome outcome = run(chunks_per_call, calls);
    if (outcome.completed) continue;
    verdict.progress = MscclProgress::completes_small;
    verdict.least_chunks_per_call = chunks_per_call + 1;
    const int64_t chunk = msccl_call_bytes(program_.protocol, options_.buffer).count() / verdict.least_chunks_per_call;
    verdict.largest_safe_size = Bytes(chunk * program_.chunks);
    verdict.waits = std::move(outcome.waits);
    return verdict;
  }
  verdict.progress = MscclProgress::completes;
  return verdict;
}

void Checker::check_fifos(const MscclMachine& machine) {
  const int one = options_.ranks_per_node > 0 ? options_.ranks_per_node : std::max(program_.ranks, 1);
  report_.one_node = fifo_verdict(machine, one);
  report_.all_nodes = options_.ranks_per_node > 0 ? report_.one_node : fifo_verdict(machine, 1);
  const MscclFifoVerdict& tight = report_.one_node;
  const MscclFifoVerdict& wide = report_.all_nodes;
  if (tight.progress == MscclProgress::completes) return;
  if (tight.progress == MscclProgress::never) {
    if (Finding* finding = error("deadlock", "never ends, however much its FIFOs hold", tight.waits.empty() ? "" : tight.waits.front().substr(0, tight.waits.front().find(" ("))))
      finding->witness = tight.waits;
    return;
  }
  const std::string where = tight.waits.front().substr(0, tight.waits.front().find(" ("));
  const int calls = msccl_fifo_calls(program_.protocol, false);
  // The sizes for which an executor takes the file.
  int64_t largest_taken = 0;
  for (size_t e = 0; e < executors.size(); ++e) {
    if (!chosen(e)) continue;
    const int64_t most = program_.max_bytes.value_or(executors[e].default_max_bytes);
    largest_taken = std::max(largest_taken, most == 0 ? INT64_MAX : most);
  }
  if (options_.size) largest_taken = options_.size->count();
  const auto hangs = [&](const MscclFifoVerdict& verdict) {
    return verdict.progress == MscclProgress::needs_capacity ||
           (verdict.progress == MscclProgress::completes_small && largest_taken > verdict.largest_safe_size->count());
  };
  const bool known = options_.ranks_per_node > 0;
  const Severity severity = hangs(tight) && (known || hangs(wide)) ? Severity::error
                            : hangs(tight)                         ? Severity::warning
                                                                   : Severity::info;
  const std::string premise = known ? "" : "with all ranks in one node ";
  std::string message;
  std::string_view rule;
  if (tight.progress == MscclProgress::needs_capacity) {
    rule = "deadlock-capacity";
    message = premise + "hangs for messages of any size: it needs FIFOs of " + std::to_string(tight.needed_calls) + " calls, and " +
              std::string(to_string(program_.protocol)) + " has " + std::to_string(calls);
  } else {
    rule = "deadlock-size";
    message = premise + "hangs for messages above " + bytes_text(*tight.largest_safe_size) + ", where a call moves fewer than " +
              std::to_string(tight.least_chunks_per_call) + " chunks";
  }
  if (!known) {
    message += "; with every rank in a node of its own, where FIFOs hold twice as much, it ";
    switch (wide.progress) {
      case MscclProgress::completes: message += "ends; say how many ranks share a node"; break;
      case MscclProgress::completes_small: message += "hangs above " + bytes_text(*wide.largest_safe_size); break;
      default: message += "hangs as well"; break;
    }
  }
  if (Finding* finding = findings_.add(rule, severity, message, where)) finding->witness = tight.waits;
}

// The transfers that a finding of validate() names, from its witness.
std::vector<size_t> witness_transfers(const Finding& finding) {
  std::vector<size_t> transfers;
  constexpr std::string_view prefix = "transfer ";
  for (const std::string& line : finding.witness)
    if (line.starts_with(prefix)) transfers.push_back(std::strtoull(line.c_str() + prefix.size(), nullptr, 10));
  return transfers;
}

// Chunks of a buffer as the file counts them.
std::string chunks_text(MscclBuffer buffer, int64_t offset, int64_t count) {
  std::string text = std::string(to_string(buffer)) + "[" + std::to_string(offset);
  if (count > 1) text += ".." + std::to_string(offset + count - 1);
  return text + "]";
}

// A step for people: "algo.xml:12 gpu 3 tb 1 step 4: rrc o[5] = received from gpu 2 (+) o[5]".
std::string Checker::describe(const MscclMachine& machine, uint32_t block, uint32_t step) const {
  const MscclMachine::Block& tb = machine.blocks()[block];
  const MscclStep& s = tb.program->steps[step];
  const std::string src = chunks_text(s.src_buffer, s.src_offset, s.count), dst = chunks_text(s.dst_buffer, s.dst_offset, s.count);
  const std::string from = "received from gpu " + std::to_string(tb.program->receive);
  const std::string to = " to gpu " + std::to_string(tb.program->send) + " on channel " + std::to_string(tb.program->channel);
  std::string text = msccl_step_name(program_, tb.gpu, tb.index, step) + ": " + std::string(to_string(s.op)) + " ";
  switch (s.op) {
    case MscclOp::s: return text + "sends " + src + to;
    case MscclOp::r: return text + dst + " = " + from;
    case MscclOp::rcs: return text + dst + " = " + from + ", sent on" + to;
    case MscclOp::rrs: return text + "sends " + src + " (+) " + from + to;
    case MscclOp::rrc: return text + dst + " = " + src + " (+) " + from;
    case MscclOp::rrcs: return text + dst + " = " + src + " (+) " + from + ", sent on" + to;
    case MscclOp::cpy: return text + dst + " = " + src;
    case MscclOp::re: return text + dst + " = " + dst + " (+) " + src;
    case MscclOp::nop: break;
  }
  return text;
}

// A finding about transfers, told in terms of the file.
Finding Checker::translate(const MscclMachine& machine, const LoweredMscclProgram& lowered, Finding finding) const {
  const std::vector<size_t> transfers = witness_transfers(finding);
  const auto name = [&](size_t t) {
    if (lowered.block[t] == none) return "<copy> of gpu " + std::to_string(lowered.schedule.dst(t));
    const MscclMachine::Block& block = machine.blocks()[lowered.block[t]];
    return "gpu " + std::to_string(block.gpu) + " tb " + std::to_string(block.index) + " step " + std::to_string(lowered.step[t]);
  };
  finding.witness.clear();
  size_t before = SIZE_MAX;
  for (const size_t t : transfers) {
    // A step that is several transfers is told once.
    if (before != SIZE_MAX && lowered.block[t] == lowered.block[before] && lowered.step[t] == lowered.step[before]) continue;
    before = t;
    finding.witness.push_back(lowered.block[t] == none ? name(t) : describe(machine, lowered.block[t], lowered.step[t]));
  }
  if (finding.transfer >= 0) {
    const auto t = static_cast<size_t>(finding.transfer);
    finding.where = lowered.block[t] == none ? name(t) : msccl_step_name(program_, machine.blocks()[lowered.block[t]].gpu, machine.blocks()[lowered.block[t]].index, lowered.step[t]);
  }
  if (finding.where.empty() && finding.rank >= 0) finding.where = place(program_.gpus[static_cast<size_t>(finding.rank)]);
  const bool in_place = lowered.schedule.collective().in_place;
  const std::string mode = in_place ? "in place, " : "out of place, ";
  const auto place = [&] {
    const Chunk& chunk = lowered.schedule.chunks()[static_cast<size_t>(finding.chunk)];
    return std::string(to_string(chunk.buffer)) + "[" + std::to_string(chunk.offset) +
           (chunk.length > 1 ? ".." + std::to_string(chunk.offset + chunk.length - 1) : "") + "] of gpu " + std::to_string(finding.rank);
  };
  if (finding.rule == "race" && transfers.size() == 2) {
    finding.message = mode + name(transfers[0]) + " and " + name(transfers[1]) + " touch " + place() + " in either order, and at least one writes";
  } else if (finding.rule == "undefined-read" && !transfers.empty()) {
    finding.message = mode + "reads " + place() + ", which holds nothing then";
    if (transfers.size() > 1) finding.message += "; " + name(transfers[1]) + " writes it later";
  } else if (finding.rule == "self-overlap") {
    finding.message = mode + "reads and writes overlapping chunks of one buffer";
  } else {
    finding.message = mode + finding.message;
  }
  finding.transfer = -1;
  finding.chunk = -1;
  return finding;
}

Checker::Evaluation Checker::evaluate(const MscclMachine& machine, MscclLowerOptions lowering) const {
  Evaluation best;
  std::vector<int> roots = {-1};
  if (type_ && has_root(*type_)) {
    roots.clear();
    for (int r = 0; r < program_.ranks; ++r) roots.push_back(r);
  }
  for (const int root : roots) {
    lowering.root = root;
    const LoweredMscclProgram lowered = lower_msccl(machine, lowering);
    ValidateOptions validation;
    validation.max_findings = std::max<size_t>(options_.max_per_rule, 1);
    validation.check_result = type_.has_value();
    validation.input_is_constant = false;
    Evaluation evaluation;
    evaluation.root = root;
    evaluation.findings = validate(lowered.schedule, validation);
    if (!has_errors(evaluation.findings)) {
      evaluation.result = type_ ? MscclResult::right : MscclResult::unknown;
      return evaluation;
    }
    const bool races = std::any_of(evaluation.findings.begin(), evaluation.findings.end(), [](const Finding& f) { return f.rule == "race"; });
    evaluation.result = races ? MscclResult::race : MscclResult::wrong;
    for (Finding& finding : evaluation.findings) finding = translate(machine, lowered, std::move(finding));
    if (best.result == MscclResult::unknown || evaluation.findings.size() < best.findings.size()) best = std::move(evaluation);
  }
  return best;
}

void Checker::check_results(const MscclMachine& machine) {
  if (program_.ranks < 2) return;
  if (type_ && has_parts(*type_) && program_.chunks % program_.ranks != 0) {
    error("chunks-not-divisible", "nchunksperloop is " + std::to_string(program_.chunks) + ", which the " + std::to_string(program_.ranks) +
              " ranks of " + program_.collective + " do not divide",
          algo());
    return;
  }
  // Which calls the file is meant for; without outofplace, microsoft/msccl takes `inplace` for both. For what is no
  // collective nobody says which chunks of input and output are the same memory, so they are not.
  const bool meant_in_place = type_ && program_.in_place.value_or(true);
  const bool meant_out_of_place = !type_ || program_.out_of_place.value_or(!program_.in_place.value_or(false));
  report_.for_in_place = meant_in_place;
  report_.for_out_of_place = meant_out_of_place;
  if (!meant_in_place && !meant_out_of_place)
    findings_.add("never-picked", Severity::warning, "is for calls neither in place nor out of place, so it is never used", algo());
  for (const bool in_place : {true, false}) {
    if (in_place && !type_) continue;
    MscclLowerOptions lowering;
    lowering.in_place = in_place;
    Evaluation evaluation = evaluate(machine, lowering);
    (in_place ? report_.in_place : report_.out_of_place) = evaluation.result;
    const bool meant = in_place ? meant_in_place : meant_out_of_place;
    if (meant && evaluation.result == MscclResult::right) report_.root = evaluation.root;
    if (evaluation.result == MscclResult::right || evaluation.findings.empty()) continue;
    if (!meant) {
      findings_.add("other-placement", Severity::info,
                    std::string("used ") + (in_place ? "in place" : "out of place") + ", which it is not meant for, it would be wrong (" +
                        std::string(evaluation.findings.front().rule) + ")",
                    algo());
      continue;
    }
    // Is it right when it is read in another way?
    std::string remedy;
    if (has_remote_source_) {
      lowering.destination_is_operand = true;
      if (evaluate(machine, lowering).result == MscclResult::right)
        remedy = "; it would be right if reductions took dst as their local operand, as msccl-tools means it, but executors take src";
      lowering.destination_is_operand = false;
    }
    if (remedy.empty() && std::any_of(program_.gpus.begin(), program_.gpus.end(), [](const MscclGpu& g) { return !g.copies.empty(); })) {
      lowering.copies = true;
      if (evaluate(machine, lowering).result == MscclResult::right)
        remedy = "; it would be right if its <copy> elements were done first, but executors ignore them";
    }
    if (!remedy.empty() && !evaluation.findings.empty()) evaluation.findings.front().message += remedy;
    for (Finding& finding : evaluation.findings) findings_.add(std::move(finding));
  }
  if (meant_out_of_place && type_) check_input_writes();
}

// Out of place the input is the caller's constant buffer.
void Checker::check_input_writes() {
  for (const MscclGpu& gpu : program_.gpus)
    for (const MscclBlock& block : gpu.blocks)
      for (size_t s = 0; s < block.steps.size(); ++s)
        if (writes_destination(block.steps[s].op) && block.steps[s].dst_buffer == MscclBuffer::input)
          findings_.add("input-overwritten", Severity::warning, "writes to the input, which out of place is the caller's", place(gpu, block, s));
}

// msccl-tools writes the remote source where executors read the local operand.
void Checker::check_remote_sources() {
  for (const MscclGpu& gpu : program_.gpus) {
    for (const MscclBlock& block : gpu.blocks) {
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        if (!receives(step.op) || !reads_source(step.op)) continue;
        if (step.src_buffer == step.dst_buffer && step.src_offset == step.dst_offset) continue;
        // In place these may be the same memory.
        has_remote_source_ = true;
        findings_.add("remote-source", Severity::warning,
                      "reduces with its own " + chunks_text(step.src_buffer, step.src_offset, step.count) + ", not with its dst " +
                          chunks_text(step.dst_buffer, step.dst_offset, step.count) + ": src of " + std::string(to_string(step.op)) +
                          " is local to executors, and files that mean the sender's chunk by it compute something else",
                      place(gpu, block, s));
      }
    }
  }
}

// Will the file be used for the size that was asked about?
void Checker::check_selection() {
  if (!options_.size) return;
  const int64_t size = options_.size->count(), element = options_.element.count();
  const bool parts = type_ && (*type_ == CollectiveType::allgather || *type_ == CollectiveType::reduce_scatter || *type_ == CollectiveType::alltoall);
  const int64_t multiplier = parts ? std::max(program_.ranks, 1) : 1;
  for (size_t e = 0; e < executors.size(); ++e) {
    if (!chosen(e)) continue;
    const std::string_view name = executors[e].name;
    const int64_t least = program_.min_bytes.value_or(0), most = program_.max_bytes.value_or(executors[e].default_max_bytes);
    std::string reason;
    Severity severity = Severity::warning;
    if (report_.refused[e]) {
      reason = "it does not load";
    } else if (size < least || (most != 0 && size > most)) {
      reason = "it is for " + std::to_string(least) + " to " + (most == 0 ? "any number of" : std::to_string(most)) + " bytes";
    } else if (size % (element * multiplier) != 0) {
      reason = "the size is no whole number of " + std::to_string(element) + "-byte elements a rank";
    } else {
      // azure counts the elements of one rank's call, rccl those of all parts, msccl stops with an error.
      const int64_t count = size / element / (name == "azure" ? multiplier : 1);
      if (program_.chunks > 0 && count % program_.chunks != 0) {
        reason = std::to_string(count) + " elements are no multiple of nchunksperloop=" + std::to_string(program_.chunks);
        if (name == "msccl") {
          severity = Severity::error;
          reason += ", at which it aborts";
        }
      }
    }
    const std::string what = bytes_text(*options_.size);
    if (reason.empty()) {
      std::string modes = program_.in_place.value_or(false) ? "in place" : "";
      if (program_.out_of_place.value_or(!program_.in_place.value_or(false))) modes += modes.empty() ? "out of place" : " and out of place";
      findings_.add("size-picked", Severity::info, std::string(name) + " uses the file for " + what + (modes.empty() ? "" : " " + modes), algo());
    } else {
      findings_.add(severity == Severity::error ? "size-not-divisible" : "size-not-picked", severity,
                    std::string(name) + (severity == Severity::error ? " fails for " : " does not use the file for ") + what + ": " + reason, algo());
    }
  }
}

// Bytes beyond what the collective needs, and scratch that nobody touches.
void Checker::check_traffic(const MscclMachine& machine) {
  int64_t moved = 0;
  for (const MscclMachine::Block& block : machine.blocks())
    for (const MscclStep& step : block.program->steps)
      if (sends(step.op)) moved += step.count;
  if (type_ && report_.structure_ok && program_.ranks > 1) {
    const int64_t p = program_.ranks, n = program_.chunks;
    const int64_t least = least_traffic(*type_, p, n);
    if (moved > least && least > 0) {
      char factor[32];
      std::snprintf(factor, sizeof factor, "%.2f", static_cast<double>(moved) / static_cast<double>(least));
      findings_.add("excess-bytes", Severity::info,
                    "sends " + std::to_string(moved) + " chunks, " + factor + " times the " + std::to_string(least) + " that " + program_.collective + " needs", algo());
    }
  }
  for (const MscclGpu& gpu : program_.gpus) {
    std::vector<bool> used(static_cast<size_t>(std::max(gpu.scratch_chunks, 0)), false);
    const auto use = [&](MscclBuffer buffer, int32_t offset, int32_t count) {
      if (buffer != MscclBuffer::scratch) return;
      for (int64_t c = std::max(offset, 0); c < int64_t{offset} + count && c < static_cast<int64_t>(used.size()); ++c) used[static_cast<size_t>(c)] = true;
    };
    for (const MscclBlock& block : gpu.blocks) {
      for (const MscclStep& step : block.steps) {
        if (reads_source(step.op)) use(step.src_buffer, step.src_offset, step.count);
        if (writes_destination(step.op)) use(step.dst_buffer, step.dst_offset, step.count);
      }
    }
    const auto unused = std::count(used.begin(), used.end(), false);
    if (unused > 0)
      findings_.add("unused-scratch", Severity::info, std::to_string(unused) + " of " + std::to_string(used.size()) + " scratch chunks are never used", place(gpu));
  }
}

MscclReport Checker::check(std::vector<Finding> reading) {
  // What the executors' own XML reader stops at, none of them takes.
  for (Finding& finding : reading) {
    if (finding.rule == "xml-spelling")
      refuse(every_executor, finding.rule, finding.message, finding.where);
    else
      findings_.add(std::move(finding));
  }
  type_ = msccl_collective(program_.collective);
  bool sound = check_shape();
  if (sound) {
    sound = check_blocks();
    check_limits();
    check_dependency_chains();
    check_residency();
    check_remote_sources();
    const bool inside = check_bounds();
    sound = check_connections() && sound;
    if (sound) {
      const MscclMachine machine(program_);
      const bool matched = check_messages(machine);
      check_annotations(machine);
      check_fifos(machine);
      report_.structure_ok = matched && inside;
      if (report_.structure_ok && report_.one_node.progress != MscclProgress::never) check_results(machine);
      check_traffic(machine);
    }
  }
  check_selection();
  report_.findings = findings_.take();
  return std::move(report_);
}

}  // namespace

std::span<const MscclExecutor> msccl_executors() { return executors; }
std::span<const std::string_view> msccl_executor_names() { return executor_names; }

const MscclExecutor& msccl_executor(std::string_view name) {
  const auto found = std::find(executor_names.begin(), executor_names.end(), name);
  if (found == executor_names.end()) throw std::out_of_range("no MSCCL executor " + std::string(name));
  return executors[static_cast<size_t>(found - executor_names.begin())];
}

Bytes msccl_call_bytes(MscclProtocol protocol, Bytes buffer) {
  // A FIFO is eight steps; a call fills four of them with Simple, one with LL and LL128, of whose bytes 1/2 and
  // 15/16 are data.
  switch (protocol) {
    case MscclProtocol::simple: return Bytes((buffer.count() > 0 ? buffer.count() : int64_t{4} << 20) / 8 * 4);
    case MscclProtocol::ll: return Bytes((buffer.count() > 0 ? buffer.count() : int64_t{512} << 10) / 8 / 2);
    case MscclProtocol::ll128: return Bytes((buffer.count() > 0 ? buffer.count() : 4915200) / 8 / 16 * 15);
  }
  return Bytes(0);
}

int msccl_fifo_calls(MscclProtocol protocol, bool between_nodes) {
  return (protocol == MscclProtocol::simple ? 2 : 8) * (between_nodes ? 2 : 1);
}

int msccl_chunks_per_call(MscclProtocol protocol, Bytes buffer, Bytes size, int chunks) {
  const int64_t chunk = (size.count() + chunks - 1) / chunks;
  if (chunk <= 0) return max_count;
  return static_cast<int>(std::clamp<int64_t>(msccl_call_bytes(protocol, buffer).count() / chunk, 1, max_count));
}

std::string_view to_string(MscclProgress progress) {
  switch (progress) {
    case MscclProgress::unknown: return "unknown";
    case MscclProgress::completes: return "completes";
    case MscclProgress::completes_small: return "completes-small";
    case MscclProgress::needs_capacity: return "needs-capacity";
    case MscclProgress::never: return "never";
  }
  return "unknown";
}

std::string_view to_string(MscclResult result) {
  switch (result) {
    case MscclResult::unknown: return "unknown";
    case MscclResult::right: return "right";
    case MscclResult::race: return "race";
    case MscclResult::wrong: return "wrong";
  }
  return "unknown";
}

std::string MscclReport::verdict(size_t executor) const {
  if (refused[executor]) return "refused";
  if (!structure_ok) return one_node.progress == MscclProgress::never ? "broken, never ends" : "broken";
  if (one_node.progress == MscclProgress::never) return "never ends";
  std::string word = "runs";
  for (const auto& [meant, result] : {std::pair{for_in_place, in_place}, std::pair{for_out_of_place, out_of_place}}) {
    if (!meant || result == MscclResult::unknown) continue;
    if (result != MscclResult::right || word == "runs") word = to_string(result);
    if (result != MscclResult::right) return word;
  }
  // More capacity between nodes never hurts, so one node is the harder case.
  if (one_node.progress == MscclProgress::needs_capacity)
    return all_nodes.progress == MscclProgress::needs_capacity ? "hangs" : "hangs in one node";
  if (one_node.progress == MscclProgress::completes_small)
    word += " up to " + std::to_string(one_node.largest_safe_size->count()) + " bytes" +
            (all_nodes.progress == one_node.progress && all_nodes.largest_safe_size == one_node.largest_safe_size ? "" : " in one node");
  return word;
}

MscclReport check_msccl(MscclProgram program, const MscclCheckOptions& options, std::vector<Finding> reading) {
  return Checker(std::move(program), options).check(std::move(reading));
}

}  // namespace slackline
