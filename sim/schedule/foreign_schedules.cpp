#include "schedule/foreign_schedules.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/json.hpp"
#include "base/xml.hpp"

namespace slackline {

namespace {

constexpr int most_ranks = 1 << 16;

// Reads numbers between fixed words: "Chunk 3 from 1 traveled over 1->2 ...".
class Phrase {
 public:
  explicit Phrase(std::string_view text) : rest_(text) {}
  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  bool number(int64_t& value) {
    size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') ++digits;
    if (digits == 0 || digits > 9) return false;
    value = 0;
    for (size_t i = 0; i < digits; ++i) value = value * 10 + (rest_[i] - '0');
    rest_.remove_prefix(digits);
    return true;
  }
  // The text up to the next blank.
  std::string_view token() {
    const std::string_view text = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(text.size());
    return text;
  }

 private:
  std::string_view rest_;
};

struct Flow {
  int64_t chunk = 0, source = 0, from = 0, to = 0, epoch = 0;
};

Flow read_flow(const JsonCursor& cursor) {
  const std::string text = cursor.string();
  Phrase phrase(text);
  Flow flow;
  bool ok = phrase.word("Chunk ") && phrase.number(flow.chunk) && phrase.word(" from ") && phrase.number(flow.source) &&
            phrase.word(" traveled over ") && phrase.number(flow.from) && phrase.word("->") && phrase.number(flow.to);
  if (ok && phrase.word(" with volume ")) {
    const std::string_view volume = phrase.token();
    if (volume != "1.0" && volume != "1")
      cursor.fail("moves " + std::string(volume) + " of a chunk; the table does not tell which part, so what arrives cannot be proven");
  }
  ok = ok && phrase.word(" in epoch ") && phrase.number(flow.epoch);
  if (!ok) cursor.fail("must be \"Chunk C from S traveled over A->B in epoch E\"");
  if (flow.from == flow.to) cursor.fail("moves a chunk to where it is");
  return flow;
}

// The keys are numbered, and not always the same way: "6-Flows", "7-Flows".
std::optional<JsonCursor> find_numbered(const JsonCursor& root, std::string_view name) {
  for (const auto& [key, value] : root.members())
    if (key.size() == name.size() + 2 && std::equal(name.begin(), name.end(), key.begin() + 2, [](char a, char b) { return std::tolower(a) == std::tolower(b); }))
      return value;
  return std::nullopt;
}

}  // namespace

bool looks_like_te_ccl(std::string_view text) { return text.substr(0, 400).find("\"1-Epoch_Duration\"") != std::string_view::npos; }

Schedule parse_te_ccl(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonCursor root(document, file);
  const std::optional<JsonCursor> flow_list = find_numbered(root, "Flows"), paths = find_numbered(root, "Chunk paths");
  if (!flow_list) root.fail("has no key \"7-Flows\"");
  if (!paths) root.fail("has no key \"8-Chunk paths\", which tells the demands");

  // "Demand at D for chunk C from S met by epoch E".
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> wanted;  // by source and chunk
  std::map<int64_t, int64_t> rank_of;
  int64_t chunks = 0;
  for (const auto& [key, value] : paths->members()) {
    Phrase phrase(key);
    int64_t at = 0, chunk = 0, source = 0;
    if (!(phrase.word("Demand at ") && phrase.number(at) && phrase.word(" for chunk ") && phrase.number(chunk) && phrase.word(" from ") && phrase.number(source)))
      value.fail("its key must be \"Demand at D for chunk C from S met by epoch E\"");
    wanted[{source, chunk}].insert(at);
    rank_of[at] = rank_of[source] = 0;
    chunks = std::max(chunks, chunk + 1);
  }
  // Nodes that want and bring something are GPUs, the others switches.
  int64_t p = 0;
  for (auto& [node, rank] : rank_of) rank = p++;
  if (p > most_ranks || p < 2 || chunks > most_ranks) root.fail("has " + std::to_string(p) + " GPUs and " + std::to_string(chunks) + " chunks; it must have 2 to " + std::to_string(most_ranks));
  std::vector<Flow> flows;
  for (const JsonCursor& entry : flow_list->elements()) {
    Flow flow = read_flow(entry);
    for (int64_t* node : {&flow.source, &flow.from, &flow.to}) {
      const auto found = rank_of.find(*node);
      if (found == rank_of.end()) entry.fail("names node " + std::to_string(*node) + ", which wants and brings nothing: a switch, and slackline's schedules are between GPUs");
      *node = found->second;
    }
    if (flow.chunk >= chunks) entry.fail("moves chunk " + std::to_string(flow.chunk) + ", which nobody wants");
    flows.push_back(flow);
  }
  std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.epoch < b.epoch; });
  bool gathers = true, exchanges = chunks == p;
  for (const auto& [node, s] : rank_of) {
    for (int64_t c = 0; c < chunks; ++c) {
      const auto demand = wanted.find({node, c});
      const size_t ranks = demand == wanted.end() ? 0 : demand->second.size();
      gathers &= ranks == static_cast<size_t>(p - 1) && !demand->second.contains(node);
      exchanges &= c == s ? ranks == 0 : ranks == 1 && rank_of.at(*demand->second.begin()) == c;
    }
  }
  if (!gathers && !exchanges) paths->fail("are the demands neither of an AllGather (everyone wants every chunk) nor of an AlltoAll (rank C wants chunk C of every rank)");

  Collective collective;
  collective.type = gathers ? CollectiveType::allgather : CollectiveType::alltoall;
  collective.ranks = static_cast<int>(p);
  collective.in_place = gathers;
  Schedule schedule(collective, gathers ? p * chunks : p);
  schedule.set_algorithm("TE-CCL");
  std::map<std::pair<Buffer, int64_t>, uint32_t> known;
  const auto chunk_at = [&](Buffer buffer, int64_t offset) {
    const auto [entry, fresh] = known.try_emplace({buffer, offset}, 0);
    if (fresh) entry->second = schedule.add_chunk({buffer, offset, 1});
    return entry->second;
  };
  // Where rank `at` keeps the chunk.
  const auto place = [&](const Flow& flow, int64_t at, bool arrives) {
    if (gathers) return chunk_at(Buffer::data, flow.source * chunks + flow.chunk);
    if (at == flow.source && !arrives) return chunk_at(Buffer::input, flow.chunk);
    if (at == flow.chunk) return chunk_at(Buffer::output, flow.source);
    return chunk_at(Buffer::scratch, flow.source * p + flow.chunk);
  };
  if (exchanges)
    for (int64_t r = 0; r < p; ++r)
      schedule.add({static_cast<uint32_t>(r), static_cast<uint32_t>(r), chunk_at(Buffer::input, r), chunk_at(Buffer::output, r), TransferOp::copy, 0, {}});
  struct Arrival {
    uint32_t transfer;
    int64_t epoch;
  };
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<Arrival>> arrivals;  // by source, chunk, rank
  for (const Flow& flow : flows) {
    std::vector<uint32_t> after;
    for (const Arrival& arrival : arrivals[{flow.source, flow.chunk, flow.from}])
      if (arrival.epoch < flow.epoch) after.push_back(arrival.transfer);
    const auto index = static_cast<uint32_t>(schedule.size());
    schedule.add({static_cast<uint32_t>(flow.from), static_cast<uint32_t>(flow.to), place(flow, flow.from, false), place(flow, flow.to, true), TransferOp::copy, 0, after});
    arrivals[{flow.source, flow.chunk, flow.to}].push_back({index, flow.epoch});
  }
  return schedule;
}

bool looks_like_nccl_graph(std::string_view text) { return xml_root_name(text) == "graphs"; }

Schedule parse_nccl_graph(std::string_view text, const std::string& file) {
  const XmlFile xml(text, file);
  const pugi::xml_node graphs = xml.document().child("graphs");
  const auto attribute = [&](const pugi::xml_node& node, const char* name) {
    if (!node.attribute(name)) xml.fail(node, "<" + std::string(node.name()) + "> lacks the attribute \"" + name + "\"");
    return xml_integer(node.attribute(name).value(), "<" + std::string(node.name()) + "> " + name, xml.where(node), 0, INT32_MAX);
  };
  if (!graphs) xml.fail(xml.document(), "has no <graphs>");
  if (attribute(graphs, "version") != 1) xml.fail(graphs, "must have version 1");
  // Graph 0 is the ring, 1 the tree; patterns 1 to 3 are trees, 4 a ring (NCCL src/graph/topo.h).
  pugi::xml_node chosen;
  bool is_ring = false;
  for (const pugi::xml_node& graph : graphs.children("graph")) {
    const int64_t pattern = attribute(graph, "pattern");
    if (pattern < 1 || pattern > 4 || (chosen && (is_ring || pattern != 4))) continue;
    if (!graph.child("channel")) continue;
    chosen = graph;
    is_ring = pattern == 4;
  }
  if (!chosen) xml.fail(graphs, "has neither a ring nor a tree graph with channels");
  std::vector<std::vector<int64_t>> channels;
  std::set<int64_t> devices;
  for (const pugi::xml_node& channel : chosen.children("channel")) {
    channels.emplace_back();
    for (const pugi::xml_node& node : channel.children()) {
      if (std::string_view(node.name()) == "net") xml.fail(node, "the graph leaves the server through a NIC, so it is one server's part of a schedule only");
      if (std::string_view(node.name()) != "gpu") xml.fail(node, "<" + std::string(node.name()) + "> is neither <gpu> nor <net>");
      const std::string_view dev = node.attribute("dev").value();  // hexadecimal
      int64_t value = 0;
      for (const char c : dev) {
        if (!std::isxdigit(static_cast<unsigned char>(c)) || dev.size() > 4) xml.fail(node, "dev=\"" + std::string(dev) + "\" is no hexadecimal number");
        value = value * 16 + (c <= '9' ? c - '0' : std::tolower(c) - 'a' + 10);
      }
      if (dev.empty()) xml.fail(node, "<gpu> lacks the attribute \"dev\"");
      channels.back().push_back(value);
      devices.insert(value);
    }
  }
  const auto p = static_cast<uint32_t>(devices.size());
  if (p < 2) xml.fail(chosen, "has fewer than 2 GPUs");
  if (channels.size() > 1024) xml.fail(chosen, "has more than 1024 channels");
  std::map<int64_t, uint32_t> rank_of;
  for (const int64_t device : devices) rank_of.emplace(device, static_cast<uint32_t>(rank_of.size()));
  for (const std::vector<int64_t>& channel : channels)
    if (std::set<int64_t>(channel.begin(), channel.end()).size() != p || channel.size() != p) xml.fail(chosen, "a channel does not name each of the " + std::to_string(p) + " GPUs once");

  const auto count = static_cast<uint32_t>(channels.size());
  Collective collective;
  collective.ranks = static_cast<int>(p);
  const uint32_t pieces = is_ring ? p : 1;  // of a channel's share
  Schedule schedule(collective, static_cast<int64_t>(count) * pieces);
  schedule.set_algorithm(is_ring ? "NCCL ring graph" : "NCCL tree graph");
  for (uint32_t c = 0; c < count * pieces; ++c) schedule.add_chunk({Buffer::data, c, 1});
  constexpr uint32_t none = UINT32_MAX;
  for (uint32_t c = 0; c < count; ++c) {
    const auto member = [&](uint32_t place) { return rank_of.at(channels[c][place % p]); };
    const auto add = [&](uint32_t from, uint32_t to, uint32_t chunk, TransferOp op, uint32_t& last) {
      const auto index = static_cast<uint32_t>(schedule.size());
      schedule.add({from, to, chunk, chunk, op, static_cast<uint16_t>(c), std::span<const uint32_t>(&last, last == none ? 0 : 1)});
      last = index;
    };
    if (is_ring) {
      // Reduce-scatter, then allgather; a chunk starts behind its owner.
      std::vector<uint32_t> last(p, none);
      for (uint32_t step = 0; step < 2 * (p - 1); ++step)
        for (uint32_t place = 0; place < p; ++place) {
          const uint32_t chunk = (place + 2 * p - 1 - step) % p;
          add(member(place), member(place + 1), c * p + chunk, step < p - 1 ? TransferOp::reduce : TransferOp::copy, last[chunk]);
        }
    } else {
      uint32_t last = none;
      for (uint32_t place = p; place-- > 1;) add(member(place), member(place - 1), c, TransferOp::reduce, last);
      for (uint32_t place = 0; place + 1 < p; ++place) add(member(place), member(place + 1), c, TransferOp::copy, last);
    }
  }
  return schedule;
}

namespace {
// Of the beginning, so that sniffing a large file is cheap.
bool names(std::string_view text, std::string_view key) { return text.substr(0, 1 << 14).find(key) != std::string_view::npos; }
}  // namespace

// JSON of other tools that is no schedule at all.
bool looks_like_other_json(std::string_view text) {
  return text.starts_with("{") && !names(text, "slackline-schedule") &&
         (names(text, "\"TopologyParams\"") || names(text, "\"scheduling-policy\"") || names(text, "\"optccl-workload-spec\"") || names(text, "dynamic"));
}

Schedule parse_other_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonCursor root(document, file);
  if (root.has("TopologyParams")) root.fail("is the input of TE-CCL, a question and not a schedule; its answers have the key \"7-Flows\"");
  if (root.has("scheduling-policy")) root.fail("is a system configuration of astra-sim, which names collectives and holds no schedule");
  if (root.has("format") && root.at("format").value() == "optccl-workload-spec") root.fail("is a workload for OptCCL, a question and not a schedule");
  root.fail("is a template of MSCCL++ for sizes that are known at run time, and no plan");
}

bool looks_like_mscclpp_plan(std::string_view text) {
  return text.starts_with("{") && !names(text, "slackline-schedule") && (names(text, "\"threadblocks\"") || names(text, "\"iter_context\""));
}

Schedule parse_mscclpp_plan(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonCursor root(document, file);
  const auto gpus = root.find("gpus");
  if (!gpus) root.fail("is a fragment of an MSCCL++ plan: it has no key \"gpus\"");
  for (const JsonCursor& gpu : gpus->elements())
    for (const JsonCursor& block : gpu.at("threadblocks").elements())
      for (const JsonCursor& op : block.at("ops").elements())
        op.at("name").fail("is an operation of an MSCCL++ plan, which slackline recognizes and does not execute: its blocks share memory under semaphores");
  root.fail("is an MSCCL++ plan without operations");
}

bool looks_like_chakra(std::string_view text) { return text.size() > 8 && text.substr(0, 64).find("schema") != std::string_view::npos && text[0] != '<' && text[0] != '{'; }

Schedule parse_chakra(std::string_view, const std::string& file) {
  throw Error(ErrorKind::input, "is a Chakra trace of one rank: its messages have sizes and an order, but not what data they carry, so no result can be proven", file);
}

bool looks_like_goal(std::string_view text) { return text.substr(0, 1 << 12).find("num_ranks") != std::string_view::npos && text[0] != '{' && text[0] != '<'; }

Schedule parse_goal(std::string_view, const std::string& file) {
  throw Error(ErrorKind::input, "is a GOAL program: its messages have sizes and an order, but not what data they carry, so no result can be proven", file);
}

}  // namespace slackline
