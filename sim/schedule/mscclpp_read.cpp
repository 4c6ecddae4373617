#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/json.hpp"
#include "schedule/mscclpp.hpp"

namespace slackline {

namespace {

constexpr int64_t most_chunks = INT32_MAX;
constexpr size_t most_gpus = 4096;
// An executor's limits (design/formats.md 2.5).
constexpr size_t limit_ops = 64, limit_block_channels = 16, limit_op_channels = 8, limit_semaphores = 16;
constexpr int64_t limit_barriers = 16;

struct OpName {
  std::string_view name;
  MscclppKind kind;
  bool today;  ///< the executor of today knows it
};
// "cpkt" is not here: it was to unpack until 2025, and is to pack since.
constexpr std::array<OpName, 38> op_names = {{
    {"nop", MscclppKind::nop, true},
    {"barrier", MscclppKind::barrier, true},
    {"copy", MscclppKind::copy, true},
    {"put", MscclppKind::put, true},
    {"pws", MscclppKind::put, true},
    {"pwsf", MscclppKind::put, true},
    {"get", MscclppKind::get, true},
    {"signal", MscclppKind::signal, true},
    {"rlxsignal", MscclppKind::signal, true},
    {"rsignal", MscclppKind::signal, false},
    {"wait", MscclppKind::wait, true},
    {"rlxwait", MscclppKind::wait, true},
    {"rwait", MscclppKind::wait, false},
    {"flush", MscclppKind::flush, true},
    {"re", MscclppKind::reduce, true},
    {"res", MscclppKind::reduce, true},
    {"rs", MscclppKind::reduce, false},
    {"rre", MscclppKind::reduce, true},
    {"rrc", MscclppKind::reduce, false},
    {"rres", MscclppKind::reduce, true},
    {"rrcs", MscclppKind::reduce, false},
    {"ppkt", MscclppKind::put_packets, true},
    {"rppkt", MscclppKind::forward_packets, true},
    {"tpkt", MscclppKind::pack, false},
    {"upkt", MscclppKind::unpack, true},
    {"ucpkt", MscclppKind::unpack, false},
    {"repkt", MscclppKind::reduce_packets, true},
    {"rpkt", MscclppKind::reduce_packets, false},
    {"respkt", MscclppKind::reduce_packets, true},
    {"rspkt", MscclppKind::reduce_packets, false},
    {"recpkt", MscclppKind::reduce_packets, true},
    {"recspkt", MscclppKind::reduce_packets, true},
    {"glres", MscclppKind::load_reduce_store, true},
    {"gstore", MscclppKind::multi_store, true},
    {"gstorepkt", MscclppKind::multi_store, false},
    {"sem_acquire", MscclppKind::acquire, true},
    {"sem_release", MscclppKind::release, true},
    {"pipeline", MscclppKind::pipeline, true},
}};

class PlanReader {
 public:
  PlanReader(const JsonCursor& root, const std::string& file, std::vector<Finding>& findings) : root_(root), findings_(findings) { plan_.file = file; }
  MscclppPlan read();

 private:
  // Names that a block gives to what it uses.
  struct Block {
    uint32_t gpu = 0;
    // By kind of link. With the first generation also by the buffers that a channel joins.
    std::map<std::tuple<MscclppLink, char, char>, std::vector<uint32_t>> channels;
    std::map<MscclppLink, std::vector<std::pair<uint32_t, MscclBuffer>>> buffers;  // of other ranks
    std::vector<uint32_t> groups;
  };
  // Of a GPU: where the n-th channel of a kind (and, in the first generation, of a pair of buffers) is.
  struct Gpu {
    std::map<std::tuple<MscclppLink, char, char>, std::vector<uint32_t>> channels;
    std::vector<uint32_t> groups;
    std::vector<std::tuple<uint32_t, MscclBuffer>> remote_buffers;
  };

  // Why today's executor would not load the plan, each reason once.
  void refused(const std::string& why, const JsonCursor& at) {
    if (told_.insert(why).second) findings_.push_back({.rule = "loader", .severity = Severity::warning, .message = "the executor of today does not load it: " + why, .where = at.where()});
  }
  // The first of the keys that is there; the first of all is the one of today.
  std::optional<JsonCursor> first_of(const JsonCursor& object, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      const auto found = object.find(key);
      if (!found) continue;
      if (key != *keys.begin()) refused("\"" + std::string(key) + "\" is called \"" + std::string(*keys.begin()) + "\" now", object);
      return found;
    }
    return std::nullopt;
  }
  JsonCursor need(const JsonCursor& object, std::initializer_list<std::string_view> keys) {
    if (const auto found = first_of(object, keys)) return *found;
    return object.at(*keys.begin());  // complains
  }
  MscclppLink link(const JsonCursor& cursor);
  static char buffer_letter(const JsonCursor& cursor) {
    static constexpr std::array<std::string_view, 3> names = {"i", "o", "s"};
    return cursor.one_of(names, "buffer")[0];
  }
  static MscclBuffer buffer(const JsonCursor& cursor) {
    const char letter = buffer_letter(cursor);
    return letter == 'i' ? MscclBuffer::input : letter == 'o' ? MscclBuffer::output : MscclBuffer::scratch;
  }
  int32_t rank(const JsonCursor& cursor) const { return static_cast<int32_t>(cursor.integer(0, static_cast<int64_t>(ranks_) - 1)); }
  void read_gpu(const JsonCursor& cursor, uint32_t index);
  void read_channel(const JsonCursor& cursor, uint32_t gpu);
  Block read_block_names(const JsonCursor& cursor, uint32_t gpu);
  MscclppOp read_op(const JsonCursor& cursor, const Block& block, bool in_pipeline);
  void read_op_of_today(const JsonCursor& cursor, const Block& block, MscclppOp& op);
  void read_first_op(const JsonCursor& cursor, const Block& block, MscclppOp& op);
  std::vector<MscclppRegion> read_regions(const JsonCursor& cursor, const Block& block, MscclppLink link);
  std::vector<uint32_t> channels_of(const JsonCursor& cursor, const Block& block, std::tuple<MscclppLink, char, char> key, std::vector<int64_t>* offsets);

  const JsonCursor& root_;
  std::vector<Finding>& findings_;
  std::set<std::string> told_;
  MscclppPlan plan_;
  size_t ranks_ = 0;
  std::vector<Gpu> gpus_;
  std::map<std::tuple<uint32_t, uint32_t, MscclppLink>, uint32_t> numbers_;  // channels between two ranks so far
};

MscclppLink PlanReader::link(const JsonCursor& cursor) {
  static constexpr std::array<std::string_view, 7> names = {"memory", "port", "switch", "none", "sm", "proxy", "nvls"};
  const std::string name = cursor.one_of(names, "channel type");
  if (name == "sm" || name == "proxy" || name == "nvls")
    refused("channels of type \"" + name + "\" are called \"" + (name == "sm" ? "memory" : name == "proxy" ? "port" : "switch") + "\" now", cursor);
  if (name == "memory" || name == "sm") return MscclppLink::memory;
  if (name == "port" || name == "proxy") return MscclppLink::port;
  return name == "none" ? MscclppLink::none : MscclppLink::multicast;
}

void PlanReader::read_channel(const JsonCursor& cursor, uint32_t gpu) {
  const MscclppLink kind = link(need(cursor, {"channel_type", "type"}));
  Gpu& names = gpus_[gpu];
  if (kind == MscclppLink::none) cursor.fail("is a channel of type \"none\"");
  if (kind == MscclppLink::multicast) {
    const MscclBuffer buffer = PlanReader::buffer(need(cursor, {"buffer_type", "buff"}));
    for (const JsonCursor& group : need(cursor, {"rank_groups", "rankGroups"}).elements()) {
      plan_.groups.push_back({buffer, {}});
      for (const JsonCursor& member : group.at("ranks").elements()) plan_.groups.back().ranks.push_back(static_cast<uint32_t>(rank(member)));
      std::vector<uint32_t> ranks = plan_.groups.back().ranks;
      std::sort(ranks.begin(), ranks.end());
      if (ranks.empty() || std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) group.at("ranks").fail("must name at least one rank, each once");
      names.groups.push_back(static_cast<uint32_t>(plan_.groups.size() - 1));
    }
    return;
  }
  std::tuple<MscclppLink, char, char> key{kind, 0, 0};
  if (cursor.has("srcbuff")) key = {kind, buffer_letter(cursor.at("srcbuff")), buffer_letter(cursor.at("dstbuff"))};
  for (const JsonCursor& peer : need(cursor, {"connected_to", "connectedTo"}).elements()) {
    const auto other = static_cast<uint32_t>(rank(peer));
    if (other == gpu) peer.fail("connects a rank to itself");
    std::vector<MscclppChannel>& channels = plan_.gpus[gpu].channels;
    names.channels[key].push_back(static_cast<uint32_t>(channels.size()));
    channels.push_back({kind, other, numbers_[{gpu, other, kind}]++});
  }
}

PlanReader::Block PlanReader::read_block_names(const JsonCursor& cursor, uint32_t gpu) {
  Block block;
  block.gpu = gpu;
  const Gpu& names = gpus_[gpu];
  size_t channels = 0;
  for (const JsonCursor& entry : cursor.at("channels").elements()) {
    const MscclppLink kind = link(need(entry, {"channel_type", "ctype"}));
    std::tuple<MscclppLink, char, char> key{kind, 0, 0};
    if (entry.has("src") && kind != MscclppLink::multicast) key = {kind, buffer_letter(entry.at("src")), buffer_letter(entry.at("dst"))};
    const auto known = names.channels.find(key);
    const size_t count = kind == MscclppLink::multicast ? names.groups.size() : known == names.channels.end() ? 0 : known->second.size();
    for (const JsonCursor& id : need(entry, {"channel_ids", "cids", "cid"}).elements()) {
      const int64_t at = id.integer(0, INT32_MAX);
      if (static_cast<size_t>(at) >= count) id.fail("names channel " + std::to_string(at) + " of its kind, of which the GPU has " + std::to_string(count));
      if (kind == MscclppLink::multicast)
        block.groups.push_back(names.groups[static_cast<size_t>(at)]);
      else
        block.channels[key].push_back(known->second[static_cast<size_t>(at)]);
      if (++channels == limit_block_channels + 1) refused("a block has more than " + std::to_string(limit_block_channels) + " channels", entry);
    }
  }
  const auto add_buffer = [&](MscclppLink kind, const JsonCursor& id) {
    const int64_t at = id.integer(0, INT32_MAX);
    if (static_cast<size_t>(at) >= names.remote_buffers.size()) id.fail("names remote buffer " + std::to_string(at) + ", of which the GPU has " + std::to_string(names.remote_buffers.size()));
    const auto& [owner, type] = names.remote_buffers[static_cast<size_t>(at)];
    block.buffers[kind].emplace_back(owner, type);
  };
  if (const auto ids = cursor.find("remoteBuffersIds")) {
    refused("\"remoteBuffersIds\" of a draft", cursor);
    for (const JsonCursor& id : ids->elements())
      for (const MscclppLink kind : {MscclppLink::memory, MscclppLink::port}) add_buffer(kind, id);
  } else if (const auto refs = first_of(cursor, {"remote_buffer_refs", "remoteBuffersRefs"})) {
    for (const JsonCursor& ref : refs->elements()) {
      const MscclppLink kind = link(need(ref, {"access_channel_type", "accessChannelType"}));
      for (const JsonCursor& id : need(ref, {"remote_buffer_ids", "ids"}).elements()) add_buffer(kind, id);
    }
  }
  return block;
}

std::vector<MscclppRegion> PlanReader::read_regions(const JsonCursor& cursor, const Block& block, MscclppLink kind) {
  std::vector<MscclppRegion> regions;
  for (const JsonCursor& entry : cursor.elements()) {
    MscclppRegion region;
    region.index = need(entry, {"index", "offset"}).integer(0, most_chunks);
    region.size = entry.at("size").integer(0, most_chunks);
    if (entry.has("type")) {
      region.rank = static_cast<int32_t>(block.gpu);
      region.buffer = buffer(entry.at("type"));
    } else if (entry.has("switch_channel_id")) {
      const JsonCursor id = entry.at("switch_channel_id");
      const int64_t at = id.integer(0, INT32_MAX);
      if (static_cast<size_t>(at) >= block.groups.size()) id.fail("names switch channel " + std::to_string(at) + ", of which the block has " + std::to_string(block.groups.size()));
      region.group = static_cast<int32_t>(block.groups[static_cast<size_t>(at)]);
      region.buffer = plan_.groups[static_cast<size_t>(region.group)].buffer;
    } else {
      const JsonCursor id = need(entry, {"buffer_id", "buff_id"});
      const int64_t at = id.integer(0, INT32_MAX);
      // Without a channel the executor of today takes a memory channel's buffers.
      const auto known = block.buffers.find(kind == MscclppLink::port ? MscclppLink::port : MscclppLink::memory);
      const size_t count = known == block.buffers.end() ? 0 : known->second.size();
      if (static_cast<size_t>(at) >= count) id.fail("names remote buffer " + std::to_string(at) + ", of which the block has " + std::to_string(count) + " for this kind of channel");
      region.rank = static_cast<int32_t>(known->second[static_cast<size_t>(at)].first);
      region.buffer = known->second[static_cast<size_t>(at)].second;
    }
    regions.push_back(region);
  }
  return regions;
}

std::vector<uint32_t> PlanReader::channels_of(const JsonCursor& cursor, const Block& block, std::tuple<MscclppLink, char, char> key, std::vector<int64_t>* offsets) {
  std::vector<uint32_t> channels;
  const auto known = block.channels.find(key);
  const size_t count = known == block.channels.end() ? 0 : known->second.size();
  for (const JsonCursor& entry : cursor.elements()) {
    const JsonCursor id = entry.value().is_object() ? entry.at("id") : entry;
    if (entry.value().is_object() && !offsets) refused("channel ids are plain numbers now", entry);
    const int64_t at = id.integer(0, INT32_MAX);
    if (static_cast<size_t>(at) >= count) {
      std::string what = std::get<1>(key) == 0 ? "of its kind" : std::string("from ") + std::get<1>(key) + " to " + std::get<2>(key);
      id.fail("names channel " + std::to_string(at) + " " + what + ", of which the block has " + std::to_string(count));
    }
    channels.push_back(known->second[static_cast<size_t>(at)]);
    if (offsets) offsets->push_back(entry.has("off") ? entry.at("off").integer(0, most_chunks) : 0);
  }
  if (channels.size() > limit_op_channels) refused("an operation has more than " + std::to_string(limit_op_channels) + " channels", cursor);
  return channels;
}

void PlanReader::read_op_of_today(const JsonCursor& cursor, const Block& block, MscclppOp& op) {
  if (const auto kind = first_of(cursor, {"channel_type", "ctype"})) op.link = link(*kind);
  if (const auto ids = first_of(cursor, {"channel_ids", "cids", "output_channel_ids"}); ids && (op.link == MscclppLink::memory || op.link == MscclppLink::port))
    op.channels = channels_of(*ids, block, {op.link, 0, 0}, nullptr);
  if (const auto sources = first_of(cursor, {"src_buff", "src_buffer"})) op.sources = read_regions(*sources, block, op.link);
  if (const auto destinations = first_of(cursor, {"dst_buff", "dst_buffer"})) op.destinations = read_regions(*destinations, block, op.link);
  const std::vector<int64_t>& semaphores = plan_.gpus[block.gpu].semaphores;
  const auto add_semaphore = [&](const JsonCursor& id) {
    const int64_t at = id.integer(0, INT32_MAX);
    if (static_cast<size_t>(at) >= semaphores.size()) id.fail("names semaphore " + std::to_string(at) + ", of which the GPU has " + std::to_string(semaphores.size()));
    op.semaphores.push_back(static_cast<uint32_t>(at));
  };
  if (op.kind == MscclppKind::acquire || op.kind == MscclppKind::release) {
    if (const auto ids = cursor.find("semaphore_ids"))
      for (const JsonCursor& id : ids->elements()) add_semaphore(id);
    else
      add_semaphore(need(cursor, {"semaphore_ids", "semaphore_id", "id"}));
  }
  if (op.kind == MscclppKind::barrier) {
    op.barrier = cursor.at("barrier_id").integer(0, INT32_MAX);
    op.barrier_blocks = cursor.at("num_threadblocks").integer(1, INT32_MAX);
    if (op.barrier >= limit_barriers) refused("there are more than " + std::to_string(limit_barriers) + " barriers", cursor);
  }
  if (const auto share = cursor.find("tbg_info")) {
    op.parts = static_cast<int32_t>(share->at("tbg_size").integer(1, 1024));
    op.part = static_cast<int32_t>(share->at("tb_id").integer(0, op.parts - 1));
  }
}

// Operations of 2024: one local chunk range, and for each channel an offset into the buffer at its other end.
void PlanReader::read_first_op(const JsonCursor& cursor, const Block& block, MscclppOp& op) {
  if (op.kind == MscclppKind::nop) {
    // Blocks never waited for each other by this; the executor made it a barrier of the block's threads.
    return;
  }
  if (cursor.has("ctype")) op.link = link(cursor.at("ctype"));
  const int64_t size = cursor.has("cnt") ? cursor.at("cnt").integer(1, most_chunks) : 1;
  const auto local = [&](std::string_view buffer_key, std::string_view offset_key) {
    MscclppRegion region;
    region.rank = static_cast<int32_t>(block.gpu);
    region.buffer = buffer(cursor.at(buffer_key));
    region.index = cursor.at(offset_key).integer(0, most_chunks);
    region.size = size;
    return region;
  };
  // The other ends of channels.
  const auto remote = [&](std::string_view ids_key, std::string_view pair_key) {
    std::vector<MscclppRegion> regions;
    const auto ids = cursor.find(ids_key);
    if (!ids) return regions;
    const JsonCursor pair = cursor.has(pair_key) ? cursor.at(pair_key) : cursor;
    const bool nested = cursor.has(pair_key);
    const char from = buffer_letter(pair.at(nested ? "src" : "srcbuff")), to = buffer_letter(pair.at(nested ? "dst" : "dstbuff"));
    std::vector<int64_t> offsets;
    for (const uint32_t channel : channels_of(*ids, block, {op.link, from, to}, &offsets)) {
      MscclppRegion region;
      region.rank = static_cast<int32_t>(plan_.gpus[block.gpu].channels[channel].peer);
      region.buffer = to == 'i' ? MscclBuffer::input : to == 'o' ? MscclBuffer::output : MscclBuffer::scratch;
      region.index = offsets[regions.size()];
      region.size = size;
      regions.push_back(region);
      op.channels.push_back(channel);
    }
    return regions;
  };
  if (op.link == MscclppLink::multicast) {
    for (const auto& [buffer_key, offset_key, sources] : {std::tuple{"srcbuff", "srcoff", true}, std::tuple{"dstbuff", "dstoff", false}}) {
      const auto id = cursor.find(sources ? "gi_cid" : "go_cid");
      int64_t at = 0;
      if (id)
        at = id->integer(0, INT32_MAX);
      else if (const auto ids = cursor.find(sources ? "i_cids" : "o_cids"); ids && !ids->elements().empty())
        at = ids->elements().front().at("id").integer(0, INT32_MAX);
      if (static_cast<size_t>(at) >= block.groups.size()) cursor.fail("names switch channel " + std::to_string(at) + ", of which the block has " + std::to_string(block.groups.size()));
      MscclppRegion region = local(buffer_key, offset_key);
      region.rank = -1;
      region.group = static_cast<int32_t>(block.groups[static_cast<size_t>(at)]);
      region.buffer = plan_.groups[static_cast<size_t>(region.group)].buffer;
      (sources ? op.sources : op.destinations).push_back(region);
    }
    return;
  }
  const auto listed_sources = [&] {
    std::vector<MscclppRegion> regions;
    const auto list = cursor.find("srcs");
    if (!list) return regions;
    for (const JsonCursor& entry : list->elements()) {
      MscclppRegion region;
      region.rank = static_cast<int32_t>(block.gpu);
      region.buffer = buffer(entry.at("buff"));
      region.index = entry.at("off").integer(0, most_chunks);
      region.size = size;
      regions.push_back(region);
    }
    return regions;
  };
  switch (op.kind) {
    case MscclppKind::signal: remote("o_cids", "o_buff"); return;
    case MscclppKind::wait: remote("i_cids", "i_buff"); return;
    case MscclppKind::put:
    case MscclppKind::put_packets:
      op.destinations = remote("o_cids", "o_buff");
      op.sources = listed_sources();
      if (op.sources.empty()) op.sources.assign(op.destinations.size(), local("srcbuff", "srcoff"));
      return;
    case MscclppKind::copy:
    case MscclppKind::pack:
    case MscclppKind::unpack:
      op.sources = {local("srcbuff", "srcoff")};
      op.destinations = {local("dstbuff", "dstoff")};
      return;
    case MscclppKind::reduce:
    case MscclppKind::reduce_packets:
      op.destinations = {local("dstbuff", "dstoff")};
      // Before src was written, the operand was what dst holds.
      op.sources = {cursor.has("srcoff") ? local("srcbuff", "srcoff") : op.destinations.front()};
      for (const MscclppRegion& source : listed_sources()) op.sources.push_back(source);
      if (op.kind == MscclppKind::reduce)
        for (const MscclppRegion& source : remote("i_cids", "i_buff")) op.sources.push_back(source);
      for (const MscclppRegion& destination : remote("o_cids", "o_buff")) op.destinations.push_back(destination);
      return;
    default: cursor.at("name").fail("\"" + op.name + "\" was no operation of this generation of plans");
  }
}

MscclppOp PlanReader::read_op(const JsonCursor& cursor, const Block& block, bool in_pipeline) {
  MscclppOp op;
  op.where = cursor.where();
  const JsonCursor name = cursor.at("name");
  op.name = name.string();
  const bool first = cursor.has("o_cids") || cursor.has("i_cids") || cursor.has("srcbuff") || cursor.has("deps") || cursor.has("gi_cid");
  if (op.name == "cpkt") {
    // To unpack until 2025, to pack since; packets lie in scratch.
    bool to_scratch = false;
    if (const auto destinations = cursor.find("dst_buff"))
      for (const JsonCursor& entry : destinations->elements()) to_scratch |= entry.has("type") && entry.at("type").value() == "s";
    op.kind = to_scratch ? MscclppKind::pack : MscclppKind::unpack;
    if (!to_scratch) refused("\"cpkt\" makes packets now, and \"upkt\" unpacks them", name);
  } else {
    const auto known = std::find_if(op_names.begin(), op_names.end(), [&](const OpName& entry) { return entry.name == op.name; });
    if (known == op_names.end())
      name.fail("\"" + op.name.substr(0, 40) + "\" is no operation of an MSCCL++ executor" +
                (op.name == "glre" ? "; the Python language can write it, but no executor has it" : op.name == "rrs" ? "; a draft of early 2024 has it, before what became \"rrcs\"" : ""));
    op.kind = known->kind;
    if (!known->today) refused("it has no operation \"" + op.name + "\"", name);
  }
  op.with_signal = op.name == "pws" || op.name == "pwsf";
  op.with_flush = op.name == "pwsf";
  if (first)
    read_first_op(cursor, block, op);
  else
    read_op_of_today(cursor, block, op);
  // Where packets are.
  const auto mark = [](std::vector<MscclppRegion>& regions, size_t from) {
    for (size_t i = from; i < regions.size(); ++i) regions[i].packets = true;
  };
  switch (op.kind) {
    case MscclppKind::put_packets:
      mark(op.destinations, 0);
      if (op.link == MscclppLink::port) mark(op.sources, 0);
      break;
    case MscclppKind::forward_packets:
      mark(op.sources, 0);
      mark(op.destinations, 0);
      break;
    case MscclppKind::pack: mark(op.destinations, 0); break;
    case MscclppKind::unpack: mark(op.sources, 0); break;
    case MscclppKind::reduce_packets:
      mark(op.sources, 1);
      mark(op.destinations, 1);
      // Plans of early 2025 have the local operand and the result in scratch, as packets.
      if (op.name == "rspkt" || op.name == "rpkt")
        for (std::vector<MscclppRegion>* regions : {&op.sources, &op.destinations})
          if (!regions->empty() && regions->front().buffer == MscclBuffer::scratch) regions->front().packets = true;
      break;
    case MscclppKind::multi_store:
      if (op.name == "gstorepkt") mark(op.destinations, 0);
      break;
    default: break;
  }
  if (op.kind == MscclppKind::pipeline) {
    if (in_pipeline) name.fail("\"pipeline\" is an operation of a pipeline itself");
    const JsonCursor context = cursor.at("iter_context");
    op.unit_bytes = need(context, {"unit_size", "unit"}).integer(1, int64_t{1} << 40);
    op.pipeline_chunks = context.at("num_chunks").integer(1, most_chunks);
    for (const JsonCursor& inner : cursor.at("ops").elements()) op.inner.push_back(read_op(inner, block, true));
  }
  return op;
}

void PlanReader::read_gpu(const JsonCursor& cursor, uint32_t index) {
  MscclppGpu& gpu = plan_.gpus[index];
  Gpu& names = gpus_[index];
  if (cursor.at("id").integer(0, INT32_MAX) != index) cursor.at("id").fail("must be " + std::to_string(index) + ": plans name ranks in order");
  gpu.input_chunks = need(cursor, {"input_chunks", "inputChunks"}).integer(0, most_chunks);
  gpu.output_chunks = need(cursor, {"output_chunks", "outputChunks"}).integer(0, most_chunks);
  if (const auto scratch = first_of(cursor, {"scratch_chunks", "scratchChunks"}))
    gpu.scratch_chunks = scratch->integer(0, most_chunks);
  else
    refused("a GPU has no \"scratch_chunks\"", cursor);
  if (gpu.input_chunks == 0 || gpu.output_chunks == 0) refused("input_chunks and output_chunks must be above 0, since it divides by them", cursor);
  for (const JsonCursor& channel : cursor.at("channels").elements()) read_channel(channel, index);
  if (const auto buffers = first_of(cursor, {"remote_buffers", "remoteBuffers"}))
    for (const JsonCursor& entry : buffers->elements()) names.remote_buffers.emplace_back(rank(entry.at("rank")), buffer(entry.at("type")));
  if (const auto semaphores = cursor.find("semaphores"))
    for (const JsonCursor& entry : semaphores->elements()) gpu.semaphores.push_back(need(entry, {"init_value", "init"}).integer(0, INT32_MAX));
  if (gpu.semaphores.size() > limit_semaphores) refused("there are more than " + std::to_string(limit_semaphores) + " semaphores", cursor);
}

MscclppPlan PlanReader::read() {
  const auto gpus = root_.find("gpus");
  if (!gpus) root_.fail("is a fragment of an MSCCL++ plan: it has no key \"gpus\"");
  if (root_.has("dynamic") && root_.at("dynamic").value() == true)
    root_.at("dynamic").fail("this is a template of MSCCL++ for sizes that are known at run time, and no plan");
  plan_.name = root_.at("name").string();
  const JsonCursor collective = need(root_, {"collective", "colletive"});
  plan_.collective = collective.string();
  plan_.packets = root_.at("protocol").string() == "LL";
  plan_.in_place = root_.at("inplace").boolean();
  const auto flag = [&](std::string_view key) {
    const auto found = root_.find(key);
    return found && found->boolean();
  };
  plan_.double_scratch = flag("use_double_scratch_buffer");
  plan_.reuse_scratch = flag("reuse_resources");
  if (root_.has("reuse_resources "))
    findings_.push_back({.rule = "key-unknown", .severity = Severity::warning, .message = "\"reuse_resources \" has a blank at its end, so that executors do not see it", .where = root_.where()});
  if (const auto found = root_.find("buffer_alignment")) plan_.alignment = found->integer(1, 1 << 20);
  const auto size = [&](std::string_view key, uint64_t otherwise) {
    const auto found = root_.find(key);
    if (!found) return otherwise;
    if (!found->value().is_number_unsigned() && !(found->value().is_number_integer() && found->value().get<int64_t>() >= 0)) found->fail("must be a whole number of bytes");
    return found->value().get<uint64_t>();
  };
  plan_.least_bytes = size("min_message_size", 0);
  plan_.most_bytes = size("max_message_size", UINT64_MAX);
  const std::vector<JsonCursor> entries = gpus->elements();
  ranks_ = entries.size();
  if (ranks_ < 2 || ranks_ > most_gpus) gpus->fail("has " + std::to_string(ranks_) + " GPUs; a plan has 2 to " + std::to_string(most_gpus));
  plan_.gpus.resize(ranks_);
  gpus_.resize(ranks_);
  for (uint32_t g = 0; g < ranks_; ++g) read_gpu(entries[g], g);
  for (uint32_t g = 0; g < ranks_; ++g) {
    for (const JsonCursor& cursor : entries[g].at("threadblocks").elements()) {
      const Block block = read_block_names(cursor, g);
      MscclppBlock& target = plan_.gpus[g].blocks.emplace_back();
      if (cursor.at("id").integer(0, INT32_MAX) != static_cast<int64_t>(plan_.gpus[g].blocks.size()) - 1)
        cursor.at("id").fail("must be " + std::to_string(plan_.gpus[g].blocks.size() - 1) + ": executors count blocks in the order of the file");
      size_t count = 0;
      for (const JsonCursor& op : cursor.at("ops").elements()) {
        target.ops.push_back(read_op(op, block, false));
        count += 1 + target.ops.back().inner.size();
      }
      if (count > limit_ops) refused("a block has more than " + std::to_string(limit_ops) + " operations", cursor);
    }
  }
  return std::move(plan_);
}

// Of the beginning, so that sniffing a large file is cheap.
bool names(std::string_view text, std::string_view key) { return text.substr(0, 1 << 14).find(key) != std::string_view::npos; }

}  // namespace

size_t MscclppPlan::ops() const {
  size_t count = 0;
  for (const MscclppGpu& gpu : gpus)
    for (const MscclppBlock& block : gpu.blocks)
      for (const MscclppOp& op : block.ops) count += 1 + op.inner.size();
  return count;
}

bool looks_like_mscclpp_plan(std::string_view text) {
  return text.starts_with("{") && !names(text, "slackline-schedule") && (names(text, "\"threadblocks\"") || names(text, "\"iter_context\"") || names(text, "\"dynamic_parameters\""));
}

MscclppPlan read_mscclpp_plan(std::string_view text, const std::string& file, std::vector<Finding>& findings) {
  const Json document = parse_json(text, file);
  const JsonCursor root(document, file);
  return PlanReader(root, file, findings).read();
}

}  // namespace slackline
