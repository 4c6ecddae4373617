#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "topology/readers.hpp"

namespace slackline {

namespace {

constexpr int64_t most_nodes = 1 << 20;

std::vector<std::string_view> split(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> words;
  for (size_t i = line.find_first_not_of(separators); i != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(separators, i), line.size());
    words.push_back(line.substr(i, end - i));
    i = line.find_first_not_of(separators, end);
  }
  return words;
}

std::optional<double> decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : text_(text), file_(file) {}
  // The words of the next line that has any, without `comment` and what follows it; empty at the end.
  std::vector<std::string_view> next(std::string_view separators, char comment = '\0') {
    while (begin_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', begin_), text_.size());
      std::string_view line = text_.substr(begin_, end - begin_);
      begin_ = end + 1;
      ++number_;
      if (comment) line = line.substr(0, line.find(comment));
      if (auto words = split(line, separators); !words.empty()) return words;
    }
    return {};
  }
  [[noreturn]] void fail(const std::string& message) const { throw Error(ErrorKind::input, message, file_ + ":" + std::to_string(std::max(number_, 1))); }
  int64_t integer(std::string_view word, const char* what, int64_t lowest, int64_t highest) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < lowest || value > highest)
      fail(std::string(what) + " \"" + std::string(word.substr(0, 40)) + "\" must be a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
    return value;
  }

 private:
  std::string_view text_;
  const std::string& file_;
  size_t begin_ = 0;
  int number_ = 0;
};

// "400Gbps", "0.0005ms": ns-3's spelling of units.
int64_t ns3_quantity(const Lines& lines, std::string_view word, std::initializer_list<std::pair<std::string_view, double>> units, const char* what) {
  size_t end = 0;
  while (end < word.size() && (word[end] == '.' || (word[end] >= '0' && word[end] <= '9'))) ++end;
  const std::optional<double> number = decimal(word.substr(0, end));
  std::string known;
  for (const auto& [unit, factor] : units) {
    if (number && word.substr(end) == unit) {
      if (*number * factor > 9e18) lines.fail(std::string(what) + " \"" + std::string(word) + "\" is too large");
      return std::llround(*number * factor);
    }
    known += (known.empty() ? "" : ", ") + std::string(unit);
  }
  lines.fail(std::string(what) + " \"" + std::string(word.substr(0, 40)) + "\" must be a number with one of the units " + known);
}

}  // namespace

TopologyFile read_ns3_topology(std::string_view text, const std::string& file) {
  constexpr std::string_view blanks = " \t\r";
  Lines lines(text, file);
  const std::vector<std::string_view> head = lines.next(blanks);
  const bool simai = head.size() == 6;
  if (!simai && head.size() != 3) lines.fail("must start with \"nodes switches links\", or SimAI's \"nodes gpus_per_server nvswitches switches links GPU\"");
  const int64_t nodes = lines.integer(head[0], "the number of nodes", 1, most_nodes);
  const int64_t per_server = simai ? lines.integer(head[1], "GPUs a server", 1, nodes) : 1;
  const int64_t nvswitches = simai ? lines.integer(head[2], "NVSwitches", 0, nodes) : 0;
  const int64_t switches = lines.integer(head[simai ? 3 : 1], "switches", 0, nodes);
  const int64_t links = lines.integer(head[simai ? 4 : 2], "links", 0, int64_t{1} << 26);
  const int64_t gpus = nodes - nvswitches - switches;
  if (gpus < 1) lines.fail("has no nodes besides its switches");
  if (gpus % per_server != 0) lines.fail(std::to_string(gpus) + " GPUs are no whole number of servers of " + std::to_string(per_server));
  if (nvswitches % std::max<int64_t>(gpus / per_server, 1) != 0 && nvswitches != 0)
    lines.fail(std::to_string(nvswitches) + " NVSwitches are no whole number for each of " + std::to_string(gpus / per_server) + " servers");

  TopologyFile result;
  result.format = simai ? "SimAI network" : "ns-3 network";
  Topology& topology = result.topology;
  topology.name = result.format;
  // SimAI lists the NVSwitches first, server by server.
  std::vector<int64_t> switch_order;
  std::vector<char> kind(static_cast<size_t>(nodes), 'g');
  while (static_cast<int64_t>(switch_order.size()) < nvswitches + switches) {
    const std::vector<std::string_view> words = lines.next(blanks);
    if (words.empty()) lines.fail("ends before all " + std::to_string(nvswitches + switches) + " switches are named");
    for (const std::string_view word : words) {
      const int64_t id = lines.integer(word, "the switch", 0, nodes - 1);
      if (kind[static_cast<size_t>(id)] != 'g') lines.fail("names the switch " + std::to_string(id) + " twice");
      kind[static_cast<size_t>(id)] = static_cast<int64_t>(switch_order.size()) < nvswitches ? 'v' : 's';
      switch_order.push_back(id);
    }
  }
  if (static_cast<int64_t>(switch_order.size()) > nvswitches + switches) lines.fail("names more switches than the first line says");
  std::vector<TopologyVertexId> vertex(static_cast<size_t>(nodes));
  int64_t gpu = 0;
  for (int64_t id = 0; id < nodes; ++id)
    if (kind[static_cast<size_t>(id)] == 'g') {
      vertex[static_cast<size_t>(id)] = topology.add_vertex(VertexKind::gpu, static_cast<int>(gpu / per_server), "node " + std::to_string(id));
      ++gpu;
    }
  const int64_t per_server_switches = nvswitches / std::max<int64_t>(gpus / per_server, 1);
  for (size_t i = 0; i < switch_order.size(); ++i) {
    const int64_t id = switch_order[i];
    const bool inside = kind[static_cast<size_t>(id)] == 'v';
    vertex[static_cast<size_t>(id)] = topology.add_vertex(inside ? VertexKind::nvswitch : VertexKind::net_switch,
                                                          inside ? static_cast<int>(static_cast<int64_t>(i) / per_server_switches) : -1, "switch " + std::to_string(id));
  }
  for (int64_t l = 0; l < links; ++l) {
    const std::vector<std::string_view> words = lines.next(blanks);
    if (words.empty()) lines.fail("ends after " + std::to_string(l) + " of " + std::to_string(links) + " links");
    if (words.size() < 4) lines.fail("a link is \"node node bandwidth latency error-rate\"");
    const auto a = static_cast<size_t>(lines.integer(words[0], "the node", 0, nodes - 1)), b = static_cast<size_t>(lines.integer(words[1], "the node", 0, nodes - 1));
    if (a == b) lines.fail("a link must join two nodes");
    TopologyLink link;
    link.bandwidth = Bandwidth(ns3_quantity(lines, words[2], {{"Gbps", 1e9}, {"Mbps", 1e6}, {"Kbps", 1e3}, {"bps", 1}}, "the bandwidth"));
    link.latency = Duration(ns3_quantity(lines, words[3], {{"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}, {"s", 1e12}}, "the latency"));
    if (link.bandwidth.count() < 1) lines.fail("the bandwidth must be above 0");
    const bool gpu_a = kind[a] == 'g', gpu_b = kind[b] == 'g';
    const auto server = [&](size_t node) { return topology.graph[vertex[node]].server; };
    if ((kind[a] == 'v' && gpu_b) || (kind[b] == 'v' && gpu_a) || (gpu_a && gpu_b && server(a) == server(b))) {
      if (server(a) != server(b)) lines.fail("an NVSwitch cannot reach into another server");
      link.kind = LinkKind::nvlink;
      topology.add_link(vertex[a], vertex[b], link);
      continue;
    }
    if (kind[a] == 'v' || kind[b] == 'v') lines.fail("an NVSwitch cannot be joined to another switch");
    // A GPU's port to the network is its NIC.
    link.kind = LinkKind::network;
    const auto end = [&](size_t node) {
      if (kind[node] != 'g') return vertex[node];
      const TopologyVertexId nic = topology.add_vertex(VertexKind::nic, server(node));
      topology.add_link(vertex[node], nic, {LinkKind::pcie, link.bandwidth, Duration(), 1, Fraction(1)});
      return nic;
    };
    const TopologyVertexId from = end(a), to = end(b);
    topology.add_link(from, to, link);
  }
  return result;
}

TopologyFile read_astra_network(std::string_view text, const std::string& file) {
  // Lines "key: [ value, value ]", a subset of YAML.
  Lines lines(text, file);
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  for (auto words = lines.next(" \t\r,[]", '#'); !words.empty(); words = lines.next(" \t\r,[]", '#')) {
    std::string key(words[0]);
    if (!key.ends_with(':')) lines.fail("must have lines such as \"bandwidth: [ 50.0 ]\"");
    key.pop_back();
    if (key != "topology" && key != "npus_count" && key != "bandwidth" && key != "latency") {
      static constexpr std::string_view known[] = {"topology", "npus_count", "bandwidth", "latency"};
      lines.fail("has the unknown key \"" + key + "\"" + suggest_name(key, known));
    }
    auto& list = values[key];
    if (!list.empty()) lines.fail("has \"" + key + "\" twice");
    for (size_t w = 1; w < words.size(); ++w) list.emplace_back(words[w]);
  }
  const size_t dimensions = values["topology"].size();
  if (dimensions == 0) lines.fail("has no \"topology: [ ... ]\"");
  for (const char* key : {"npus_count", "bandwidth", "latency"})
    if (values[key].size() != dimensions)
      lines.fail("has " + std::to_string(dimensions) + " dimensions, but " + std::to_string(values[key].size()) + " values for \"" + key + "\"");
  struct Dimension {
    std::string shape;
    int64_t size;
    Bandwidth bandwidth;
    Duration latency;
  };
  std::vector<Dimension> shape;
  int64_t total = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    Dimension dimension;
    dimension.shape = values["topology"][d];
    if (dimension.shape != "Ring" && dimension.shape != "Switch" && dimension.shape != "FullyConnected")
      lines.fail("has the shape \"" + dimension.shape + "\"; known are Ring, Switch, FullyConnected");
    dimension.size = lines.integer(values["npus_count"][d], "npus_count", 1, 65536);
    total *= dimension.size;
    if (total > 65536) lines.fail("has more than 65536 NPUs");
    const std::optional<double> bandwidth = decimal(values["bandwidth"][d]), latency = decimal(values["latency"][d]);
    if (!bandwidth || *bandwidth <= 0 || *bandwidth > 1e9) lines.fail("has the bandwidth \"" + values["bandwidth"][d] + "\" in dimension " + std::to_string(d) + ", which is no number of GB/s: fill it in");
    if (!latency || *latency < 0 || *latency > 1e15) lines.fail("has the latency \"" + values["latency"][d] + "\" in dimension " + std::to_string(d) + ", which is no number of ns: fill it in");
    dimension.bandwidth = Bandwidth(std::llround(*bandwidth * 8e9));
    dimension.latency = Duration(std::llround(*latency * 1e3));
    shape.push_back(dimension);
  }
  TopologyFile result;
  result.format = "astra-sim network";
  Topology& topology = result.topology;
  topology.name = result.format;
  // The first dimension is inside a server, the others are between servers.
  const int64_t inside = shape[0].size;
  std::vector<TopologyVertexId> gpus;
  for (int64_t i = 0; i < total; ++i) gpus.push_back(topology.add_vertex(VertexKind::gpu, static_cast<int>(i / inside)));
  if (dimensions > 1) result.notes.push_back("the first dimension is taken as the inside of a server");
  int64_t stride = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    const Dimension& dimension = shape[d];
    const bool local = d == 0;
    const auto port = [&](int64_t npu) {
      if (local) return gpus[static_cast<size_t>(npu)];
      const TopologyVertexId nic = topology.add_vertex(VertexKind::nic, static_cast<int>(npu / inside));
      topology.add_link(gpus[static_cast<size_t>(npu)], nic, {LinkKind::pcie, dimension.bandwidth, Duration(), 1, Fraction(1)});
      return nic;
    };
    const auto join = [&](TopologyVertexId a, TopologyVertexId b, Duration latency) {
      topology.add_link(a, b, {local ? LinkKind::nvlink : LinkKind::network, dimension.bandwidth, latency, 1, Fraction(1)});
    };
    if (!local && dimension.shape == "FullyConnected" && dimension.size * total > 1 << 20) lines.fail("has more than a million links");
    for (int64_t first = 0; first < total; ++first) {
      if (first / stride % dimension.size != 0) continue;
      const auto npu = [&](int64_t k) { return first + k * stride; };
      if (dimension.size == 1) continue;
      if (dimension.shape == "Switch") {
        const TopologyVertexId hub = local ? topology.add_vertex(VertexKind::nvswitch, static_cast<int>(first / inside))
                                           : topology.add_vertex(VertexKind::net_switch, -1, "switch " + std::to_string(d) + "/" + std::to_string(first));
        // Half the latency on each side of the switch.
        for (int64_t k = 0; k < dimension.size; ++k) join(port(npu(k)), hub, Duration(dimension.latency.count() / 2));
      } else {
        for (int64_t k = 0; k < dimension.size; ++k) {
          const int64_t last = dimension.shape == "Ring" ? k + 1 : dimension.size - 1;
          for (int64_t other = k + 1; other <= last; ++other) {
            if (other == dimension.size && dimension.size == 2) continue;  // the ring of two has one link
            const TopologyVertexId a = port(npu(k)), b = port(npu(other % dimension.size));
            join(a, b, dimension.latency);
          }
        }
      }
    }
    stride *= dimension.size;
  }
  return result;
}

}  // namespace slackline
