#include "schedule/foreign_schedules.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/fraction.hpp"
#include "base/json.hpp"
#include "base/xml.hpp"

namespace slackline {

namespace {

constexpr int most_ranks = 1 << 16;
constexpr int64_t most_cuts = 1024;  // of a chunk

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
  Fraction volume{1};
};

// "0.25"; nothing for what is no decimal number above 0 and up to 1 with a small denominator.
std::optional<Fraction> read_volume(std::string_view text) {
  int64_t digits = 0, scale = 1;
  bool point = false, ok = !text.empty() && text.size() <= 12;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    ok = ok && c >= '0' && c <= '9';
    if (!ok) return std::nullopt;
    digits = digits * 10 + (c - '0');
    if (point) scale *= 10;
  }
  if (!ok || digits < 1 || digits > scale) return std::nullopt;
  return Fraction(digits, scale);
}

Flow read_flow(const JsonCursor& cursor) {
  const std::string text = cursor.string();
  Phrase phrase(text);
  Flow flow;
  bool ok = phrase.word("Chunk ") && phrase.number(flow.chunk) && phrase.word(" from ") && phrase.number(flow.source) &&
            phrase.word(" traveled over ") && phrase.number(flow.from) && phrase.word("->") && phrase.number(flow.to);
  if (ok && phrase.word(" with volume ")) {
    const std::string_view text_of_volume = phrase.token();
    const std::optional<Fraction> volume = read_volume(text_of_volume);
    if (!volume) cursor.fail("moves \"" + std::string(text_of_volume.substr(0, 40)) + "\" of a chunk, which must be a decimal number above 0 and up to 1");
    flow.volume = *volume;
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
  // Chunks are cut so that every flow moves whole units.
  int64_t cuts = 1;
  for (const Flow& flow : flows) cuts = std::lcm(cuts, flow.volume.denominator()) > most_cuts ? most_cuts + 1 : std::lcm(cuts, flow.volume.denominator());
  if (cuts > most_cuts) flow_list->fail("cuts chunks into more than " + std::to_string(most_cuts) + " parts");
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

  if (gathers && cuts > 1) flow_list->fail("moves parts of chunks, and does not tell which; an AllGather copies them on, so that what arrives cannot be proven");

  Collective collective;
  collective.type = gathers ? CollectiveType::allgather : CollectiveType::alltoall;
  collective.ranks = static_cast<int>(p);
  collective.in_place = gathers;
  Schedule schedule(collective, gathers ? p * chunks : p * cuts);
  schedule.set_algorithm("TE-CCL");
  std::map<std::pair<Buffer, int64_t>, uint32_t> known;
  const auto chunk_at = [&](Buffer buffer, int64_t offset) {
    const auto [entry, fresh] = known.try_emplace({buffer, offset}, 0);
    if (fresh) entry->second = schedule.add_chunk({buffer, offset, 1});
    return entry->second;
  };
  // Where rank `at` keeps the chunk.
  const auto place = [&](const Flow& flow, int64_t at, bool arrives, int64_t part) {
    if (gathers) return chunk_at(Buffer::data, flow.source * chunks + flow.chunk);
    if (at == flow.source && !arrives) return chunk_at(Buffer::input, flow.chunk * cuts + part);
    if (at == flow.chunk) return chunk_at(Buffer::output, flow.source * cuts + part);
    return chunk_at(Buffer::scratch, (flow.source * p + flow.chunk) * cuts + part);
  };
  if (exchanges)
    for (int64_t r = 0; r < p; ++r)
      for (int64_t part = 0; part < cuts; ++part)
        schedule.add({static_cast<uint32_t>(r), static_cast<uint32_t>(r), chunk_at(Buffer::input, r * cuts + part), chunk_at(Buffer::output, r * cuts + part), TransferOp::copy, 0, {}});
  if (cuts > 1) {
    // The flows do not tell which part of a chunk they move, and name equal ones once. The paths do: each carries a part of
    // its own from the source to where it is wanted.
    struct Hop {
      int64_t epoch, from, to, source, chunk, first, parts;
      size_t before;  // the hop of the same path before this one, or its own number
    };
    std::vector<Hop> hops;
    for (const auto& [key, value] : paths->members()) {
      Phrase phrase(key);
      int64_t at = 0, chunk = 0, source = 0, used = 0;
      phrase.word("Demand at ") && phrase.number(at) && phrase.word(" for chunk ") && phrase.number(chunk) && phrase.word(" from ") && phrase.number(source);
      for (const JsonCursor& path : value.elements()) {
        const size_t begin = hops.size();
        for (const JsonCursor& entry : path.elements()) {
          const std::vector<JsonCursor> parts = entry.elements();
          if (parts.size() != 2) entry.fail("must be an epoch and \"A->B with volume V in epoch E\"");
          const std::string hop_text = parts[1].string();
          Phrase hop_phrase(hop_text);
          int64_t from = 0, to = 0;
          std::optional<Fraction> volume;
          if (hop_phrase.number(from) && hop_phrase.word("->") && hop_phrase.number(to) && hop_phrase.word(" with volume ")) volume = read_volume(hop_phrase.token());
          const auto first = rank_of.find(from), second = rank_of.find(to);
          if (!volume || first == rank_of.end() || second == rank_of.end() || from == to) parts[1].fail("must be \"A->B with volume V in epoch E\", between two of the GPUs");
          const Fraction share = *volume * Fraction(cuts);
          if (share.denominator() != 1) parts[1].fail("moves a part that no flow moves");
          Hop hop{parts[0].integer(0, INT32_MAX), first->second, second->second, rank_of.at(source), chunk, used, share.numerator(), hops.size()};
          if (hops.size() > begin) {
            const Hop& last = hops.back();
            if (last.to != hop.from || last.parts != hop.parts) parts[1].fail("does not go on where its path was, or with another volume");
            hop.before = hops.size() - 1;
          }
          hops.push_back(hop);
        }
        if (hops.size() > begin) used += hops.back().parts;
        if (used > cuts) path.fail("carries more than is left of its chunk");
      }
    }
    std::vector<size_t> order(hops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return hops[a].epoch < hops[b].epoch; });
    std::vector<uint32_t> first_transfer(hops.size());
    for (const size_t h : order) {
      const Hop& hop = hops[h];
      Flow flow;
      flow.chunk = hop.chunk;
      flow.source = hop.source;
      first_transfer[h] = static_cast<uint32_t>(schedule.size());
      for (int64_t i = 0; i < hop.parts; ++i) {
        // A part that has not come in an earlier epoch is not there.
        const uint32_t before = first_transfer[hop.before] + static_cast<uint32_t>(i);
        const bool waits = hop.before != h && hops[hop.before].epoch < hop.epoch;
        schedule.add({static_cast<uint32_t>(hop.from), static_cast<uint32_t>(hop.to), place(flow, hop.from, false, hop.first + i), place(flow, hop.to, true, hop.first + i), TransferOp::copy, 0,
                      std::span<const uint32_t>(&before, waits ? 1 : 0)});
      }
    }
    return schedule;
  }
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
    schedule.add({static_cast<uint32_t>(flow.from), static_cast<uint32_t>(flow.to), place(flow, flow.from, false, 0), place(flow, flow.to, true, 0), TransferOp::copy, 0, after});
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

bool looks_like_forest(std::string_view text) { return xml_root_name(text) == "Algo"; }

// "(0, 'GPU', 3)": server, kind and number; nodes are told apart by their text without blanks.
namespace {
struct ForestNode {
  std::string name;
  std::vector<std::string> parts;
  bool is_gpu() const { return parts.size() == 3 && (parts[1] == "GPU" || parts[1] == "gpu"); }
};

ForestNode forest_node(std::string_view text, const XmlFile& xml, const pugi::xml_node& node) {
  ForestNode result;
  std::string part;
  for (const char c : text) {
    if (c == ' ' || c == '\'' || c == '"') continue;
    result.name += c;
    if (c == '(') continue;
    if (c == ',' || c == ')') {
      result.parts.push_back(std::exchange(part, {}));
    } else {
      part += c;
    }
  }
  if (!result.name.starts_with("(") || !result.name.ends_with(")")) xml.fail(node, "\"" + std::string(text.substr(0, 60)) + "\" is no node such as \"(0, 'GPU', 3)\"");
  return result;
}
}  // namespace

Schedule parse_forest(std::string_view text, const std::string& file) {
  const XmlFile xml(text, file);
  const pugi::xml_node algo = xml.document().child("Algo");
  const auto attribute = [&](const pugi::xml_node& node, const char* name) -> std::string_view {
    if (!node.attribute(name)) xml.fail(node, "<" + std::string(node.name()) + "> lacks the attribute \"" + name + "\"");
    return node.attribute(name).value();
  };
  const int64_t k = xml_integer(attribute(algo, "nchunkspernode"), "nchunkspernode", xml.where(algo), 1, 1 << 20);
  // Ranks in the order of (server, number).
  std::map<std::pair<int64_t, int64_t>, uint32_t> ranks;
  const auto key = [&](const ForestNode& node, const pugi::xml_node& at) {
    if (!node.is_gpu()) xml.fail(at, node.name + " is no GPU; slackline's schedules are between GPUs");
    return std::pair{xml_integer(node.parts[0], "the server", xml.where(at), 0, 1 << 20), xml_integer(node.parts[2], "the GPU's number", xml.where(at), 0, 1 << 20)};
  };
  for (const pugi::xml_node& tree : algo.children("tree")) {
    ranks[key(forest_node(attribute(tree, "root"), xml, tree), tree)] = 0;
    for (const pugi::xml_node& send : tree.children("send"))
      for (const char* end : {"src", "dst"}) ranks[key(forest_node(attribute(send, end), xml, send), send)] = 0;
  }
  const auto p = static_cast<int64_t>(ranks.size());
  if (p < 2 || p > most_ranks) xml.fail(algo, "has " + std::to_string(p) + " GPUs; it must have 2 to " + std::to_string(most_ranks));
  uint32_t next = 0;
  for (auto& [place, rank] : ranks) rank = next++;

  Collective collective;
  collective.type = CollectiveType::allgather;
  collective.ranks = static_cast<int>(p);
  Schedule schedule(collective, p * k);
  schedule.set_algorithm("ForestColl trees");
  std::vector<int64_t> used(static_cast<size_t>(p), 0);  // chunks of a root that its trees so far carry
  uint32_t channel = 0;
  for (const pugi::xml_node& tree : algo.children("tree")) {
    const uint32_t root = ranks.at(key(forest_node(attribute(tree, "root"), xml, tree), tree));
    const int64_t chunks = xml_integer(attribute(tree, "nchunks"), "nchunks", xml.where(tree), 1, k);
    if (used[root] + chunks > k) xml.fail(tree, "the trees of this root carry more than its " + std::to_string(k) + " chunks");
    const uint32_t chunk = schedule.add_chunk({Buffer::data, root * k + used[root], chunks});
    used[root] += chunks;
    struct Send {
      uint32_t src, dst;
    };
    std::vector<Send> sends;
    for (const pugi::xml_node& send : tree.children("send"))
      sends.push_back({ranks.at(key(forest_node(attribute(send, "src"), xml, send), send)), ranks.at(key(forest_node(attribute(send, "dst"), xml, send), send))});
    for (size_t i = 0; i < sends.size(); ++i)
      if (sends[i].src == sends[i].dst) xml.fail(tree, "a GPU sends to itself");
    // From the root outward, whatever the order in the file; what hangs on nothing comes last, for validate() to tell.
    std::map<uint32_t, std::vector<uint32_t>> of_source;  // indices into sends
    for (uint32_t i = 0; i < sends.size(); ++i) of_source[sends[i].src].push_back(i);
    std::map<uint32_t, uint32_t> brought;  // by rank: the transfer
    std::vector<char> done(sends.size(), 0);
    const auto add = [&](uint32_t i) {
      const auto before = brought.find(sends[i].src);
      const auto index = static_cast<uint32_t>(schedule.size());
      schedule.add({sends[i].src, sends[i].dst, chunk, chunk, TransferOp::copy, static_cast<uint16_t>(channel),
                    std::span<const uint32_t>(before == brought.end() ? nullptr : &before->second, before == brought.end() ? 0 : 1)});
      done[i] = 1;
      brought.try_emplace(sends[i].dst, index);
    };
    std::vector<uint32_t> reached = {root};
    std::set<uint32_t> seen = {root};
    for (size_t r = 0; r < reached.size(); ++r) {
      const uint32_t source = reached[r];
      for (const uint32_t i : of_source[source]) {
        add(i);
        if (seen.insert(sends[i].dst).second) reached.push_back(sends[i].dst);
      }
    }
    for (uint32_t i = 0; i < sends.size(); ++i)
      if (!done[i]) add(i);
    if (++channel > UINT16_MAX) xml.fail(tree, "there are more than 65536 trees");
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

Schedule parse_chakra(std::string_view, const std::string& file) {
  throw Error(ErrorKind::input, "is a Chakra trace of one rank, which says nothing about the data that its messages carry, so it is no schedule of a collective; \"slackline validate\" checks its order", file);
}

Schedule parse_goal(std::string_view, const std::string& file) {
  throw Error(ErrorKind::input, "is a GOAL program, which says nothing about the data that its messages carry, so it is no schedule of a collective; \"slackline validate\" checks its order", file);
}

}  // namespace slackline
