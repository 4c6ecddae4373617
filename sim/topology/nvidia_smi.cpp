#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "topology/readers.hpp"

namespace slackline {

namespace {

// How two devices reach each other, from near to far.
enum class Relation : uint8_t { self, nvlink, pix, pxb, phb, node, sys, unknown };

struct Entry {
  Relation relation = Relation::unknown;
  int links = 0;  // of nvlink
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// "GPU0", "mlx5_0", "NIC3": letters, then something with a digit at the end.
bool is_gpu(std::string_view word) {
  return word.size() > 3 && word.size() < 9 && word.starts_with("GPU") && std::all_of(word.begin() + 3, word.end(), is_digit);
}

std::optional<Entry> entry_of(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, Relation>, 7> names = {{
      {"X", Relation::self}, {"PIX", Relation::pix}, {"PXB", Relation::pxb}, {"PHB", Relation::phb},
      {"NODE", Relation::node}, {"SYS", Relation::sys}, {"SOC", Relation::sys}}};
  for (const auto& [name, relation] : names)
    if (word == name) return Entry{relation, 0};
  if (word.size() > 2 && word.size() < 6 && word.starts_with("NV") && std::all_of(word.begin() + 2, word.end(), is_digit))
    return Entry{Relation::nvlink, std::stoi(std::string(word.substr(2)))};
  return std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < line.size();) {
    while (i < line.size() && is_space(line[i])) ++i;
    size_t end = i;
    while (end < line.size() && !is_space(line[end])) ++end;
    if (end > i) words.push_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

// Names that were glued together when the tabs between them got lost: "GPU0GPU1mlx5_0".
std::vector<std::string> split_names(std::string_view word) {
  std::vector<std::string> names;
  while (!word.empty()) {
    size_t end = word.size();
    if (word.starts_with("GPU")) {
      end = 3;
      while (end < word.size() && is_digit(word[end])) ++end;
    } else if (const size_t next = word.find("mlx", 1); next != std::string_view::npos && next > 0 && is_digit(word[next - 1])) {
      end = next;
    }
    names.emplace_back(word.substr(0, end));
    word.remove_prefix(end);
  }
  return names;
}

class SmiReader {
 public:
  SmiReader(std::string_view text, const std::string& file, const TopologyReadOptions& options) : text_(text), file_(file), options_(options) {}
  TopologyFile read();

 private:
  struct Row {
    int line;
    std::vector<Entry> entries;
    std::string numa;  // the affinity columns, for telling sockets apart
  };
  [[noreturn]] void fail(const std::string& message, int line) const {
    throw Error(ErrorKind::input, message, file_ + ":" + std::to_string(line));
  }
  void parse();
  void complete();
  Entry& at(size_t a, size_t b) { return matrix_[a * names_.size() + b]; }
  void add_nvlinks();
  void add_pcie();
  void note(const std::string& message) { result_.notes.push_back(message); }

  std::string_view text_;
  const std::string& file_;
  const TopologyReadOptions& options_;
  std::vector<std::string> names_;
  int header_line_ = 0;
  std::map<std::string, Row> rows_;
  std::vector<Entry> matrix_;
  TopologyFile result_;
  std::vector<TopologyVertexId> vertices_;
};

void SmiReader::parse() {
  int number = 0;
  for (size_t begin = 0; begin <= text_.size();) {
    size_t end = text_.find('\n', begin);
    if (end == std::string_view::npos) end = text_.size();
    const std::vector<std::string_view> words = words_of(text_.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (words.empty()) continue;
    if (words[0] == "Legend:" || words[0] == "NIC") {
      if (!rows_.empty()) break;
      continue;
    }
    if (names_.empty()) {
      // The header: device names up to "CPU Affinity".
      if (!words[0].starts_with("GPU") || (words.size() > 1 && entry_of(words[1]))) continue;
      for (const std::string_view word : words) {
        if (word == "CPU" || word == "NUMA") break;
        if (word == "GPU") break;  // "GPU NUMA ID"
        for (std::string& name : split_names(word)) names_.push_back(std::move(name));
      }
      header_line_ = number;
      if (names_.size() > 1024) fail("has more than 1024 columns", number);
      for (size_t a = 0; a < names_.size(); ++a)
        for (size_t b = a + 1; b < names_.size(); ++b)
          if (names_[a] == names_[b]) fail("names " + names_[a] + " twice", number);
      continue;
    }
    const std::string name(words[0]);
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      if (words.size() > 1 && entry_of(words[1])) fail("has a row for " + name + ", which is no column", number);
      continue;
    }
    Row row{number, {}, {}};
    for (size_t w = 1; w < words.size(); ++w) {
      const std::optional<Entry> entry = row.entries.size() < names_.size() ? entry_of(words[w]) : std::nullopt;
      if (entry) {
        row.entries.push_back(*entry);
        continue;
      }
      if (row.entries.size() < names_.size())
        fail("the row of " + name + " has \"" + std::string(words[w]) + "\" where its relation to " + names_[row.entries.size()] +
                 " should be; it must have one of X, NV#, PIX, PXB, PHB, NODE, SYS for each of the " + std::to_string(names_.size()) + " columns",
             number);
      row.numa += (row.numa.empty() ? "" : " ") + std::string(words[w]);
    }
    if (row.entries.size() < names_.size())
      fail("the row of " + name + " has " + std::to_string(row.entries.size()) + " of " + std::to_string(names_.size()) + " columns", number);
    if (!rows_.emplace(name, std::move(row)).second) fail("has two rows for " + name, number);
  }
  if (names_.empty()) fail("has no header with GPU0, GPU1, ...", 1);
  if (!is_gpu(names_[0])) fail("starts with a column that is no GPU", header_line_);
}

// Rows and columns say the same twice, which fills in for rows that were lost.
void SmiReader::complete() {
  const size_t n = names_.size();
  matrix_.resize(n * n);
  std::string lost;
  for (size_t a = 0; a < n; ++a) {
    const auto row = rows_.find(names_[a]);
    if (row == rows_.end()) {
      if (is_gpu(names_[a])) lost += (lost.empty() ? "" : ", ") + names_[a];
      continue;
    }
    for (size_t b = 0; b < n; ++b) {
      const Entry entry = row->second.entries[b];
      if ((entry.relation == Relation::self) != (a == b))
        fail("the row of " + names_[a] + (a == b ? " does not have X" : " has X") + " in the column " + names_[b], row->second.line);
      at(a, b) = entry;
    }
  }
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      Entry &one = at(a, b), &other = at(b, a);
      if (one.relation == Relation::unknown) one = other;
      if (other.relation == Relation::unknown) other = one;
      if (one.relation == Relation::unknown && is_gpu(names_[a]) && is_gpu(names_[b]))
        fail("lacks the rows of both " + names_[a] + " and " + names_[b] + ", so how they are connected is lost; paste the whole table", header_line_);
      if (one.relation != other.relation || one.links != other.links)
        fail("the rows of " + names_[a] + " and " + names_[b] + " do not agree about how the two are connected", rows_.at(names_[b]).line);
    }
  }
  if (!lost.empty()) note("the row of " + lost + " is missing; its columns fill in for it");
}

void SmiReader::add_nvlinks() {
  // GPUs that NVLinks join, and whether they all have the same number of links to each other.
  std::vector<size_t> gpus;
  for (size_t d = 0; d < names_.size(); ++d)
    if (is_gpu(names_[d])) gpus.push_back(d);
  std::vector<bool> done(names_.size(), false);
  bool guessed = false;
  int switches = 0;
  for (const size_t first : gpus) {
    if (done[first]) continue;
    std::vector<size_t> group{first};
    done[first] = true;
    for (size_t i = 0; i < group.size(); ++i)
      for (const size_t other : gpus)
        if (!done[other] && at(group[i], other).relation == Relation::nvlink) {
          done[other] = true;
          group.push_back(other);
        }
    if (group.size() < 2) continue;
    const int links = at(group[0], group[1]).links;
    bool clique = true;
    int most = 0;
    for (const size_t a : group) {
      int total = 0;
      for (const size_t b : group) {
        if (a == b) continue;
        clique &= at(a, b).relation == Relation::nvlink && at(a, b).links == links;
        total += at(a, b).relation == Relation::nvlink ? at(a, b).links : 0;
      }
      most = std::max(most, total);
    }
    // Behind a switch, every pair shows all links of a GPU; a GPU never has more than 18.
    const int limit = options_.compute_capability ? nvlinks_of(options_.compute_capability) : 18;
    const bool can_be_direct = most <= limit;
    const bool can_be_switched = clique && group.size() > 2 && (links == 6 || links == 8 || links == 12 || links == 18);
    bool switched = can_be_switched;
    if (options_.nvswitch) {
      switched = *options_.nvswitch;
      if (switched && !clique) fail("NVLinks through a switch would show the same number for every pair", header_line_);
    } else if (can_be_switched && can_be_direct) {
      fail("NV" + std::to_string(links) + " between " + std::to_string(group.size()) + " GPUs can be " + std::to_string(links) +
               " links of each pair or all links of a GPU to an NVSwitch; say \"nvlinks\": \"direct\" or \"switch\"",
           header_line_);
    }
    if (!switched && !can_be_direct)
      fail("a GPU would have " + std::to_string(most) + " NVLinks, and none has more than " + std::to_string(limit), header_line_);
    const int total = switched ? links : most;
    int capability = options_.compute_capability;
    if (capability == 0) {
      capability = total > 12 ? 90 : total > 6 ? 80 : total > 4 ? 70 : 60;
      guessed = true;
    }
    const int64_t single = nvlink_bandwidth(capability).count();
    const auto connect = [&](TopologyVertexId a, TopologyVertexId b, int count) {
      result_.topology.add_link(a, b, {LinkKind::nvlink, Bandwidth(single * count), Duration(), count, Fraction(1)});
    };
    if (switched) {
      const TopologyVertexId hub = result_.topology.add_vertex(VertexKind::nvswitch, 0, "nvswitch" + (switches ? std::to_string(switches) : ""));
      ++switches;
      for (const size_t gpu : group) connect(vertices_[gpu], hub, links);
    } else {
      for (size_t i = 0; i < group.size(); ++i)
        for (size_t j = i + 1; j < group.size(); ++j)
          if (const Entry& entry = at(group[i], group[j]); entry.relation == Relation::nvlink) connect(vertices_[group[i]], vertices_[group[j]], entry.links);
    }
  }
  if (guessed) note("the table does not say which GPUs these are; the speed of an NVLink is that of GPUs with as many links");
}

// The table tells the nearest common bridge of two devices, not the tree, of which one that fits is built: a switch
// for devices with PIX, above it one for PXB, above it the host bridge, the socket.
void SmiReader::add_pcie() {
  const size_t n = names_.size();
  Topology& topology = result_.topology;
  const Bandwidth slot = options_.pcie_bandwidth.value_or(Bandwidth(192'000'000'000));
  if (!options_.pcie_bandwidth) note("PCIe links are taken as 24 GB/s (4.0 x16); the table does not say");
  const auto group_by = [&](Relation farthest) {
    std::vector<size_t> parent(n);
    std::iota(parent.begin(), parent.end(), size_t{0});
    const auto find = [&](size_t d) {
      while (parent[d] != d) d = parent[d] = parent[parent[d]];
      return d;
    };
    for (size_t a = 0; a < n; ++a)
      for (size_t b = a + 1; b < n; ++b) {
        const Relation r = at(a, b).relation;
        if (r >= Relation::pix && r <= farthest) parent[std::max(find(a), find(b))] = std::min(find(a), find(b));
      }
    std::vector<size_t> root(n);
    for (size_t d = 0; d < n; ++d) root[d] = find(d);
    return root;
  };
  // NVLink hides how two GPUs are connected over PCIe; their affinity columns still tell the socket.
  std::vector<size_t> socket = group_by(Relation::node);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const auto one = rows_.find(names_[a]), other = rows_.find(names_[b]);
      if (socket[a] == socket[b] || at(a, b).relation != Relation::nvlink || one == rows_.end() || other == rows_.end()) continue;
      if (one->second.numa.empty() || one->second.numa != other->second.numa) continue;
      bool apart = false;
      for (size_t c = 0; c < n; ++c)
        for (size_t d = 0; d < n; ++d) apart |= socket[c] == socket[a] && socket[d] == socket[b] && at(c, d).relation == Relation::sys;
      if (apart) continue;
      const size_t from = std::max(socket[a], socket[b]), to = std::min(socket[a], socket[b]);
      std::replace(socket.begin(), socket.end(), from, to);
    }
  }
  const auto connect = [&](TopologyVertexId a, TopologyVertexId b, Bandwidth bandwidth) {
    topology.add_link(a, b, {LinkKind::pcie, bandwidth, Duration(), 1, Fraction(1)});
  };
  std::map<size_t, TopologyVertexId> sockets;
  for (size_t d = 0; d < n; ++d)
    if (!sockets.contains(socket[d])) sockets[socket[d]] = topology.add_vertex(VertexKind::cpu, 0, "cpu " + std::to_string(sockets.size()));
  for (auto a = sockets.begin(); a != sockets.end(); ++a)
    for (auto b = std::next(a); b != sockets.end(); ++b) connect(a->second, b->second, Bandwidth(80'000'000'000));
  if (sockets.size() > 1) note("links between sockets are taken as 10 GB/s; the table does not say");
  const std::vector<size_t> near = group_by(Relation::pix), far = group_by(Relation::pxb);
  std::map<size_t, TopologyVertexId> outer, inner;
  const auto members = [&](const std::vector<size_t>& roots, size_t root) { return std::count(roots.begin(), roots.end(), root); };
  for (size_t d = 0; d < n; ++d) {
    TopologyVertexId above = sockets.at(socket[d]);
    if (members(far, far[d]) > members(near, near[d])) {
      const auto [entry, fresh] = outer.try_emplace(far[d], 0);
      if (fresh) {
        entry->second = topology.add_vertex(VertexKind::pcie_switch, 0, "bridge of " + names_[d]);
        connect(above, entry->second, slot);
      }
      above = entry->second;
    }
    if (members(near, near[d]) > 1) {
      const auto [entry, fresh] = inner.try_emplace(near[d], 0);
      if (fresh) {
        entry->second = topology.add_vertex(VertexKind::pcie_switch, 0, "switch of " + names_[d]);
        connect(above, entry->second, slot);
      }
      above = entry->second;
    }
    connect(above, vertices_[d], slot);
  }
}

TopologyFile SmiReader::read() {
  parse();
  complete();
  result_.format = "nvidia-smi topo -m";
  result_.topology.name = "nvidia-smi topo -m";
  // Numbered by their names, whatever the order of the columns.
  std::vector<size_t> order(names_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t d) { return std::pair(!is_gpu(names_[d]), is_gpu(names_[d]) ? std::stoi(names_[d].substr(3)) : 0); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  size_t nics = 0;
  vertices_.resize(names_.size());
  for (const size_t d : order) {
    const bool gpu = is_gpu(names_[d]);
    nics += !gpu;
    vertices_[d] = result_.topology.add_vertex(gpu ? VertexKind::gpu : VertexKind::nic, 0, names_[d]);
  }
  add_nvlinks();
  add_pcie();
  if (nics > 0) {
    const Bandwidth speed = options_.nic_bandwidth.value_or(Bandwidth(100'000'000'000));
    if (!options_.nic_bandwidth) note("NICs are taken as 100 Gb/s; the table does not say");
    for (size_t d = 0; d < names_.size(); ++d) {
      if (is_gpu(names_[d])) continue;
      const TopologyVertexId network = result_.topology.add_vertex(VertexKind::net_switch, -1, "network at " + names_[d]);
      result_.topology.add_link(vertices_[d], network, {LinkKind::network, speed, Duration(), 1, Fraction(1)});
    }
  }
  return std::move(result_);
}

}  // namespace

TopologyFile read_nvidia_smi_matrix(std::string_view text, const std::string& file, const TopologyReadOptions& options) {
  TopologyFile result = SmiReader(text, file, options).read();
  result.topology = replicate_server(result.topology, options.servers);
  return result;
}

}  // namespace slackline
