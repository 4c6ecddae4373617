#include "schedule/mscclpp_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "schedule/findings.hpp"
#include "schedule/msccl_lower.hpp"
#include "schedule/traffic.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr int64_t scratch_bytes = int64_t{64} << 20;  // where resources are reused (design/formats.md 2.5)
constexpr int64_t most_iterations = 256;              // of a pipeline that are looked at
constexpr int64_t most_moves = 1 << 22;               // of units, so that a small file cannot ask for much

using Set = std::vector<uint32_t>;  // of transfers, ascending

void unite(Set& to, const Set& more) {
  if (more.empty()) return;
  if (to.empty()) {
    to = more;
    return;
  }
  Set both;
  both.reserve(to.size() + more.size());
  std::set_union(to.begin(), to.end(), more.begin(), more.end(), std::back_inserter(both));
  to = std::move(both);
}
void include(Set& to, uint32_t one) {
  const auto at = std::lower_bound(to.begin(), to.end(), one);
  if (at == to.end() || *at != one) to.insert(at, one);
}

// The plan's GPUs, blocks and operations cut into units, and what they mean for buffers.
struct Geometry {
  std::optional<CollectiveType> type;
  int64_t chunks = 0;       // of the message
  int64_t units = 1;        // of a chunk
  int64_t slice = 1;        // units that an iteration of a pipeline moves
  int64_t iterations = 1;   // of a pipeline, for each of its chunks
  int64_t wrap = 0;         // slices after which a pipeline's scratch is used again; 0: never
  int64_t scratch = 0;      // units of a rank's scratch, one half if it is double
};

// ---------------------------------------------------------------- the program that runs

// Operations as nodes that run when what they need has run.
class Program {
 public:
  enum class Kind : uint8_t { sync, post, wait, data, put, gate };
  struct Node {
    Kind kind = Kind::sync;
    uint32_t gpu = 0, block = none, op = none, inner = none;  // where it stands; none: nowhere
    uint32_t launch = 0;
    uint32_t position = 0;   // the thread, of post, wait and put
    int64_t iteration = -1;  // of a pipeline
    uint32_t counter = none;
    uint32_t base = none;      // the sync that its block passed before
    uint32_t previous = none;  // of the same thread since then
    Set set;                   // sync: what comes before what follows; post, wait: what its thread has seen since `base`
    std::vector<uint32_t> next;
    uint32_t open = 0;   // nodes and packets that it waits for
    bool joint = false;  // a sync of several blocks, whose set those before it fill
    bool done = false;
  };
  struct Outcome {
    bool completed = false, cycle = false;
    std::vector<std::string> waits;
    uint32_t node = none;  // the first of `waits`
  };

  /// `launches` calls, one after the other; with what their callers do to the buffers if `caller`.
  Program(const MscclppPlan& plan, const Geometry& geometry, uint32_t launches, bool caller, bool in_place, int root);
  /// Runs it and writes the schedule.
  Outcome run();

  Schedule& schedule() { return schedule_; }
  const Node& node_of(uint32_t transfer) const { return nodes_[transfer_node_[transfer]]; }
  const MscclppOp* op(const Node& node) const {
    if (node.op == none) return nullptr;
    const MscclppOp& outer = plan_.gpus[node.gpu].blocks[node.block].ops[node.op];
    return node.inner == none ? &outer : &outer.inner[node.inner];
  }
  std::string name(const Node& node) const;

 private:
  struct Counter {
    int64_t value = 0, initial = 0;
    std::vector<uint32_t> parked;                            // nodes that wait
    std::map<uint32_t, std::vector<Set>> posted;             // by block
    std::map<uint32_t, int64_t> all_posts, taken;            // by block: posts of the program; waits that ended
    std::vector<uint32_t> post_nodes;
  };
  struct Access {
    uint32_t transfer;
    int64_t relative;
    uint8_t width;
    bool write;
  };
  struct Segment {  // of a block, between two syncs
    Set ends;       // transfers of its operations
    Set waited;
    std::unordered_map<uint64_t, std::vector<Access>> touched;  // only looked up
    uint32_t transfers = 0;
  };
  struct Slot {
    uint32_t writer = none;                // the transfer that wrote first
    std::vector<uint32_t> readers, nodes;  // waiting; that write it
  };

  void build();
  void build_launch(uint32_t launch, std::vector<uint32_t>& gates);
  uint32_t add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void edge(uint32_t from, uint32_t to) {
    if (from == none) return;
    nodes_[from].next.push_back(to);
    ++nodes_[to].open;
  }
  uint32_t channel_counter(uint32_t gpu, uint32_t channel, bool posting);
  uint32_t block_index(uint32_t gpu, uint32_t block) const { return first_block_[gpu] + block; }
  void execute(uint32_t index);
  void execute_data(uint32_t index);
  void execute_gate(uint32_t index);
  void finish(uint32_t index);
  Set waited_for(Counter& counter, uint32_t block);

  // Units of a region that a node touches: the first, relative to the region, and how many.
  std::pair<int64_t, int64_t> share(const Node& node, const MscclppOp& op, const MscclppRegion& region) const;
  Chunk place(uint32_t rank, const MscclppRegion& region, int64_t relative, uint32_t launch) const;
  int64_t scratch_at(const MscclppRegion& region, int64_t relative, uint32_t launch) const {
    return place(0, region, relative, launch).offset;
  }
  template <typename Visit>
  void for_packets(const Node& node, bool writes, const Visit& visit) const;
  static uint64_t key(uint32_t rank, const Chunk& chunk) {
    return static_cast<uint64_t>(chunk.offset) << 18 | uint64_t{rank} << 2 | static_cast<uint64_t>(chunk.buffer);
  }
  uint32_t chunk_index(const Chunk& chunk);
  // A transfer that is through with after_, and what else the node's thread has to wait for.
  uint32_t emit(uint32_t node, uint32_t src, const Chunk& from, uint32_t dst, const Chunk& to, TransferOp op, uint16_t channel, Set after);
  uint16_t channel_of(uint32_t block);
  void start(uint32_t index);

  const MscclppPlan& plan_;
  const Geometry& geometry_;
  uint32_t launches_;
  bool caller_;
  Schedule schedule_;
  int64_t part_ = 0, temporary_ = 0;
  std::vector<uint32_t> first_block_;
  std::vector<Node> nodes_;
  std::vector<Counter> counters_;
  std::map<std::tuple<uint32_t, uint32_t, MscclppLink, uint32_t>, uint32_t> channel_counters_;  // receiver, sender, kind, number
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> semaphore_counters_;                        // GPU, semaphore
  std::vector<Segment> segments_;                      // by block
  std::map<std::pair<uint32_t, uint32_t>, Set> puts_;  // by block and channel: what a signal on it follows
  std::map<uint64_t, Slot> slots_;                     // packets, by launch (see slot_key) and place
  std::vector<uint32_t> ready_;
  std::vector<uint32_t> transfer_node_;
  std::unordered_map<uint64_t, uint32_t> chunk_numbers_;  // only looked up
  std::vector<std::vector<uint16_t>> channels_;           // by block: those that its transfers of one segment have
  std::map<std::pair<uint32_t, uint32_t>, uint16_t> put_channels_;
  uint32_t next_channel_ = 0;
};

Program::Program(const MscclppPlan& plan, const Geometry& geometry, uint32_t launches, bool caller, bool in_place, int root)
    : plan_(plan), geometry_(geometry), launches_(launches), caller_(caller) {
  Collective collective;
  collective.type = geometry.type.value_or(CollectiveType::allreduce);
  collective.ranks = static_cast<int>(plan.gpus.size());
  collective.root = has_root(collective.type) ? root : -1;
  collective.in_place = in_place;
  schedule_ = Schedule(collective, geometry.chunks * geometry.units);
  schedule_.set_algorithm(plan.name);
  part_ = geometry.chunks * geometry.units / collective.ranks;
  temporary_ = geometry.scratch * 2;
  uint32_t blocks = 0;
  for (const MscclppGpu& gpu : plan.gpus) {
    first_block_.push_back(blocks);
    blocks += static_cast<uint32_t>(gpu.blocks.size());
  }
  segments_.resize(blocks);
  channels_.resize(blocks + plan.gpus.size());
  build();
}

std::string Program::name(const Node& node) const {
  if (node.kind == Kind::gate) return "the caller of gpu " + std::to_string(node.gpu);
  std::string text = "gpu " + std::to_string(node.gpu) + " tb " + std::to_string(node.block) + " op " + std::to_string(node.op);
  if (node.inner != none) text += "/" + std::to_string(node.inner);
  if (const MscclppOp* what = op(node)) text += " (" + what->name + ")";
  if (node.iteration >= 0) text += " of iteration " + std::to_string(node.iteration);
  if (node.launch > 0) text += " of " + std::string(node.launch == 1 ? "the next" : "a later") + " call";
  return text;
}

// A signal of a on its n-th channel to b is what b waits for on its n-th channel to a.
uint32_t Program::channel_counter(uint32_t gpu, uint32_t channel, bool posting) {
  const MscclppChannel& c = plan_.gpus[gpu].channels[channel];
  const auto key = posting ? std::tuple{c.peer, gpu, c.link, c.number} : std::tuple{gpu, c.peer, c.link, c.number};
  const auto [entry, fresh] = channel_counters_.try_emplace(key, static_cast<uint32_t>(counters_.size()));
  if (fresh) counters_.emplace_back();
  return entry->second;
}

std::pair<int64_t, int64_t> Program::share(const Node& node, const MscclppOp& op, const MscclppRegion& region) const {
  const int64_t all = region.size * geometry_.units;
  if (node.iteration >= 0) {
    const int64_t first = node.iteration * geometry_.slice;
    return {first, std::clamp<int64_t>(all - first, 0, geometry_.slice)};
  }
  // The units are a multiple of all numbers of parts, so that parts are whole.
  return {all / op.parts * op.part, all / op.parts};
}

Chunk Program::place(uint32_t rank, const MscclppRegion& region, int64_t relative, uint32_t launch) const {
  if (region.buffer != MscclBuffer::scratch)
    return place_msccl_chunk(geometry_.type, schedule_.collective().in_place, part_, rank, region.buffer, region.index * geometry_.units + relative, 1);
  int64_t at = region.index * geometry_.units + relative;
  if (geometry_.wrap > 0) {
    const int64_t length = geometry_.wrap * geometry_.slice;
    at = region.index * length + relative % length;
  }
  if (plan_.double_scratch && launch % 2 == 1) at += geometry_.scratch;
  return {Buffer::scratch, at, 1};
}

// Slots of packets are looked at launch by launch, as a flag says which launch wrote it.
template <typename Visit>
void Program::for_packets(const Node& node, bool writes, const Visit& visit) const {
  const MscclppOp* what = op(node);
  if (!what) return;
  const auto regions = [&](const std::vector<MscclppRegion>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      const MscclppRegion& region = list[i];
      if (!region.packets || (node.kind == Kind::put && i != node.position)) continue;
      const auto [first, count] = share(node, *what, region);
      for (int64_t u = first; u < first + count; ++u) {
        const auto slot = [&](uint32_t rank) {
          visit((static_cast<uint64_t>(place(rank, region, u, node.launch).offset) << 24 | uint64_t{node.launch} << 20) + rank);
        };
        if (region.rank >= 0)
          slot(static_cast<uint32_t>(region.rank));
        else
          for (const uint32_t rank : plan_.groups[static_cast<size_t>(region.group)].ranks) slot(rank);
      }
    }
  };
  if (writes)
    regions(what->destinations);
  else if (node.kind != Kind::put)  // the host copies whatever is there
    regions(what->sources);
}

void Program::build() {
  std::vector<uint32_t> gates;
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g) {
    Node start;
    start.gpu = g;
    gates.push_back(add(std::move(start)));
  }
  for (uint32_t launch = 0; launch < launches_; ++launch) build_launch(launch, gates);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    for_packets(nodes_[n], true, [&](uint64_t slot) { slots_[slot].nodes.push_back(n); });
    std::set<uint64_t> read;
    for_packets(nodes_[n], false, [&](uint64_t slot) { read.insert(slot); });
    for (const uint64_t slot : read) {
      slots_[slot].readers.push_back(n);
      ++nodes_[n].open;
    }
    if (nodes_[n].kind == Kind::post) {
      Counter& counter = counters_[nodes_[n].counter];
      ++counter.all_posts[block_index(nodes_[n].gpu, nodes_[n].block)];
      counter.post_nodes.push_back(n);
    }
  }
}

void Program::build_launch(uint32_t launch, std::vector<uint32_t>& gates) {
  std::map<std::tuple<uint32_t, int64_t, uint32_t>, uint32_t> barriers;  // GPU, barrier, how often before
  std::vector<uint32_t> ends(plan_.gpus.size());
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g) {
    Node gate;
    gate.kind = Kind::gate;
    gate.gpu = g;
    gate.launch = launch;
    ends[g] = add(std::move(gate));
  }
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g) {
    for (uint32_t b = 0; b < plan_.gpus[g].blocks.size(); ++b) {
      uint32_t base = gates[g];
      std::vector<uint32_t> thread;    // by position: the last node since base
      std::vector<uint32_t> complete;  // all nodes since base
      uint32_t data = none;            // the last operation of all threads since base
      std::map<int64_t, uint32_t> passed;
      const auto make = [&](Kind kind, uint32_t o, uint32_t inner, int64_t iteration) {
        Node node;
        node.kind = kind;
        node.gpu = g;
        node.block = b;
        node.op = o;
        node.inner = inner;
        node.launch = launch;
        node.iteration = iteration;
        node.base = base;
        return node;
      };
      const auto close = [&](uint32_t sync) {
        if (complete.empty()) edge(base, sync);
        for (const uint32_t n : complete) edge(n, sync);
        complete.clear();
        thread.clear();
        data = none;
      };
      const auto in_thread = [&](Node node, uint32_t position) {
        if (thread.size() <= position) thread.resize(position + 1, none);
        node.position = position;
        node.previous = thread[position];
        const uint32_t n = add(std::move(node));
        edge(base, n);
        edge(thread[position], n);
        edge(data, n);
        thread[position] = n;
        complete.push_back(n);
        return n;
      };
      const auto add_op = [&](const MscclppOp& what, uint32_t o, uint32_t inner, int64_t iteration) {
        switch (what.kind) {
          case MscclppKind::nop:
          case MscclppKind::barrier: {
            const uint32_t sync = add(make(Kind::sync, o, inner, iteration));
            close(sync);
            base = sync;
            if (what.kind == MscclppKind::nop) break;
            const auto [entry, fresh] = barriers.try_emplace({g, what.barrier, passed[what.barrier]++}, none);
            if (fresh) {
              Node joint = make(Kind::sync, o, inner, iteration);
              joint.joint = true;
              entry->second = add(std::move(joint));
            }
            // What all blocks have done before comes before what any does after.
            edge(sync, entry->second);
            base = entry->second;
            break;
          }
          case MscclppKind::signal:
          case MscclppKind::wait:
          case MscclppKind::flush:
            for (uint32_t i = 0; i < what.channels.size(); ++i) {
              Node node = make(what.kind == MscclppKind::signal ? Kind::post : Kind::wait, o, inner, iteration);
              if (what.kind != MscclppKind::flush) node.counter = channel_counter(g, what.channels[i], what.kind == MscclppKind::signal);
              in_thread(std::move(node), i);
            }
            break;
          case MscclppKind::acquire:
          case MscclppKind::release:
            for (uint32_t i = 0; i < what.semaphores.size(); ++i) {
              Node node = make(what.kind == MscclppKind::release ? Kind::post : Kind::wait, o, inner, iteration);
              const auto [entry, fresh] = semaphore_counters_.try_emplace({g, what.semaphores[i]}, static_cast<uint32_t>(counters_.size()));
              if (fresh) {
                counters_.emplace_back();
                counters_.back().value = counters_.back().initial = plan_.gpus[g].semaphores[what.semaphores[i]];
              }
              node.counter = entry->second;
              in_thread(std::move(node), i);
            }
            break;
          case MscclppKind::pipeline: break;
          default:
            if (what.link == MscclppLink::port && (what.kind == MscclppKind::put || what.kind == MscclppKind::put_packets)) {
              for (uint32_t i = 0; i < what.destinations.size(); ++i) {
                in_thread(make(Kind::put, o, inner, iteration), i);
                if (!what.with_signal) continue;
                Node signal = make(Kind::post, o, inner, iteration);
                signal.counter = channel_counter(g, what.channels[i], true);
                in_thread(std::move(signal), i);
                if (what.with_flush) in_thread(make(Kind::wait, o, inner, iteration), i);
              }
              break;
            }
            const uint32_t n = add(make(Kind::data, o, inner, iteration));
            edge(base, n);
            edge(data, n);
            data = n;
            complete.push_back(n);
            break;
        }
      };
      const std::vector<MscclppOp>& ops = plan_.gpus[g].blocks[b].ops;
      for (uint32_t o = 0; o < ops.size(); ++o) {
        if (ops[o].kind != MscclppKind::pipeline) {
          add_op(ops[o], o, none, -1);
          continue;
        }
        for (int64_t i = 0; i < geometry_.iterations * ops[o].pipeline_chunks; ++i)
          for (uint32_t k = 0; k < ops[o].inner.size(); ++k) add_op(ops[o].inner[k], o, k, i);
      }
      // The kernel ends when all its blocks have.
      const uint32_t end = add(make(Kind::sync, none, none, -1));
      close(end);
      edge(end, ends[g]);
    }
    if (plan_.gpus[g].blocks.empty()) edge(gates[g], ends[g]);
  }
  gates = ends;
}

// What at least has been posted before the next wait of `block` ends.
Set Program::waited_for(Counter& counter, uint32_t block) {
  const int64_t needed = ++counter.taken[block] - counter.initial;
  Set set;
  if (needed <= 0) return set;
  int64_t all = 0;
  for (const auto& [poster, count] : counter.all_posts) all += count;
  for (const auto& [poster, sets] : counter.posted) {
    // If the others have posted as often as they ever do.
    const int64_t surely = std::min(needed - (all - counter.all_posts[poster]), static_cast<int64_t>(sets.size()));
    // Those before it came with the waits before this.
    if (surely > 0) unite(set, sets[static_cast<size_t>(surely - 1)]);
  }
  return set;
}

uint32_t Program::chunk_index(const Chunk& chunk) {
  const auto [entry, fresh] = chunk_numbers_.try_emplace(key(0, chunk), 0);
  if (fresh) entry->second = schedule_.add_chunk(chunk);
  return entry->second;
}

// A schedule orders what is on one channel, so what a block does between two syncs is on channels of its own.
uint16_t Program::channel_of(uint32_t block) {
  Segment* segment = block < segments_.size() ? &segments_[block] : nullptr;
  const uint32_t at = segment ? segment->transfers++ : 0;
  std::vector<uint16_t>& channels = channels_[block];
  if (at >= channels.size()) {
    if (next_channel_ > UINT16_MAX) throw Error(ErrorKind::input, "needs more than 65536 channels in a schedule", plan_.file);
    channels.push_back(static_cast<uint16_t>(next_channel_++));
  }
  return channels[at];
}

uint32_t Program::emit(uint32_t node, uint32_t src, const Chunk& from, uint32_t dst, const Chunk& to, TransferOp op, uint16_t channel, Set after) {
  const auto index = static_cast<uint32_t>(schedule_.size());
  schedule_.add({src, dst, chunk_index(from), chunk_index(to), op, channel, after});
  transfer_node_.push_back(node);
  return index;
}

Program::Outcome Program::run() {
  for (uint32_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].open == 0) ready_.push_back(n);
  for (size_t i = 0; i < ready_.size(); ++i) start(ready_[i]);

  Outcome outcome;
  std::vector<uint32_t> stopped;
  for (uint32_t n = 0; n < nodes_.size(); ++n)
    if (!nodes_[n].done) stopped.push_back(n);
  if (stopped.empty()) {
    outcome.completed = true;
    return outcome;
  }
  // Each that has all it needs but for a signal or a packet waits for one that would give it; that one comes after others.
  // Following them ends in a cycle, or where nobody gives it.
  std::vector<std::vector<uint32_t>> before(nodes_.size());
  for (const uint32_t n : stopped)
    for (const uint32_t later : nodes_[n].next) before[later].push_back(n);
  std::vector<std::vector<uint32_t>> slots_of(nodes_.size());  // writers of packets that it lacks
  for (const auto& [key, slot] : slots_) {
    if (slot.writer != none) continue;
    for (const uint32_t reader : slot.readers) {
      if (nodes_[reader].done) continue;
      if (!slot.nodes.empty()) slots_of[reader].push_back(slot.nodes.front());
    }
  }
  // What holds up a node: itself, or one that its block has to do before.
  const auto held_up = [&](uint32_t n) {
    while (!before[n].empty()) n = before[n].front();
    return n;
  };
  // What holds up the one that this one waits for; none where nobody gives what it waits for.
  const auto follow = [&](uint32_t n, std::string* text) -> uint32_t {
    const Node& node = nodes_[n];
    uint32_t giver = none;
    std::string what = "packets that nobody writes";
    if (node.kind == Kind::wait && node.counter != none) {
      what = std::string("a ") + (op(node)->kind == MscclppKind::acquire ? "release" : "signal") + " that nobody sends";
      for (const uint32_t post : counters_[node.counter].post_nodes) {
        if (nodes_[post].done) continue;
        giver = post;
        break;
      }
    } else if (!slots_of[n].empty()) {
      giver = slots_of[n].front();
    }
    const uint32_t next = giver == none ? none : held_up(giver);
    if (text) *text = name(node) + " waits for " + (giver == none ? what : name(nodes_[giver])) + (next == giver ? "" : ", which comes after " + name(nodes_[next]));
    return next;
  };
  std::vector<uint32_t> walk(nodes_.size(), none), best;
  for (const uint32_t first : stopped) {
    uint32_t n = held_up(first);
    while (n != none && walk[n] == none) {
      walk[n] = first;
      n = follow(n, nullptr);
    }
    if (n == none || walk[n] != first) continue;
    std::vector<uint32_t> cycle{n};
    for (uint32_t m = follow(n, nullptr); m != n; m = follow(m, nullptr)) cycle.push_back(m);
    if (best.empty() || cycle.size() < best.size()) best = std::move(cycle);
  }
  outcome.cycle = !best.empty();
  // Without a cycle there is one who waits for what never comes.
  for (size_t i = 0; best.empty() && i < stopped.size(); ++i)
    if (before[stopped[i]].empty() && follow(stopped[i], nullptr) == none) best = {stopped[i]};
  for (const uint32_t n : best) {
    outcome.waits.emplace_back();
    follow(n, &outcome.waits.back());
  }
  if (!best.empty()) outcome.node = best.front();
  return outcome;
}

// All that it needs has run; a wait may still have to wait.
void Program::start(uint32_t index) {
  Node& node = nodes_[index];
  if (node.kind == Kind::wait && node.counter != none) {
    Counter& counter = counters_[node.counter];
    if (counter.value == 0) {
      counter.parked.push_back(index);
      return;
    }
    --counter.value;
  }
  execute(index);
  finish(index);
}

void Program::finish(uint32_t index) {
  nodes_[index].done = true;
  for (const uint32_t next : nodes_[index].next)
    if (--nodes_[next].open == 0) ready_.push_back(next);
  for_packets(nodes_[index], true, [&](uint64_t key) {
    Slot& slot = slots_[key];
    if (slot.writer == none) return;  // what was not written, since it is not there
    for (const uint32_t reader : slot.readers)
      if (!nodes_[reader].done && --nodes_[reader].open == 0) ready_.push_back(reader);
    slot.readers.clear();
  });
  if (nodes_[index].kind == Kind::post) {
    Counter& counter = counters_[nodes_[index].counter];
    ++counter.value;
    if (!counter.parked.empty()) {
      const uint32_t waiting = counter.parked.front();
      counter.parked.erase(counter.parked.begin());
      ready_.push_back(waiting);
    }
  }
}

void Program::execute(uint32_t index) {
  Node& node = nodes_[index];
  const uint32_t block = node.block == none ? none : block_index(node.gpu, node.block);
  const auto seen = [&] {
    Set set;
    if (node.previous != none) set = nodes_[node.previous].set;
    return set;
  };
  switch (node.kind) {
    case Kind::sync: {
      if (node.block == none || node.joint) return;
      Segment& segment = segments_[block];
      Set set = std::move(segment.ends);
      if (set.empty()) set = nodes_[node.base].set;
      unite(set, segment.waited);
      segment = Segment();
      for (const uint32_t next : node.next)
        if (nodes_[next].kind == Kind::gate || nodes_[next].joint) unite(nodes_[next].set, set);
      node.set = std::move(set);
      return;
    }
    case Kind::gate: execute_gate(index); return;
    case Kind::post: {
      Set set = seen();
      node.set = set;
      unite(set, nodes_[node.base].set);
      const MscclppOp* what = op(node);
      if (what->link == MscclppLink::port && node.position < what->channels.size()) unite(set, puts_[{block, what->channels[node.position]}]);
      counters_[node.counter].posted[block].push_back(std::move(set));
      return;
    }
    case Kind::wait: {
      Set set = seen();
      const MscclppOp* what = op(node);
      Set more = node.counter == none ? puts_[{block, what->channels[node.position]}] : waited_for(counters_[node.counter], block);
      unite(segments_[block].waited, more);
      unite(set, more);
      node.set = std::move(set);
      return;
    }
    case Kind::put: {
      const MscclppOp& what = *op(node);
      const MscclppRegion& from = what.sources[node.position];
      const MscclppRegion& to = what.destinations[node.position];
      node.set = seen();
      Set after = nodes_[node.base].set;
      unite(after, node.set);
      const auto [entry, fresh] = put_channels_.try_emplace({block, what.channels[node.position]}, 0);
      if (fresh) {
        if (next_channel_ > UINT16_MAX) throw Error(ErrorKind::input, "needs more than 65536 channels in a schedule", plan_.file);
        entry->second = static_cast<uint16_t>(next_channel_++);
      }
      const auto [first, count] = share(node, what, to);
      const auto dst = static_cast<uint32_t>(to.rank);
      for (int64_t u = first; u < first + count; ++u) {
        const Chunk target = place(dst, to, u, node.launch);
        const uint32_t t = emit(index, node.gpu, place(node.gpu, from, u, node.launch), dst, target, TransferOp::copy, entry->second, after);
        include(puts_[{block, what.channels[node.position]}], t);
        if (to.packets) {
          Slot& slot = slots_[(static_cast<uint64_t>(target.offset) << 24 | uint64_t{node.launch} << 20) + dst];
          if (slot.writer == none) slot.writer = t;
        }
      }
      return;
    }
    case Kind::data: execute_data(index); return;
  }
}

void Program::execute_data(uint32_t index) {
  const uint32_t self = nodes_[index].gpu, launch = nodes_[index].launch;
  const uint32_t block = block_index(self, nodes_[index].block);
  const MscclppOp& what = *op(nodes_[index]);
  Segment& segment = segments_[block];
  const Set& base = nodes_[nodes_[index].base].set;
  // Threads take 16 bytes at a time, of packets 8, and what goes through a switch as its type wants.
  uint8_t width = 16;
  for (const std::vector<MscclppRegion>* regions : {&what.sources, &what.destinations})
    for (const MscclppRegion& region : *regions) {
      if (region.packets) width = 8;
      if (region.rank < 0) width = 1;
    }

  struct Place {
    uint32_t rank;
    Chunk chunk;
    bool packets;
  };
  const auto [first, count] = share(nodes_[index], what, what.sources.front());
  int64_t relative = first;  // the unit at hand
  uint32_t last = none;  // the transfer before, of the same unit
  const auto move = [&](const Place& from, const Place& to, TransferOp op, uint16_t channel, uint32_t before) {
    Set after = before == none ? base : Set{before};
    // What the same thread did before to the same bytes.
    const auto look = [&](const Place& at, bool write) {
      const auto found = segment.touched.find(key(at.rank, at.chunk));
      if (found == segment.touched.end()) return;
      for (const Access& access : found->second)
        if ((write || access.write) && access.relative == relative - first && access.width == width) include(after, access.transfer);
    };
    look(from, false);
    look(to, true);
    if (from.packets) {
      const auto slot = slots_.find((static_cast<uint64_t>(from.chunk.offset) << 24 | uint64_t{launch} << 20) + from.rank);
      if (slot != slots_.end() && slot->second.writer != none) include(after, slot->second.writer);
    }
    const uint32_t t = emit(index, from.rank, from.chunk, to.rank, to.chunk, op, channel, std::move(after));
    segment.touched[key(from.rank, from.chunk)].push_back({t, relative - first, width, false});
    segment.touched[key(to.rank, to.chunk)].push_back({t, relative - first, width, true});
    if (to.packets) {
      Slot& slot = slots_[(static_cast<uint64_t>(to.chunk.offset) << 24 | uint64_t{launch} << 20) + to.rank];
      if (slot.writer == none) slot.writer = t;
    }
    return t;
  };
  const auto at = [&](const MscclppRegion& region, uint32_t rank) { return Place{rank, place(rank, region, relative, launch), region.packets}; };
  const auto own = [&](const MscclppRegion& region) { return at(region, static_cast<uint32_t>(region.rank)); };
  const auto end = [&](uint32_t t) { include(segment.ends, t); };
  const auto fresh = [&] { return Place{self, {Buffer::scratch, temporary_++, 1}, false}; };

  // One after the other into `to`, then from there to the other places.
  const auto reduce_to = [&](const std::vector<Place>& operands, const Place& to, std::vector<Place> others) {
    const uint16_t channel = channel_of(block);
    const auto same = [](const Place& a, const Place& b) { return a.rank == b.rank && a.chunk == b.chunk; };
    size_t held = operands.size();  // the operand that lies where the result goes
    size_t lying = 0;
    for (size_t i = 0; i < operands.size(); ++i)
      if (same(operands[i], to)) held = i, ++lying;
    // Packets appear when they are complete.
    const bool apart = lying > 1 || to.packets;
    const Place sum = apart ? fresh() : to;
    last = none;
    if (apart || lying == 0) {
      last = move(operands[0], sum, TransferOp::copy, channel, none);
      held = 0;
    }
    for (size_t i = 0; i < operands.size(); ++i)
      if (i != held) last = move(operands[i], sum, TransferOp::reduce, channel, last);
    if (apart) last = move(sum, to, TransferOp::copy, channel, last);
    const uint32_t result = last;
    if (others.empty() && result != none) end(result);
    for (const Place& other : others) end(move(to, other, TransferOp::copy, channel_of(block), result));
  };

  for (; relative < first + count; ++relative) {
    switch (what.kind) {
      case MscclppKind::copy:
      case MscclppKind::pack:
      case MscclppKind::unpack: {
        const Place from = own(what.sources[0]), to = own(what.destinations[0]);
        if (from.rank == to.rank && from.chunk == to.chunk) break;
        end(move(from, to, TransferOp::copy, channel_of(block), none));
        break;
      }
      case MscclppKind::put:
      case MscclppKind::get:
      case MscclppKind::put_packets:
        for (size_t i = 0; i < what.destinations.size(); ++i) end(move(own(what.sources[i]), own(what.destinations[i]), TransferOp::copy, channel_of(block), none));
        break;
      case MscclppKind::forward_packets:
        for (const MscclppRegion& destination : what.destinations) end(move(own(what.sources[0]), own(destination), TransferOp::copy, channel_of(block), none));
        break;
      case MscclppKind::reduce:
      case MscclppKind::reduce_packets: {
        std::vector<Place> operands, others;
        for (const MscclppRegion& source : what.sources) operands.push_back(own(source));
        for (size_t i = 1; i < what.destinations.size(); ++i) others.push_back(own(what.destinations[i]));
        reduce_to(operands, own(what.destinations[0]), others);
        break;
      }
      case MscclppKind::load_reduce_store: {
        std::vector<Place> operands, others;
        for (const uint32_t rank : plan_.groups[static_cast<size_t>(what.sources[0].group)].ranks) operands.push_back(at(what.sources[0], rank));
        for (const uint32_t rank : plan_.groups[static_cast<size_t>(what.destinations[0].group)].ranks) others.push_back(at(what.destinations[0], rank));
        reduce_to(operands, fresh(), others);
        break;
      }
      case MscclppKind::multi_store: {
        for (const uint32_t rank : plan_.groups[static_cast<size_t>(what.destinations[0].group)].ranks)
          end(move(own(what.sources[0]), at(what.destinations[0], rank), TransferOp::copy, channel_of(block), none));
        break;
      }
      default: break;
    }
  }
}

// Between two kernels the caller takes what the collective gave, and puts what it brings to the next.
void Program::execute_gate(uint32_t index) {
  if (!caller_) return;
  const uint32_t rank = nodes_[index].gpu;
  const Collective& collective = schedule_.collective();
  const auto own_part = std::pair{int64_t{rank} * part_, (int64_t{rank} + 1) * part_};
  const std::pair<int64_t, int64_t> all{0, geometry_.chunks * geometry_.units}, part{0, part_}, nothing{0, 0};
  const bool is_root = collective.root == static_cast<int>(rank), in_place = collective.in_place;
  std::pair<int64_t, int64_t> brings = all, gets = all;
  if (!geometry_.type) {
    brings = {0, plan_.gpus[rank].input_chunks * geometry_.units};
    gets = {0, plan_.gpus[rank].output_chunks * geometry_.units};
  } else {
    switch (collective.type) {
      case CollectiveType::allgather: brings = in_place ? own_part : part; break;
      case CollectiveType::reduce_scatter: gets = in_place ? own_part : part; break;
      case CollectiveType::broadcast: brings = is_root ? all : nothing; break;
      case CollectiveType::reduce: gets = is_root ? all : nothing; break;
      case CollectiveType::gather:
        brings = in_place ? own_part : part;
        gets = is_root ? all : nothing;
        break;
      case CollectiveType::scatter:
        brings = is_root ? all : nothing;
        gets = in_place ? own_part : part;
        break;
      default: break;
    }
  }
  const Set before = nodes_[index].set;
  const uint16_t channel = channel_of(static_cast<uint32_t>(segments_.size()) + rank);
  Set ends = before;
  const Buffer input = in_place ? Buffer::data : Buffer::input, output = in_place ? Buffer::data : Buffer::output;
  const auto take = [&](Buffer buffer, int64_t u) {
    return emit(index, rank, {buffer, u, 1}, rank, {Buffer::scratch, temporary_++, 1}, TransferOp::copy, channel, before);
  };
  for (int64_t u = brings.first; u < brings.second; ++u) {
    const uint32_t taken = take(input, u);
    include(ends, emit(index, rank, {Buffer::scratch, temporary_ - 1, 1}, rank, {input, u, 1}, TransferOp::copy, channel, {taken}));
  }
  for (int64_t u = gets.first; u < gets.second; ++u)
    if (input != output || u < brings.first || u >= brings.second) include(ends, take(output, u));
  nodes_[index].set = ends;
}

// ---------------------------------------------------------------- the checks

class Checker {
 public:
  Checker(const MscclppPlan& plan, const MscclppCheckOptions& options) : plan_(plan), options_(options), findings_(options.max_per_rule) {}
  MscclppReport check(std::vector<Finding> reading);

 private:
  void error(std::string_view rule, std::string message, std::string where) { findings_.add(rule, Severity::error, std::move(message), std::move(where)); }
  void warn(std::string_view rule, std::string message, std::string where) { findings_.add(rule, Severity::warning, std::move(message), std::move(where)); }
  template <typename Visit>
  void for_ops(const Visit& visit) const;
  std::string place(uint32_t gpu) const { return plan_.file + ": /gpus/" + std::to_string(gpu); }

  bool check_chunks();
  bool check_operands();
  void check_op(uint32_t gpu, const MscclppOp& op, const MscclppOp* pipeline);
  bool check_barriers();
  bool check_packet_form();
  void check_counts();
  void check_defects();
  void check_residency();
  void check_selection();
  bool measure();
  void check_results();
  void check_traffic();
  Finding translate(const Program& program, const Schedule& schedule, Finding finding) const;
  int64_t extent(uint32_t gpu, MscclBuffer buffer) const;

  const MscclppPlan& plan_;
  const MscclppCheckOptions& options_;
  FindingList findings_;
  MscclppReport report_;
  Geometry geometry_;
};

// All operations, those of pipelines with the pipeline.
template <typename Visit>
void Checker::for_ops(const Visit& visit) const {
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g)
    for (uint32_t b = 0; b < plan_.gpus[g].blocks.size(); ++b)
      for (const MscclppOp& op : plan_.gpus[g].blocks[b].ops) {
        visit(g, b, op, nullptr);
        for (const MscclppOp& inner : op.inner) visit(g, b, inner, &op);
      }
}

// What the collective says about the lengths of buffers.
bool Checker::check_chunks() {
  const size_t errors = findings_.errors();
  const auto ranks = static_cast<int64_t>(plan_.gpus.size());
  const MscclppGpu& first = plan_.gpus.front();
  geometry_.type = msccl_collective(plan_.collective);
  if (!geometry_.type) {
    for (const MscclppGpu& gpu : plan_.gpus) geometry_.chunks = std::max({geometry_.chunks, gpu.input_chunks, gpu.output_chunks});
    if (geometry_.chunks == 0) error("no-chunks", "input_chunks and output_chunks are 0, so there is nothing to move", place(0));
    return findings_.errors() == errors;
  }
  const bool gathers = *geometry_.type == CollectiveType::allgather || *geometry_.type == CollectiveType::gather;
  const bool scatters = *geometry_.type == CollectiveType::reduce_scatter || *geometry_.type == CollectiveType::scatter;
  geometry_.chunks = gathers ? first.input_chunks * ranks : first.input_chunks;
  if (first.input_chunks == 0) geometry_.chunks = scatters ? first.output_chunks * ranks : first.output_chunks;
  if (geometry_.chunks == 0) error("no-chunks", "input_chunks and output_chunks are 0, so there is nothing to move", place(0));
  const int64_t input = gathers ? geometry_.chunks / ranks : geometry_.chunks, output = scatters ? geometry_.chunks / ranks : geometry_.chunks;
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g)
    for (const auto& [name, wanted, declared] : {std::tuple{"input_chunks", input, plan_.gpus[g].input_chunks}, std::tuple{"output_chunks", output, plan_.gpus[g].output_chunks}})
      // In place one of the two may be left out.
      if (declared != wanted && declared != 0)
        error("chunks-inconsistent", std::string(name) + " is " + std::to_string(declared) + ", and must be " + std::to_string(wanted) + " for " + plan_.collective + " on " + std::to_string(ranks) + " ranks", place(g));
  if (has_parts(*geometry_.type) && geometry_.chunks % ranks != 0)
    error("chunks-not-divisible", std::to_string(ranks) + " ranks do not divide " + std::to_string(geometry_.chunks) + " chunks", place(0));
  return findings_.errors() == errors;
}

int64_t Checker::extent(uint32_t gpu, MscclBuffer buffer) const {
  const MscclppGpu& g = plan_.gpus[gpu];
  if (buffer == MscclBuffer::scratch) return g.scratch_chunks;
  if (!geometry_.type) return buffer == MscclBuffer::input ? g.input_chunks : g.output_chunks;
  const auto ranks = static_cast<int64_t>(plan_.gpus.size());
  const bool gathers = *geometry_.type == CollectiveType::allgather || *geometry_.type == CollectiveType::gather;
  const bool scatters = *geometry_.type == CollectiveType::reduce_scatter || *geometry_.type == CollectiveType::scatter;
  return (buffer == MscclBuffer::input ? gathers : scatters) ? geometry_.chunks / ranks : geometry_.chunks;
}

void Checker::check_op(uint32_t gpu, const MscclppOp& op, const MscclppOp* pipeline) {
  const auto self = static_cast<int32_t>(gpu);
  const auto wrong = [&](const std::string& what) { error("operand", op.name + " " + what, op.where); };
  const auto is_local = [&](const MscclppRegion& region) { return region.rank == self; };
  const auto is_remote = [&](const MscclppRegion& region) { return region.rank >= 0 && region.rank != self; };
  const auto is_group = [](const MscclppRegion& region) { return region.group >= 0; };
  const auto all = [](const std::vector<MscclppRegion>& regions, size_t from, const auto& holds) {
    return std::all_of(regions.begin() + static_cast<std::ptrdiff_t>(std::min(from, regions.size())), regions.end(), holds);
  };
  const size_t sources = op.sources.size(), destinations = op.destinations.size();
  switch (op.kind) {
    case MscclppKind::nop:
    case MscclppKind::barrier:
    case MscclppKind::pipeline:
    case MscclppKind::acquire:
    case MscclppKind::release: break;
    case MscclppKind::signal:
    case MscclppKind::wait:
      if (op.channels.empty()) wrong("names no channel");
      break;
    case MscclppKind::flush:
      if (op.channels.empty() || op.link != MscclppLink::port) wrong("needs port channels");
      break;
    case MscclppKind::copy:
    case MscclppKind::pack:
    case MscclppKind::unpack:
      if (sources != 1 || destinations != 1 || !is_local(op.sources[0]) || !is_local(op.destinations[0])) wrong("needs one source and one destination of its own rank");
      break;
    case MscclppKind::put:
    case MscclppKind::put_packets:
      if (sources != destinations || sources == 0 || !all(op.sources, 0, is_local)) wrong("needs a source of its own rank for each destination");
      if (!all(op.destinations, 0, is_remote)) wrong("has a destination that is no other rank's buffer");
      if (op.link == MscclppLink::port) {
        if (op.channels.size() != destinations) wrong("needs a port channel for each destination");
        for (size_t i = 0; i < std::min(op.channels.size(), destinations); ++i)
          if (static_cast<int32_t>(plan_.gpus[gpu].channels[op.channels[i]].peer) != op.destinations[i].rank)
            wrong("writes to rank " + std::to_string(op.destinations[i].rank) + " through a channel to rank " + std::to_string(plan_.gpus[gpu].channels[op.channels[i]].peer));
      } else if (op.with_signal) {
        wrong("is for port channels");
      }
      break;
    case MscclppKind::get:
      if (sources != destinations || sources == 0 || !all(op.destinations, 0, is_local)) wrong("needs a destination of its own rank for each source");
      if (!all(op.sources, 0, is_remote)) wrong("has a source that is no other rank's buffer");
      break;
    case MscclppKind::reduce:
    case MscclppKind::reduce_packets: {
      if (sources < 2 || destinations == 0 || !is_local(op.sources[0]) || !is_local(op.destinations[0])) wrong("needs two sources or more, and its first source and destination must be its own rank's");
      if (!all(op.sources, 1, op.kind == MscclppKind::reduce ? std::function<bool(const MscclppRegion&)>([](const MscclppRegion& region) { return region.rank >= 0; }) : std::function<bool(const MscclppRegion&)>(is_local)))
        wrong("has a source that it cannot read");
      const bool keeps = op.name == "recpkt" || op.name == "recspkt";
      if (keeps && (destinations < 2 || !is_local(op.destinations[1]))) wrong("needs a second destination in its own scratch");
      if (!all(op.destinations, keeps ? 2 : 1, is_remote)) wrong("has a destination that is no other rank's buffer");
      break;
    }
    case MscclppKind::forward_packets:
      if (sources != 1 || destinations == 0 || !is_local(op.sources[0]) || !all(op.destinations, 0, is_remote)) wrong("needs one source of its own rank, and destinations of other ranks");
      break;
    case MscclppKind::load_reduce_store:
      if (sources != 1 || destinations != 1 || !is_group(op.sources[0]) || !is_group(op.destinations[0])) wrong("needs a switch channel as its source and one as its destination");
      break;
    case MscclppKind::multi_store:
      if (sources != 1 || destinations != 1 || !is_local(op.sources[0]) || !is_group(op.destinations[0])) wrong("needs a source of its own rank and a switch channel as its destination");
      break;
  }
  const int64_t size = sources > 0 ? op.sources.front().size : destinations > 0 ? op.destinations.front().size : 0;
  for (const std::vector<MscclppRegion>* regions : {&op.sources, &op.destinations}) {
    for (const MscclppRegion& region : *regions) {
      if (region.size != size) wrong("moves " + std::to_string(size) + " and " + std::to_string(region.size) + " chunks");
      if (region.size < 1) wrong("moves no chunk");
      if (region.packets && region.buffer != MscclBuffer::scratch) wrong("has packets in " + std::string(to_string(region.buffer)) + ", where there is no room for their flags");
      const auto bound = [&](uint32_t rank) {
        const int64_t length = extent(rank, region.buffer);
        if (region.index + region.size > length)
          error("out-of-bounds", op.name + " touches " + std::string(to_string(region.buffer)) + "[" + std::to_string(region.index) + (region.size > 1 ? ".." + std::to_string(region.index + region.size - 1) : "") + "] of gpu " +
                    std::to_string(rank) + ", which has " + std::to_string(length) + " chunks there",
                op.where);
      };
      if (region.rank >= 0)
        bound(static_cast<uint32_t>(region.rank));
      else
        for (const uint32_t rank : plan_.groups[static_cast<size_t>(region.group)].ranks) bound(rank);
    }
  }
  if (!pipeline) return;
  if (op.parts > 1) error("pipeline-operation", op.name + " is shared between blocks and inside a pipeline, whose offsets run over the block's part", op.where);
  for (const std::vector<MscclppRegion>* regions : {&op.sources, &op.destinations})
    for (const MscclppRegion& region : *regions) {
      if (region.packets) {
        error("pipeline-operation", op.name + " moves packets inside a pipeline, which executors do not cut: every iteration moves all", op.where);
        return;
      }
      if (region.size < pipeline->pipeline_chunks) {
        error("pipeline-operation", op.name + " has " + std::to_string(region.size) + " chunks in a pipeline over " + std::to_string(pipeline->pipeline_chunks) + ": executors go on beyond their end", op.where);
        return;
      }
    }
}

bool Checker::check_operands() {
  const size_t errors = findings_.errors();
  for_ops([&](uint32_t gpu, uint32_t, const MscclppOp& op, const MscclppOp* pipeline) { check_op(gpu, op, pipeline); });
  return findings_.errors() == errors;
}

// As many blocks pass a barrier as it says, each as often.
bool Checker::check_barriers() {
  const size_t errors = findings_.errors();
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g) {
    std::map<int64_t, std::map<uint32_t, int64_t>> passes;  // by barrier and block
    std::map<int64_t, const MscclppOp*> any;
    for (uint32_t b = 0; b < plan_.gpus[g].blocks.size(); ++b) {
      const auto pass = [&](const MscclppOp& op, int64_t times) {
        if (op.kind != MscclppKind::barrier) return;
        passes[op.barrier][b] += times;
        const MscclppOp*& first = any[op.barrier];
        if (!first) first = &op;
        if (first->barrier_blocks != op.barrier_blocks) error("barrier-count", "barrier " + std::to_string(op.barrier) + " is one of " + std::to_string(op.barrier_blocks) + " blocks here and of " + std::to_string(first->barrier_blocks) + " elsewhere", op.where);
      };
      for (const MscclppOp& op : plan_.gpus[g].blocks[b].ops) {
        pass(op, 1);
        for (const MscclppOp& inner : op.inner) pass(inner, op.pipeline_chunks);
      }
    }
    for (const auto& [barrier, blocks] : passes) {
      const int64_t often = blocks.begin()->second;
      if (static_cast<int64_t>(blocks.size()) != any[barrier]->barrier_blocks)
        error("barrier-count", "barrier " + std::to_string(barrier) + " waits for " + std::to_string(any[barrier]->barrier_blocks) + " blocks, and " + std::to_string(blocks.size()) + " come to it", any[barrier]->where);
      else if (std::any_of(blocks.begin(), blocks.end(), [&](const auto& entry) { return entry.second != often; }))
        error("barrier-count", "blocks come to barrier " + std::to_string(barrier) + " more or less often than others", any[barrier]->where);
    }
  }
  return findings_.errors() == errors;
}

// A packet takes twice its data's length, so packets of chunk k lie where plain chunks 2 k and 2 k + 1 would.
bool Checker::check_packet_form() {
  const size_t errors = findings_.errors();
  std::vector<std::set<int64_t>> packets(plan_.gpus.size());
  const auto visit = [&](const MscclppOp& op, bool as_packets, const auto& act) {
    for (const std::vector<MscclppRegion>* regions : {&op.sources, &op.destinations})
      for (const MscclppRegion& region : *regions) {
        if (region.buffer != MscclBuffer::scratch || region.packets != as_packets) continue;
        for (int64_t c = region.index; c < region.index + region.size; ++c) {
          if (region.rank >= 0)
            act(static_cast<uint32_t>(region.rank), c);
          else
            for (const uint32_t rank : plan_.groups[static_cast<size_t>(region.group)].ranks) act(rank, c);
        }
      }
  };
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) { visit(op, true, [&](uint32_t rank, int64_t chunk) { packets[rank].insert(chunk); }); });
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) {
    bool told = false;
    visit(op, false, [&](uint32_t rank, int64_t chunk) {
      if (told || !packets[rank].contains(chunk / 2)) return;
      told = true;
      error("packet-form", op.name + " takes s[" + std::to_string(chunk) + "] of gpu " + std::to_string(rank) + " as plain data, where packets of chunk " + std::to_string(chunk / 2) + " lie", op.where);
    });
  });
  return findings_.errors() == errors;
}

// As many signals as waits, or the next call finds some that are left over.
void Checker::check_counts() {
  struct Count {
    int64_t posts = 0, waits = 0;
    std::string where;
  };
  std::map<std::tuple<uint32_t, uint32_t, MscclppLink, uint32_t>, Count> channels;
  std::map<std::pair<uint32_t, uint32_t>, Count> semaphores;
  for_ops([&](uint32_t gpu, uint32_t, const MscclppOp& op, const MscclppOp* pipeline) {
    const int64_t times = pipeline ? pipeline->pipeline_chunks : 1;  // a pipeline's iterations are as many for both ends
    const bool posts = op.kind == MscclppKind::signal || op.with_signal;
    if (posts || op.kind == MscclppKind::wait)
      for (const uint32_t channel : op.channels) {
        const MscclppChannel& c = plan_.gpus[gpu].channels[channel];
        Count& count = posts ? channels[{c.peer, gpu, c.link, c.number}] : channels[{gpu, c.peer, c.link, c.number}];
        (posts ? count.posts : count.waits) += times;
        if (posts) count.where = op.where;
      }
    if (op.kind == MscclppKind::acquire || op.kind == MscclppKind::release)
      for (const uint32_t semaphore : op.semaphores) {
        Count& count = semaphores[{gpu, semaphore}];
        (op.kind == MscclppKind::release ? count.posts : count.waits) += times;
        count.where = op.where;
      }
  });
  for (const auto& [key, count] : channels) {
    const auto& [to, from, kind, number] = key;
    if (count.posts > count.waits)
      error("signal-count", "gpu " + std::to_string(from) + " signals gpu " + std::to_string(to) + " " + std::to_string(count.posts) + " times on channel " + std::to_string(number) + " between them, which waits " +
                std::to_string(count.waits) + " times: the next call finds signals that are left over",
            count.where);
  }
  for (const auto& [key, count] : semaphores)
    if (count.posts != count.waits)
      warn("semaphore-count", "semaphore " + std::to_string(key.second) + " of gpu " + std::to_string(key.first) + " is released " + std::to_string(count.posts) + " times and acquired " + std::to_string(count.waits) +
               " times: the next call finds another value",
           count.where);
}

// What the executor of today does otherwise than its operations say (design/formats.md 2.7: read in its source, never run).
void Checker::check_defects() {
  std::set<std::string> told;
  const auto tell = [&](const MscclppOp& op, const std::string& what) {
    if (told.insert(what).second) warn("executor-defect", "the executor of today " + what, op.where);
  };
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) {
    if (op.kind == MscclppKind::flush) tell(op, "does nothing for flush");
    if (op.with_flush) tell(op, "gives pwsf a wrong offset of the source");
    if (op.kind == MscclppKind::get)
      for (size_t i = 0; i < op.sources.size(); ++i)
        if (op.sources[i].index != op.destinations[i].index) tell(op, "exchanges the offsets of source and destination of get");
    if (op.kind == MscclppKind::put && op.link != MscclppLink::port)
      for (const MscclppRegion& source : op.sources)
        if (source.buffer != op.sources.front().buffer) tell(op, "takes all sources of put from the first one's buffer");
  });
}

void Checker::check_residency() {
  size_t most = 0;
  uint32_t at = 0;
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g)
    if (plan_.gpus[g].blocks.size() > most) most = plan_.gpus[g].blocks.size(), at = g;
  const auto multiprocessors = static_cast<size_t>(options_.multiprocessors);
  if (most <= multiprocessors) return;
  const std::string message = std::to_string(most) + " blocks wait for each other, so that all must run at once, on " + std::to_string(multiprocessors) + " multiprocessors";
  if (most > 2 * multiprocessors)
    error("not-resident", message, place(at));
  else
    warn("not-resident", message, place(at));
}

void Checker::check_selection() {
  if (!options_.size) return;
  const int64_t size = options_.size->count();
  std::string reason;
  if (static_cast<uint64_t>(size) < plan_.least_bytes || static_cast<uint64_t>(size) > plan_.most_bytes)
    reason = "it is for " + std::to_string(plan_.least_bytes) + " to " + (plan_.most_bytes == UINT64_MAX ? "any number of" : std::to_string(plan_.most_bytes)) + " bytes";
  else if (geometry_.chunks > 0 && size % (plan_.alignment * geometry_.chunks) != 0)
    reason = "it is no multiple of " + std::to_string(geometry_.chunks) + " chunks of a multiple of " + std::to_string(plan_.alignment) + " bytes";
  const std::string what = to_string(*options_.size) + " (" + std::to_string(size) + " bytes)";
  if (reason.empty())
    findings_.add("size-picked", Severity::info, "can be used for " + what, plan_.file);
  else
    warn("size-not-picked", "cannot be used for " + what + ": " + reason, plan_.file);
}

// Into how many units chunks are cut, so that every operation moves whole ones. False where that is beyond measure.
bool Checker::measure() {
  int64_t parts = 1, unit_bytes = 0, initial = 0, moves = 0;
  bool differ = false;
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) {
    parts = std::min<int64_t>(std::lcm(parts, int64_t{op.parts}), most_moves);
    if (op.kind != MscclppKind::pipeline) return;
    differ |= unit_bytes != 0 && unit_bytes != op.unit_bytes;
    unit_bytes = op.unit_bytes;
  });
  if (differ) {
    error("too-fine", "its pipelines have different unit sizes, and are followed only if they have one", plan_.file);
    return false;
  }
  geometry_.slice = parts;
  if (unit_bytes > 0) {
    for (const MscclppGpu& gpu : plan_.gpus)
      for (const int64_t value : gpu.semaphores) initial = std::max(initial, value);
    int64_t chunk_of_scratch = INT64_MAX;
    for (const MscclppGpu& gpu : plan_.gpus)
      if (gpu.scratch_chunks > 0) {
        const int64_t share = (scratch_bytes / (plan_.double_scratch ? 2 : 1) + gpu.scratch_chunks - 1) / gpu.scratch_chunks;
        chunk_of_scratch = std::min(chunk_of_scratch, (share + plan_.alignment - 1) / plan_.alignment * plan_.alignment);
      }
    // Enough to use up what semaphores hold at first, and to come back to the beginning of the scratch.
    geometry_.iterations = std::max<int64_t>(3, initial + 2);
    if (plan_.reuse_scratch && chunk_of_scratch != INT64_MAX) {
      if (chunk_of_scratch % unit_bytes != 0) {
        error("pipeline-operation", "scratch space of " + std::to_string(chunk_of_scratch) + " bytes a chunk is used again, which are no multiple of the pipeline's " + std::to_string(unit_bytes) + ": an iteration would go beyond its end", plan_.file);
        return false;
      }
      geometry_.wrap = chunk_of_scratch / unit_bytes;
      geometry_.iterations = std::max(geometry_.iterations, geometry_.wrap + 2);
    }
    // No more than the largest message has.
    if (plan_.most_bytes != UINT64_MAX)
      geometry_.iterations = std::clamp<int64_t>(static_cast<int64_t>(plan_.most_bytes / static_cast<uint64_t>(geometry_.chunks)) / unit_bytes, 1, geometry_.iterations);
    if (geometry_.wrap >= geometry_.iterations) geometry_.wrap = 0;
    if (geometry_.iterations > most_iterations) {
      error("too-fine", "would have to be followed for " + std::to_string(geometry_.iterations) + " iterations of its pipelines, and is for " + std::to_string(most_iterations) + " at most", plan_.file);
      return false;
    }
    findings_.add("pipeline-iterations", Severity::info, "pipelines were followed for " + std::to_string(geometry_.iterations) + " iterations a chunk, of " + std::to_string(unit_bytes) + " bytes each", plan_.file);
  }
  geometry_.units = geometry_.slice * geometry_.iterations;
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) {
    int64_t regions = 0;
    for (const std::vector<MscclppRegion>* list : {&op.sources, &op.destinations})
      for (const MscclppRegion& region : *list) regions += region.rank >= 0 ? 1 : static_cast<int64_t>(plan_.groups[static_cast<size_t>(region.group)].ranks.size());
    const int64_t chunks = op.sources.empty() ? 0 : op.sources.front().size;
    moves = std::min(moves + std::min(regions * chunks, most_moves) * std::min(geometry_.units, most_moves) / op.parts, most_moves + 1);
  });
  moves += 2 * geometry_.chunks * geometry_.units * static_cast<int64_t>(plan_.gpus.size());
  if (moves > most_moves || geometry_.chunks > most_moves) {
    error("too-fine", "moves more than " + std::to_string(most_moves) + " parts of chunks, too many to follow", plan_.file);
    return false;
  }
  for (const MscclppGpu& gpu : plan_.gpus)
    geometry_.scratch = std::max(geometry_.scratch, gpu.scratch_chunks * (geometry_.wrap > 0 ? geometry_.wrap * geometry_.slice : geometry_.units));
  return true;
}

// A finding about transfers, told in terms of the plan.
Finding Checker::translate(const Program& program, const Schedule& schedule, Finding finding) const {
  std::vector<size_t> transfers;
  constexpr std::string_view prefix = "transfer ";
  for (const std::string& line : finding.witness)
    if (line.starts_with(prefix)) transfers.push_back(std::strtoull(line.c_str() + prefix.size(), nullptr, 10));
  const auto node = [&](size_t t) -> const Program::Node& { return program.node_of(static_cast<uint32_t>(t)); };
  const auto where = [&](const Program::Node& n) { return program.op(n) ? program.op(n)->where : place(n.gpu); };
  // Chunks of buffers as the plan counts them; in place the whole message is one buffer.
  const auto region = [&](int64_t chunk) {
    const Chunk& c = schedule.chunks()[static_cast<size_t>(chunk)];
    const int64_t units = geometry_.units;
    std::string text = std::string(to_string(c.buffer)) + "[" + std::to_string(c.offset / units) + "]";
    if (units > 1) text += " part " + std::to_string(c.offset % units);
    return text;
  };
  finding.witness.clear();
  const Program::Node* before = nullptr;
  for (const size_t t : transfers) {
    if (before == &node(t)) continue;
    before = &node(t);
    finding.witness.push_back(where(*before) + ": " + program.name(*before));
  }
  finding.where = finding.transfer >= 0 ? where(node(static_cast<size_t>(finding.transfer))) : finding.rank >= 0 ? place(static_cast<uint32_t>(finding.rank)) : plan_.file;
  const std::string at = finding.chunk >= 0 ? region(finding.chunk) + " of gpu " + std::to_string(finding.rank) : "";
  if (finding.rule == "race" && transfers.size() == 2) {
    const Program::Node &a = node(transfers[0]), &b = node(transfers[1]);
    const bool by_caller = a.kind == Program::Kind::gate || b.kind == Program::Kind::gate;
    const Program::Node& other = a.kind == Program::Kind::gate ? b : a;
    const std::string both = program.name(a) + " and " + program.name(b);
    if (by_caller) {
      const Program::Node& caller = a.kind == Program::Kind::gate ? a : b;
      if (other.launch <= caller.launch) {
        finding.rule = "not-awaited";
        finding.message = program.name(other) + " may still be at " + at + " when that GPU's kernel has ended: nothing there waits for it";
      } else {
        finding.rule = "next-call-race";
        finding.message = program.name(other) + " may be at " + at + " before that GPU's next kernel has begun: nothing waits for that";
      }
      finding.where = where(other);
    } else if (a.launch != b.launch) {
      finding.rule = "next-call-race";
      finding.message = both + " touch " + at + " in either order: nothing keeps the calls apart";
    } else if (a.gpu == b.gpu && a.block == b.block) {
      finding.rule = "missing-nop";
      finding.message = both + " touch " + at + ", and threads of the block may be at either: there is no nop in between";
    } else {
      finding.message = both + " touch " + at + " in either order, and at least one writes";
    }
  } else if (finding.rule == "undefined-read" && !transfers.empty()) {
    finding.message = program.name(node(transfers[0])) + " reads " + at + ", which holds nothing then";
  } else if (finding.rule == "wrong-result" && geometry_.units > 1) {
    finding.message += " (" + std::to_string(geometry_.units) + " units a chunk)";
  }
  finding.transfer = -1;
  finding.chunk = -1;
  return finding;
}

void Checker::check_results() {
  const bool in_place = geometry_.type && plan_.in_place;
  std::vector<int> roots = {-1};
  if (geometry_.type && has_root(*geometry_.type)) {
    roots.resize(plan_.gpus.size());
    std::iota(roots.begin(), roots.end(), 0);
  }
  ValidateOptions validation;
  validation.check_result = geometry_.type.has_value();
  validation.input_is_constant = false;
  validation.max_findings = 20;
  std::vector<Finding> best;
  for (const int root : roots) {
    Program program(plan_, geometry_, 1, true, in_place, root);
    const Program::Outcome outcome = program.run();
    if (!outcome.completed) {
      const Program::Node dummy;
      std::string message = outcome.cycle ? "never ends: " + std::to_string(outcome.waits.size()) + " operations wait for each other in a circle" : "never ends: " + (outcome.waits.empty() ? std::string("operations wait for what never comes") : outcome.waits.front());
      if (Finding* finding = findings_.add("deadlock", Severity::error, message, plan_.file)) finding->witness = outcome.waits;
      return;
    }
    report_.ends = true;
    std::vector<Finding> found = validate(program.schedule(), validation);
    // What the caller would read of a result that is not there is told as a wrong result.
    std::erase_if(found, [&](const Finding& f) { return f.rule == "undefined-read" && program.node_of(static_cast<uint32_t>(f.transfer)).kind == Program::Kind::gate; });
    const bool right = !has_errors(found);
    if (right) best.clear();
    if (right || report_.result == MscclResult::unknown || found.size() < best.size()) {
      const bool races = std::any_of(found.begin(), found.end(), [](const Finding& f) { return f.rule == "race"; });
      report_.result = right ? MscclResult::right : races ? MscclResult::race : MscclResult::wrong;
      report_.root = root;
      if (!right) {
        best = std::move(found);
        for (Finding& finding : best) finding = translate(program, program.schedule(), std::move(finding));
      }
    }
    if (right) break;
  }
  for (Finding& finding : best) findings_.add(std::move(finding));
  if (report_.result == MscclResult::right) {
    // Calls that follow each other; with two halves of scratch the third uses the first one again.
    Program program(plan_, geometry_, plan_.double_scratch ? 3 : 2, true, in_place, report_.root);
    if (program.run().completed) {
      validation.check_result = false;
      for (Finding& finding : validate(program.schedule(), validation)) {
        if (finding.rule != "race") continue;
        Finding told = translate(program, program.schedule(), std::move(finding));
        told.severity = Severity::warning;
        findings_.add(std::move(told));
      }
    } else {
      warn("next-call-race", "a second call never ends: the first leaves signals or semaphores otherwise than it found them", plan_.file);
    }
    if (!geometry_.type) report_.result = MscclResult::unknown;
  }
  Program plain(plan_, geometry_, 1, false, in_place, report_.root);
  plain.run();
  report_.schedule = std::move(plain.schedule());
}

void Checker::check_traffic() {
  bool multicast = false;
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) { multicast |= op.kind == MscclppKind::load_reduce_store || op.kind == MscclppKind::multi_store; });
  // What goes through a switch is added up and copied there.
  if (report_.schedule && !multicast && geometry_.type)
    if (std::optional<Finding> excess = excess_traffic(*report_.schedule)) {
      excess->where = plan_.file;
      findings_.add(std::move(*excess));
    }
  std::vector<std::set<int64_t>> used(plan_.gpus.size());
  for_ops([&](uint32_t, uint32_t, const MscclppOp& op, const MscclppOp*) {
    for (const std::vector<MscclppRegion>* regions : {&op.sources, &op.destinations})
      for (const MscclppRegion& region : *regions)
        if (region.buffer == MscclBuffer::scratch)
          for (int64_t c = region.index; c < region.index + region.size; ++c) {
            if (region.rank >= 0)
              used[static_cast<size_t>(region.rank)].insert(c);
            else
              for (const uint32_t rank : plan_.groups[static_cast<size_t>(region.group)].ranks) used[rank].insert(c);
          }
    if (op.kind == MscclppKind::put || op.kind == MscclppKind::copy)
      if (op.destinations.front().buffer == MscclBuffer::input && !plan_.in_place) warn("input-overwritten", op.name + " writes to the input, which out of place is the caller's", op.where);
  });
  for (uint32_t g = 0; g < plan_.gpus.size(); ++g)
    if (const auto all = plan_.gpus[g].scratch_chunks, some = static_cast<int64_t>(used[g].size()); some < all)
      findings_.add("unused-scratch", Severity::info, std::to_string(all - some) + " of " + std::to_string(all) + " scratch chunks are never used", place(g));
}

MscclppReport Checker::check(std::vector<Finding> reading) {
  for (Finding& finding : reading) {
    if (finding.rule == "loader") {
      report_.refused = true;
      if (options_.executor) finding.severity = Severity::error;
    }
    findings_.add(std::move(finding));
  }
  bool sound = check_chunks();
  sound = check_operands() && sound;
  sound = check_barriers() && sound;
  sound = check_packet_form() && sound;
  check_counts();
  if (sound) check_defects();
  check_residency();
  check_selection();
  if (sound && measure()) {
    report_.structure_ok = true;
    check_results();
    check_traffic();
  }
  report_.findings = findings_.take();
  return std::move(report_);
}

}  // namespace

std::string MscclppReport::contents() const {
  if (!structure_ok) return "broken";
  if (!ends) return "never ends";
  return result == MscclResult::unknown ? "runs" : std::string(to_string(result));
}

std::string MscclppReport::verdict() const { return refused ? "refused" : contents(); }

MscclppReport check_mscclpp(const MscclppPlan& plan, const MscclppCheckOptions& options, std::vector<Finding> reading) {
  return Checker(plan, options).check(std::move(reading));
}

Schedule parse_mscclpp_plan(std::string_view text, const std::string& file) {
  std::vector<Finding> reading;
  const MscclppPlan plan = read_mscclpp_plan(text, file, reading);
  MscclppReport report = check_mscclpp(plan, {});
  if (!report.schedule) {
    for (const Finding& finding : report.findings)
      if (finding.severity == Severity::error) throw Error(ErrorKind::input, std::string(finding.rule) + ": " + finding.message, finding.where);
    throw Error(ErrorKind::input, "cannot be executed", file);
  }
  if (!msccl_collective(plan.collective))
    throw Error(ErrorKind::input, "collective \"" + plan.collective.substr(0, 40) + "\" has no rule for what it computes, so it is no schedule of a collective", file);
  return std::move(*report.schedule);
}

}  // namespace slackline
