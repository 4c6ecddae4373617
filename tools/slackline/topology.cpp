// slackline topology show: what was understood of a topology file.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/json.hpp"
#include "command.hpp"
#include "topology/readers.hpp"

namespace slackline {

TopologyReadOptions TopologyOptions::reading() const {
  TopologyReadOptions result;
  if (!nvlinks.empty()) result.nvswitch = nvlinks == "switch";
  result.compute_capability = capability;
  if (!nic_bandwidth.empty()) result.nic_bandwidth = parse_bandwidth(nic_bandwidth, "--nic-bandwidth");
  if (!pcie_bandwidth.empty()) result.pcie_bandwidth = parse_bandwidth(pcie_bandwidth, "--pcie-bandwidth");
  result.servers = servers;
  return result;
}

void add_topology_options(CLI::App& app, TopologyOptions& options) {
  app.add_option("--nvlinks", options.nvlinks, "nvidia-smi: NV# is of each pair (direct) or through NVSwitches (switch)")->check(CLI::IsMember({"direct", "switch"}));
  app.add_option("--compute-capability", options.capability, "Of the GPUs, 80 for 8.0, where the file lacks it")->check(CLI::Range(60, 130));
  app.add_option("--nic-bandwidth", options.nic_bandwidth, "Of a NIC, where the file lacks it")->type_name("RATE");
  app.add_option("--pcie-bandwidth", options.pcie_bandwidth, "Of a PCIe link, where the file lacks it")->type_name("RATE");
  app.add_option("--servers", options.servers, "So many copies of the one server that the file describes")->check(CLI::Range(1, 65536));
}

namespace {

struct Options {
  std::string file, format = "table", out;
  TopologyOptions reading;
};

// A NIC's links to the network and to PCIe: "400 Gb/s to rail3".
std::string nic_links(const TopologyGraph& graph, TopologyVertexId nic) {
  std::string network, pcie;
  for (auto [edge, end] = boost::out_edges(nic, graph); edge != end; ++edge) {
    const std::string text = to_string(graph[*edge].bandwidth) + " to " + graph[boost::target(*edge, graph)].name;
    if (graph[*edge].kind == LinkKind::network) network += (network.empty() ? "" : ", ") + text;
    if (graph[*edge].kind == LinkKind::pcie) pcie += ", pcie " + text;
  }
  return (network.empty() ? "no network" : network) + pcie;
}

// What a switch between servers is linked to: "8 NICs at 400 Gb/s, 4 switches at 1.6 Tb/s".
std::string switch_links(const TopologyGraph& graph, TopologyVertexId vertex) {
  std::map<std::pair<bool, Bandwidth>, int> count;  // whether to a switch, rate
  for (auto [edge, end] = boost::out_edges(vertex, graph); edge != end; ++edge)
    ++count[{graph[boost::target(*edge, graph)].kind == VertexKind::net_switch, graph[*edge].bandwidth}];
  std::string text;
  for (const auto& [kind, number] : count)
    text += fmt::format("{}{} link{} to {} of {}", text.empty() ? "" : ", ", number, number == 1 ? "" : "s", kind.first ? "switches" : "NICs", to_string(kind.second));
  return text;
}

std::string table(const TopologyFile& file, const std::string& name) {
  const Topology& topology = file.topology;
  const TopologyGraph& graph = topology.graph;
  size_t gpus = 0, nics = 0;
  for (const TopologyServer& server : topology.servers) {
    gpus += server.gpus.size();
    nics += server.nics.size();
  }
  std::string text = fmt::format("{}: {}; {} server{}, {} GPUs, {} NICs\n", name, file.format, topology.servers.size(), topology.servers.size() == 1 ? "" : "s", gpus, nics);
  for (size_t s = 0; s < topology.servers.size(); ++s) {
    text += fmt::format("server {}\n", s);
    for (const TopologyVertexId gpu : topology.servers[s].gpus) {
      std::string links;
      for (auto [edge, end] = boost::out_edges(gpu, graph); edge != end; ++edge) {
        const TopologyLink& link = graph[*edge];
        links += fmt::format("{}{} to {} {}", links.empty() ? "" : ", ", to_string(link.kind), graph[boost::target(*edge, graph)].name, to_string(link.bandwidth));
        if (link.count > 1) links += fmt::format(" ({} links)", link.count);
      }
      text += fmt::format("  GPU {:<3} {:<24} {}\n", graph[gpu].index, graph[gpu].name, links);
    }
    for (const TopologyVertexId nic : topology.servers[s].nics) text += fmt::format("  NIC {:<3} {:<24} {}\n", graph[nic].index, graph[nic].name, nic_links(graph, nic));
  }
  size_t switches = 0;
  for (auto [v, end] = boost::vertices(graph); v != end; ++v) switches += graph[*v].kind == VertexKind::net_switch;
  if (switches > 0) text += fmt::format("{} switches between servers\n", switches);
  for (auto [v, end] = boost::vertices(graph); v != end; ++v)
    if (graph[*v].kind == VertexKind::net_switch) text += fmt::format("  {:<32} {}\n", graph[*v].name, switch_links(graph, *v));
  for (const std::string& note : file.notes) text += "note: " + note + "\n";
  return text;
}

Json json(const TopologyFile& file, const std::string& name) {
  const TopologyGraph& graph = file.topology.graph;
  Json vertices = Json::array(), links = Json::array();
  for (auto [v, end] = boost::vertices(graph); v != end; ++v) {
    Json entry = {{"name", graph[*v].name}, {"kind", to_string(graph[*v].kind)}};
    if (graph[*v].server >= 0) entry["server"] = graph[*v].server;
    vertices.push_back(entry);
  }
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    const TopologyLink& link = graph[*edge];
    links.push_back({{"from", graph[boost::source(*edge, graph)].name}, {"to", graph[boost::target(*edge, graph)].name}, {"kind", to_string(link.kind)},
                     {"bandwidth_bps", link.bandwidth.count()}, {"latency_ps", link.latency.count()}, {"count", link.count}});
  }
  return {{"file", name}, {"format", file.format}, {"servers", file.topology.servers.size()}, {"notes", file.notes}, {"vertices", vertices}, {"links", links}};
}

std::string dot(const TopologyFile& file) {
  const TopologyGraph& graph = file.topology.graph;
  const auto quoted = [](const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
    return result + "\"";
  };
  std::string text = "digraph " + quoted(file.topology.name) + " {\n";
  for (size_t s = 0; s < file.topology.servers.size(); ++s) {
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"server {}\";\n", s, s);
    for (auto [v, end] = boost::vertices(graph); v != end; ++v)
      if (graph[*v].server == static_cast<int>(s)) text += fmt::format("    v{} [label={}];\n", *v, quoted(graph[*v].name));
    text += "  }\n";
  }
  for (auto [v, end] = boost::vertices(graph); v != end; ++v)
    if (graph[*v].server < 0) text += fmt::format("  v{} [label={}];\n", *v, quoted(graph[*v].name));
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge)
    text += fmt::format("  v{} -> v{} [label=\"{} {}\"];\n", boost::source(*edge, graph), boost::target(*edge, graph), to_string(graph[*edge].kind), to_string(graph[*edge].bandwidth));
  return text + "}\n";
}

std::function<int()> add_topology(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* show = app.add_subcommand("show", "Show what was understood of a topology file");
  app.require_subcommand(1);
  show->add_option("file", options->file, "Topology in any format (topologies/README.md)")->required()->type_name("FILE");
  show->add_option("--format", options->format, "table (default), json or dot")->check(CLI::IsMember({"table", "json", "dot"}));
  add_topology_options(*show, options->reading);
  show->add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    const TopologyFile file = read_topology_file(options->file, options->reading.reading());
    if (options->format == "table") put(options->out, table(file, options->file));
    if (options->format == "json") put(options->out, json(file, options->file).dump(2) + "\n");
    if (options->format == "dot") put(options->out, dot(file));
    return 0;
  };
}

}  // namespace

const Command topology_command = {"topology", "Show what was understood of a topology file", add_topology};

}  // namespace slackline
