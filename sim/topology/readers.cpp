#include "topology/readers.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/xml.hpp"
#include "topology/builders.hpp"

namespace slackline {

namespace {

// The first line that has words, without comments of the kind that people and YAML write.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t word = line.find_first_not_of(" \t\r");
    if (word != std::string_view::npos && line[word] != '#') return line.substr(word);
    if (line.size() == text.size()) break;
    text.remove_prefix(line.size() + 1);
  }
  return {};
}

bool is_nccl(std::string_view text) { return xml_root_name(text) == "system"; }
bool is_astra(std::string_view text) {
  const std::string_view line = first_line(text);
  return line.starts_with("topology:") || line.starts_with("npus_count:") || line.starts_with("bandwidth:") || line.starts_with("latency:");
}
bool is_ns3(std::string_view text) {
  const std::string_view line = first_line(text);
  return !line.empty() && line[0] >= '0' && line[0] <= '9';
}
bool is_smi(std::string_view text) {
  return !text.starts_with("<") && text.substr(0, 1 << 16).find("GPU0") != std::string_view::npos;
}

// What can be told apart but is no topology, and why.
[[noreturn]] void refuse(const std::string& file, const std::string& reason) { throw Error(ErrorKind::input, reason, file); }

// For formats that say all of it themselves.
void reject_options(const TopologyReadOptions& options, const std::string& file) {
  if (options.nvswitch || options.compute_capability || options.nic_bandwidth || options.pcie_bandwidth || options.servers != 1)
    refuse(file, "says all about its links and servers itself, so nothing can be given beside it");
}

bool is_graph(std::string_view text) { return xml_root_name(text) == "graphs"; }
TopologyFile refuse_graph(std::string_view, const std::string& file, const TopologyReadOptions&) {
  refuse(file, "is an NCCL graph: the rings and trees that NCCL chose, not the machine; use it as a schedule, and NCCL_TOPO_DUMP_FILE for the machine");
}
bool is_algorithm(std::string_view text) { return xml_root_name(text) == "algo"; }
TopologyFile refuse_algorithm(std::string_view, const std::string& file, const TopologyReadOptions&) {
  refuse(file, "is an MSCCL algorithm, which is a schedule and no topology");
}
bool is_link_state(std::string_view text) { return first_line(text).starts_with("GPU ") && text.find("Link 0:") != std::string_view::npos; }
TopologyFile read_complete_ns3(std::string_view text, const std::string& file, const TopologyReadOptions& options) {
  reject_options(options, file);
  return read_ns3_topology(text, file);
}
TopologyFile read_complete_astra(std::string_view text, const std::string& file, const TopologyReadOptions& options) {
  reject_options(options, file);
  return read_astra_network(text, file);
}
TopologyFile read_described_nccl(std::string_view text, const std::string& file, const TopologyReadOptions& options) {
  if (options.nvswitch) refuse(file, "says itself whether NVLinks lead to a switch");
  return read_nccl_topology(text, file, options);
}
TopologyFile refuse_link_state(std::string_view, const std::string& file, const TopologyReadOptions&) {
  refuse(file, "is nvidia-smi nvlink -s: the state of links, not where they lead; use nvidia-smi topo -m, and a failure for each inactive link");
}
bool is_htsim(std::string_view text) { return first_line(text).starts_with("Nodes "); }
TopologyFile refuse_htsim(std::string_view, const std::string& file, const TopologyReadOptions&) {
  refuse(file, "is a fat tree for htsim, which slackline does not read; use the builder rail_fabric, or ns-3's list of links");
}

}  // namespace

// Other tools' JSON, told by its keys.
void refuse_foreign_json(const JsonCursor& root) {
  const auto has = [&](std::string_view key) { return root.has(key); };
  if (has("logical-dims"))
    root.fail("is astra-sim's list of logical dimensions, which says how NPUs are numbered and nothing about links; read its network file");
  if (has("intranode_sketch") || has("nchannels") || has("hyperparameters") || has("symmetry"))
    root.fail("is a TACCL sketch: what a synthesizer may use of a machine, not the machine");
  if (has("node_betas_list") || has("node_invbws_list") || has("gpus_per_node"))
    root.fail("is a TACCL topology: costs per message size for a synthesizer, alpha and beta fitted together; use the builder explicit with the links' rates");
  if (has("format") && root.at("format").value() == "optccl-topology-spec")
    root.fail("is an OptCCL topology specification, whose components and capabilities slackline does not read; use the builder explicit");
  if (!has("builder") && !has("file") && root.value().is_object())
    root.fail("is no topology of slackline's, which has the key \"builder\"; see topologies/README.md");
}

bool is_json_file(const std::filesystem::path& path) {
  std::string text = read_file(path, uint64_t{1} << 30);
  const size_t first = text.find_first_not_of(text.starts_with("\xef\xbb\xbf") ? "\xef\xbb\xbf \t\r\n" : " \t\r\n");
  return first != std::string::npos && (text[first] == '{' || text[first] == '[');
}

const std::vector<TopologyReader>& topology_readers() {
  static const std::vector<TopologyReader> readers = {
      {"NCCL or RCCL topology XML", is_nccl, read_described_nccl},
      {"NCCL graph XML", is_graph, refuse_graph},
      {"MSCCL XML", is_algorithm, refuse_algorithm},
      {"astra-sim network", is_astra, read_complete_astra},
      {"ns-3 or SimAI network", is_ns3, read_complete_ns3},
      {"htsim network", is_htsim, refuse_htsim},
      {"nvidia-smi nvlink -s", is_link_state, refuse_link_state},
      {"nvidia-smi topo -m", is_smi, read_nvidia_smi_matrix},
  };
  return readers;
}

TopologyFile read_topology_file(const std::filesystem::path& path, const TopologyReadOptions& options) {
  constexpr uint64_t limit = uint64_t{1} << 30;
  std::string text = read_file(path, limit);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw Error(ErrorKind::input, "is empty", path.string());
  if (text[first] == '{' || text[first] == '[') {
    const Json document = parse_json(text, path.string());
    const JsonCursor root(document, path.string());
    refuse_foreign_json(root);
    if (root.has("file")) root.at("file").fail("a topology file cannot point to another one");
    reject_options(options, path.string());
    return {build_topology(root, path.parent_path()), "slackline topology", {}};
  }
  std::string known;
  for (const TopologyReader& reader : topology_readers()) {
    if (reader.recognizes(text)) return reader.read(text, path.string(), options);
    known += (known.empty() ? "" : ", ") + std::string(reader.name);
  }
  throw Error(ErrorKind::input, "is no topology in any format that slackline reads: its own JSON, " + known, path.string());
}

Topology replicate_server(const Topology& topology, int servers) {
  if (servers <= 1) return topology;
  Topology result;
  result.name = topology.name;
  result.message_overhead = topology.message_overhead;
  const size_t count = boost::num_vertices(topology.graph);
  std::vector<TopologyVertexId> shared(count);
  for (size_t v = 0; v < count; ++v)
    if (topology.graph[v].server < 0) shared[v] = result.add_vertex(topology.graph[v].kind, -1, topology.graph[v].name);
  for (int s = 0; s < servers; ++s) {
    std::vector<TopologyVertexId> copy = shared;
    // GPUs and NICs in index order, so that they keep their numbers.
    const auto add = [&](TopologyVertexId v) {
      const TopologyVertex& vertex = topology.graph[v];
      copy[v] = result.add_vertex(vertex.kind, s, "server " + std::to_string(s) + " " + vertex.name);
    };
    for (const TopologyVertexId v : topology.servers[0].gpus) add(v);
    for (const TopologyVertexId v : topology.servers[0].nics) add(v);
    for (size_t v = 0; v < count; ++v) {
      const TopologyVertex& vertex = topology.graph[v];
      if (vertex.server >= 0 && vertex.kind != VertexKind::gpu && vertex.kind != VertexKind::nic) add(v);
    }
    for (auto [edge, end] = boost::edges(topology.graph); edge != end; ++edge) {
      const TopologyVertexId a = boost::source(*edge, topology.graph), b = boost::target(*edge, topology.graph);
      if (topology.graph[a].server < 0 && topology.graph[b].server < 0 && s > 0) continue;
      boost::add_edge(copy[a], copy[b], topology.graph[*edge], result.graph);
    }
  }
  return result;
}

}  // namespace slackline
