#include "schedule/msccl_export.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr int most_chunks = 71;    // a step
constexpr int most_channels = 32;
constexpr int most_nodes = 4096;   // XML elements that a rank sees

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::input, "MSCCL export: " + message); }

class Exporter {
 public:
  Exporter(const Schedule& schedule, const MscclExportOptions& options);
  MscclProgram take();

 private:
  // Where a step is: a block of a rank and the step's number in it.
  struct Place {
    uint32_t block = none;
    uint32_t step = 0;
  };
  struct Rank {
    MscclGpu gpu;
    std::vector<uint32_t> known;  // per pair of blocks (b, c): steps of c that have ended when b's last step begins
    std::vector<std::vector<std::pair<uint32_t, std::vector<uint32_t>>>> posted;  // per block: step, what it knows
    std::map<std::pair<int, uint16_t>, uint32_t> sending, receiving;  // peer and channel: block now
    std::map<uint16_t, uint32_t> local;
    std::map<uint16_t, Place> last_send, last_receive;  // on a channel
    int64_t scratch = 0;
  };

  void measure();
  void add(uint32_t transfer);
  void connect(uint32_t src, uint32_t dst, uint16_t channel, uint32_t& sender, uint32_t& receiver);
  uint32_t add_block(Rank& rank, int send, int receive, int channel);
  int free_channel(uint32_t src, uint32_t dst, int preferred);
  // Blocks and steps of this rank that must have ended, without those that `block` knows of.
  std::vector<Place> needed(Rank& rank, uint32_t block, std::vector<Place> places) const;
  Place add_steps(Rank& rank, uint32_t block, const std::vector<Place>& waits, MscclStep step, int32_t count);
  std::pair<MscclBuffer, int32_t> locate(uint32_t rank, const Chunk& chunk) const;
  size_t knows(const Rank& rank, uint32_t block, uint32_t other) const;
  // In place, only the root of gather and scatter has the whole buffer.
  bool is_partial(uint32_t rank) const {
    const Collective& c = schedule_.collective();
    return c.in_place && (c.type == CollectiveType::gather || c.type == CollectiveType::scatter) && static_cast<int>(rank) != c.root;
  }

  const Schedule& schedule_;
  const MscclExportOptions& options_;
  MscclProgram program_;
  int64_t grain_ = 1;  // units of a chunk
  std::vector<Rank> ranks_;
  std::vector<Place> send_, receive_;  // of each transfer; equal for local ones
  std::set<std::tuple<uint32_t, uint32_t, int>> channels_;  // in use between two ranks
  // The schedule's channels keep their order, so that the file can be read back into them (lower_msccl_directly()).
  std::map<uint16_t, int> number_of_channel_;
  std::set<std::tuple<uint32_t, uint32_t, uint16_t>> started_;
};

Exporter::Exporter(const Schedule& schedule, const MscclExportOptions& options) : schedule_(schedule), options_(options) {
  const Collective& collective = schedule.collective();
  if (collective.ranks < 2 || schedule.units() < 1) fail("the schedule has no ranks or no units");
  measure();
  program_.name = schedule.algorithm().empty() ? "slackline" : schedule.algorithm();
  program_.collective = collective.type == CollectiveType::reduce_scatter && options.executor->name != "msccl"
                            ? "reducescatter"
                            : std::string(to_string(collective.type));
  const auto& known = options.executor->collectives;
  if (std::find(known.begin(), known.end(), program_.collective) == known.end())
    fail(std::string(options.executor->name) + " has no " + program_.collective);
  program_.protocol = options.protocol;
  program_.chunks = static_cast<int32_t>(schedule.units() / grain_);
  program_.ranks = collective.ranks;
  program_.in_place = collective.in_place;
  program_.out_of_place = !collective.in_place;
  program_.min_bytes = options.min_bytes;
  program_.max_bytes = options.max_bytes;
  for (const std::string_view name : {"name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace", "minBytes", "maxBytes"})
    program_.attributes.emplace_back(name);

  ranks_.resize(static_cast<size_t>(collective.ranks));
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    MscclGpu& gpu = ranks_[r].gpu;
    gpu.id = static_cast<int32_t>(r);
    const bool gathers = collective.type == CollectiveType::allgather || collective.type == CollectiveType::gather;
    const bool scatters = collective.type == CollectiveType::reduce_scatter || collective.type == CollectiveType::scatter;
    const int32_t part = program_.chunks / program_.ranks;
    const bool partial = is_partial(r);
    if (collective.in_place) {
      // One name for the one buffer: that of the two that the caller must give on this rank and that is long enough.
      const bool output = partial ? scatters : gathers || collective.type == CollectiveType::broadcast;
      (output ? gpu.output_chunks : gpu.input_chunks) = partial ? part : program_.chunks;
    } else {
      gpu.input_chunks = gathers ? part : program_.chunks;
      gpu.output_chunks = scatters ? part : program_.chunks;
    }
  }
  send_.resize(schedule.size());
  receive_.resize(schedule.size());
  for (uint32_t t = 0; t < schedule.size(); ++t) add(t);
}

// The largest part of the message of which all chunks are whole multiples.
void Exporter::measure() {
  grain_ = schedule_.units();
  if (has_parts(schedule_.collective().type)) grain_ = schedule_.units() / std::max(schedule_.collective().ranks, 1);
  const auto& chunks = schedule_.chunks();
  for (size_t t = 0; t < schedule_.size(); ++t) {
    if (schedule_.src(t) >= static_cast<uint32_t>(schedule_.collective().ranks) || schedule_.dst(t) >= static_cast<uint32_t>(schedule_.collective().ranks))
      fail("transfer " + std::to_string(t) + " is between ranks that do not exist");
    if (schedule_.src(t) != schedule_.dst(t)) number_of_channel_.emplace(schedule_.channel(t), 0);
    for (const uint32_t d : schedule_.after(t))
      if (d >= t) fail("transfer " + std::to_string(t) + " waits for one that does not stand before it");
    for (const uint32_t c : {schedule_.src_chunk(t), schedule_.dst_chunk(t)}) {
      if (c >= chunks.size() || chunks[c].offset < 0 || chunks[c].length < 1) fail("transfer " + std::to_string(t) + " moves a chunk that does not exist");
      grain_ = std::gcd(grain_, std::gcd(chunks[c].offset, chunks[c].length));
    }
  }
  int number = 0;
  for (auto& [channel, index] : number_of_channel_) index = number++ % most_channels;
  if (grain_ < 1 || schedule_.units() / grain_ > INT16_MAX)
    fail("the message would have " + std::to_string(schedule_.units() / std::max<int64_t>(grain_, 1)) + " chunks, and executors keep offsets in 16 bits");
}

std::pair<MscclBuffer, int32_t> Exporter::locate(uint32_t rank, const Chunk& chunk) const {
  const int64_t offset = chunk.offset / grain_;
  if (offset + chunk.length / grain_ > INT16_MAX) fail("offsets go beyond 32767 chunks, which executors keep in 16 bits");
  const auto at = static_cast<int32_t>(offset);
  switch (chunk.buffer) {
    case Buffer::scratch: return {MscclBuffer::scratch, at};
    case Buffer::input: return {MscclBuffer::input, at};
    case Buffer::output: return {MscclBuffer::output, at};
    case Buffer::data: break;
  }
  const MscclGpu& gpu = ranks_[rank].gpu;
  const MscclBuffer buffer = gpu.input_chunks > 0 ? MscclBuffer::input : MscclBuffer::output;
  if (!is_partial(rank)) return {buffer, at};
  const int32_t part = program_.chunks / program_.ranks, shifted = at - static_cast<int32_t>(rank) * part;
  if (shifted < 0 || shifted + chunk.length / grain_ > part)
    fail("rank " + std::to_string(rank) + " keeps other ranks' parts in its buffer, of which MSCCL gives it only its own part; use scratch");
  return {buffer, shifted};
}

uint32_t Exporter::add_block(Rank& rank, int send, int receive, int channel) {
  MscclBlock block;
  block.id = static_cast<int32_t>(rank.gpu.blocks.size());
  block.send = send;
  block.receive = receive;
  block.channel = channel;
  program_.channels = std::max(program_.channels, channel + 1);
  rank.gpu.blocks.push_back(std::move(block));
  if (rank.gpu.blocks.size() > static_cast<size_t>(options_.executor->max_blocks))
    fail("rank " + std::to_string(rank.gpu.id) + " needs more than the " + std::to_string(options_.executor->max_blocks) + " blocks that " +
         std::string(options_.executor->name) + " takes; fewer segments or peers need fewer");
  rank.posted.emplace_back();
  return static_cast<uint32_t>(rank.gpu.blocks.back().id);
}

// `preferred`, or the next that the two do not use yet.
int Exporter::free_channel(uint32_t src, uint32_t dst, int preferred) {
  for (int i = 0; i < most_channels; ++i)
    if (const int channel = (preferred + i) % most_channels; channels_.emplace(src, dst, channel).second) return channel;
  fail("rank " + std::to_string(src) + " needs more than 32 channels to rank " + std::to_string(dst) + "; fewer segments need fewer");
}

// What `block` knows of `other`: the number of its steps that have ended.
size_t Exporter::knows(const Rank& rank, uint32_t block, uint32_t other) const {
  const size_t blocks = static_cast<size_t>(options_.executor->max_blocks);
  const size_t index = block * blocks + other;
  return index < rank.known.size() ? rank.known[index] : 0;
}

std::vector<Exporter::Place> Exporter::needed(Rank& rank, uint32_t block, std::vector<Place> places) const {
  // Of one block only the last step counts, and nothing counts that another of the places implies.
  std::map<uint32_t, uint32_t> latest;
  for (const Place& place : places)
    if (place.block != none && place.block != block) {
      uint32_t& step = latest.try_emplace(place.block, place.step).first->second;
      step = std::max(step, place.step);
    }
  std::vector<Place> result;
  for (const auto& [other, step] : latest) {
    if (knows(rank, block, other) > step) continue;
    const bool implied = std::any_of(latest.begin(), latest.end(), [&, o = other, s = step](const auto& entry) {
      if (entry.first == o) return false;
      const auto& posts = rank.posted[entry.first];
      // What that step itself knows, from the last record at or before it.
      const auto record = std::upper_bound(posts.begin(), posts.end(), entry.second, [](uint32_t value, const auto& post) { return value < post.first; });
      return record != posts.begin() && o < std::prev(record)->second.size() && std::prev(record)->second[o] > s;
    });
    if (!implied) result.push_back({other, step});
  }
  return result;
}

Exporter::Place Exporter::add_steps(Rank& rank, uint32_t block, const std::vector<Place>& waits, MscclStep step, int32_t count) {
  MscclBlock& tb = rank.gpu.blocks[block];
  const size_t blocks = static_cast<size_t>(options_.executor->max_blocks);
  if (rank.known.size() < (block + 1) * blocks) rank.known.resize((block + 1) * blocks, 0);
  for (size_t w = 0; w < waits.size(); ++w) {
    rank.gpu.blocks[waits[w].block].steps[waits[w].step].posts = true;
    MscclStep waiting;
    waiting.dep_block = static_cast<int32_t>(waits[w].block);
    waiting.dep_step = static_cast<int32_t>(waits[w].step);
    if (w + 1 < waits.size()) {
      tb.steps.push_back(waiting);
    } else {
      step.dep_block = waiting.dep_block;
      step.dep_step = waiting.dep_step;
    }
    // Join what the other block knew then.
    uint32_t& own = rank.known[block * blocks + waits[w].block];
    own = std::max(own, waits[w].step + 1);
    const auto& posts = rank.posted[waits[w].block];
    const auto record = std::upper_bound(posts.begin(), posts.end(), waits[w].step, [](uint32_t value, const auto& post) { return value < post.first; });
    if (record == posts.begin()) continue;
    const std::vector<uint32_t>& theirs = std::prev(record)->second;
    for (size_t o = 0; o < theirs.size(); ++o) rank.known[block * blocks + o] = std::max(rank.known[block * blocks + o], theirs[o]);
  }
  if (!waits.empty()) {
    const auto row = rank.known.begin() + static_cast<ptrdiff_t>(block * blocks);
    rank.posted[block].emplace_back(static_cast<uint32_t>(tb.steps.size()), std::vector<uint32_t>(row, row + static_cast<ptrdiff_t>(rank.gpu.blocks.size())));
  }
  for (int32_t done = 0; done < count;) {
    step.count = std::min(count - done, most_chunks);
    tb.steps.push_back(step);
    step.src_offset += step.count;
    step.dst_offset += step.count;
    done += step.count;
    step.dep_block = step.dep_step = -1;
  }
  return {block, static_cast<uint32_t>(tb.steps.size()) - 1};
}

// The blocks that carry the next message of a channel between two ranks.
void Exporter::connect(uint32_t src, uint32_t dst, uint16_t channel, uint32_t& sender, uint32_t& receiver) {
  const auto [entry, fresh] = ranks_[src].sending.try_emplace({static_cast<int>(dst), channel}, none);
  if (fresh) {
    const bool first = started_.emplace(src, dst, channel).second;
    const int chan = free_channel(src, dst, first ? number_of_channel_.at(channel) : static_cast<int>(number_of_channel_.size()) % most_channels);
    entry->second = add_block(ranks_[src], static_cast<int>(dst), -1, chan);
    ranks_[dst].receiving[{static_cast<int>(src), channel}] = add_block(ranks_[dst], -1, static_cast<int>(src), chan);
  }
  sender = entry->second;
  receiver = ranks_[dst].receiving[{static_cast<int>(src), channel}];
}

void Exporter::add(uint32_t transfer) {
  const Transfer t = schedule_.transfer(transfer);
  const auto& chunks = schedule_.chunks();
  const Chunk &source = chunks[t.src_chunk], &destination = chunks[t.dst_chunk];
  if (source.length != destination.length) fail("transfer " + std::to_string(transfer) + " reads and writes different lengths");
  const auto count = static_cast<int32_t>(source.length / grain_);
  MscclStep step;
  std::tie(step.src_buffer, step.src_offset) = locate(t.src, source);
  std::tie(step.dst_buffer, step.dst_offset) = locate(t.dst, destination);
  for (const auto& [rank, chunk] : {std::pair{t.src, &source}, std::pair{t.dst, &destination}})
    if (chunk->buffer == Buffer::scratch) ranks_[rank].scratch = std::max(ranks_[rank].scratch, (chunk->offset + chunk->length) / grain_);

  // What must have ended, told by the ranks that can see it.
  std::vector<Place> at_src, at_dst;
  for (const uint32_t d : t.after) {
    const uint32_t from = schedule_.src(d), to = schedule_.dst(d);
    const bool seen_at_src = to == t.src || from == t.src;
    if (to == t.src) at_src.push_back(receive_[d]);
    else if (from == t.src) at_src.push_back(send_[d]);
    if (to == t.dst && t.dst != t.src) at_dst.push_back(receive_[d]);
    else if (from == t.dst && to != t.src && t.dst != t.src) at_dst.push_back(send_[d]);
    else if (!seen_at_src)
      fail("transfer " + std::to_string(transfer) + " waits for transfer " + std::to_string(d) + ", which touches neither of its ranks; MSCCL has no way to say that");
  }
  Rank &src = ranks_[t.src], &dst = ranks_[t.dst];
  at_src.push_back(src.last_send[t.channel]);
  (t.src == t.dst ? at_src : at_dst).push_back(dst.last_receive[t.channel]);

  const auto limit = static_cast<size_t>(options_.executor->max_steps);
  const auto steps = static_cast<size_t>((count + most_chunks - 1) / most_chunks);
  if (t.src == t.dst) {
    auto [entry, fresh] = src.local.try_emplace(t.channel, none);
    std::vector<Place> waits;
    if (!fresh) waits = needed(src, entry->second, at_src);
    if (fresh || src.gpu.blocks[entry->second].steps.size() + waits.size() + steps > limit) {
      if (!fresh) at_src.push_back({entry->second, static_cast<uint32_t>(src.gpu.blocks[entry->second].steps.size()) - 1});
      entry->second = add_block(src, -1, -1, 0);
      waits = needed(src, entry->second, at_src);
    }
    step.op = t.op == TransferOp::copy ? MscclOp::cpy : MscclOp::re;
    send_[transfer] = receive_[transfer] = add_steps(src, entry->second, waits, step, count);
  } else {
    uint32_t sender = none, receiver = none;
    connect(t.src, t.dst, t.channel, sender, receiver);
    std::vector<Place> send_waits = needed(src, sender, at_src), receive_waits = needed(dst, receiver, at_dst);
    const auto length = [&](const Rank& rank, uint32_t block, const std::vector<Place>& waits) {
      return rank.gpu.blocks[block].steps.size() + std::max<size_t>(waits.size(), 1) - 1 + steps;
    };
    if (length(src, sender, send_waits) > limit || length(dst, receiver, receive_waits) > limit) {
      // Both ends go on in new blocks, after the old ones.
      at_src.push_back({sender, static_cast<uint32_t>(src.gpu.blocks[sender].steps.size()) - 1});
      at_dst.push_back({receiver, static_cast<uint32_t>(dst.gpu.blocks[receiver].steps.size()) - 1});
      src.sending.erase({static_cast<int>(t.dst), t.channel});
      connect(t.src, t.dst, t.channel, sender, receiver);
      send_waits = needed(src, sender, at_src);
      receive_waits = needed(dst, receiver, at_dst);
      if (length(src, sender, send_waits) > limit || length(dst, receiver, receive_waits) > limit)
        fail("transfer " + std::to_string(transfer) + " alone needs more than the " + std::to_string(limit) + " steps of a block that " + std::string(options_.executor->name) + " takes");
    }
    MscclStep sent = step;
    sent.op = MscclOp::s;
    send_[transfer] = add_steps(src, sender, send_waits, sent, count);
    MscclStep received = step;
    if (t.op == TransferOp::copy) {
      received.op = MscclOp::r;
    } else {
      received.op = MscclOp::rrc;
      received.src_buffer = received.dst_buffer;
      received.src_offset = received.dst_offset;
    }
    receive_[transfer] = add_steps(dst, receiver, receive_waits, received, count);
  }
  src.last_send[t.channel] = send_[transfer];
  dst.last_receive[t.channel] = receive_[transfer];
}

MscclProgram Exporter::take() {
  for (Rank& rank : ranks_) {
    size_t nodes = 1 + ranks_.size() + rank.gpu.blocks.size();
    for (MscclBlock& block : rank.gpu.blocks) {
      nodes += block.steps.size();
      for (size_t s = 0; s < block.steps.size(); ++s) block.steps[s].declared = static_cast<int32_t>(s);
    }
    if (nodes > most_nodes)
      fail("rank " + std::to_string(rank.gpu.id) + " would see " + std::to_string(nodes) + " elements, and executors read 4096; fewer segments need fewer");
    rank.gpu.scratch_chunks = static_cast<int32_t>(rank.scratch);
    program_.gpus.push_back(std::move(rank.gpu));
  }
  program_.channels = std::max(program_.channels, 1);
  return std::move(program_);
}

}  // namespace

MscclProgram export_msccl(const Schedule& schedule, const MscclExportOptions& options) {
  return Exporter(schedule, options).take();
}

}  // namespace slackline
