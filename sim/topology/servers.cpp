#include "topology/servers.hpp"

#include <algorithm>

namespace slackline {

namespace {

constexpr std::string_view server_keys[] = {
    "builder",          "name",           "description",    "servers",      "gpus_per_server",         "nics_per_server", "nic_bandwidth", "nic_latency",
    "message_overhead", "nvlink_bandwidth", "nvlink_latency", "pcie_bandwidth", "pcie_latency", "pcie_switches_per_server"};

// The PCIe switches of a server and the CPU above them, joined.
std::vector<TopologyVertexId> add_pcie_switches(Topology& topology, const ServerParts& parts, int server, const TopologyLink& pcie) {
  const std::string prefix = "server" + std::to_string(server) + "/";
  std::vector<TopologyVertexId> switches;
  const TopologyVertexId cpu = topology.add_vertex(VertexKind::cpu, server, prefix + "cpu0");
  for (int i = 0; i < parts.pcie_switches; ++i) {
    switches.push_back(topology.add_vertex(VertexKind::pcie_switch, server, prefix + "pcie_switch" + std::to_string(i)));
    topology.graph[switches.back()].index = i;
    topology.add_link(switches.back(), cpu, pcie);
  }
  return switches;
}

}  // namespace

ServerParts read_servers(const JsonCursor& object, std::span<const std::string_view> fabric) {
  std::vector<std::string_view> known(std::begin(server_keys), std::end(server_keys));
  known.insert(known.end(), fabric.begin(), fabric.end());
  object.expect_object(known);
  const auto count = [&](std::string_view key, int64_t highest) { return static_cast<int>(object.at(key).integer(1, highest)); };
  ServerParts parts;
  parts.servers = count("servers", 65536);
  parts.gpus = count("gpus_per_server", 1024);
  parts.nics = count("nics_per_server", 1024);
  if (int64_t{parts.servers} * (parts.gpus + parts.nics) > most_topology_parts)
    object.at("servers").fail("makes more than 4 million GPUs and NICs, which is more than slackline holds");
  parts.nic_bandwidth = object.at("nic_bandwidth").bandwidth();
  parts.nic_latency = object.at("nic_latency").duration();
  parts.message_overhead = object.at("message_overhead").duration();
  parts.nvlink_bandwidth = object.at("nvlink_bandwidth").bandwidth();
  parts.nvlink_latency = object.at("nvlink_latency").duration();
  if (const auto ports = object.find("ports_per_nic")) parts.ports = static_cast<int>(ports->integer(1, 2));
  if (parts.nic_bandwidth.count() % parts.ports != 0)
    object.at("nic_bandwidth").fail("does not divide into " + std::to_string(parts.ports) + " ports of whole b/s");
  parts.port_bandwidth = Bandwidth(parts.nic_bandwidth.count() / parts.ports);
  if (const auto bandwidth = object.find("pcie_bandwidth")) {
    parts.pcie_bandwidth = bandwidth->bandwidth();
    if (const auto latency = object.find("pcie_latency")) parts.pcie_latency = latency->duration();
    parts.pcie_switches = std::min(parts.gpus, parts.nics);
    if (const auto switches = object.find("pcie_switches_per_server"))
      parts.pcie_switches = static_cast<int>(switches->integer(1, std::max(parts.gpus, parts.nics)));
  } else {
    for (const std::string_view key : {"pcie_latency", "pcie_switches_per_server"})
      if (const auto stray = object.find(key)) stray->fail("needs \"pcie_bandwidth\": without it the topology has no PCIe");
  }
  return parts;
}

void add_servers(Topology& topology, const ServerParts& parts, const PortSwitch& port_switch) {
  topology.message_overhead = parts.message_overhead;
  // Of the links up to a switch and down from it, the former has the latency of the whole way.
  const auto link_over = [&](TopologyVertexId below, TopologyVertexId above, TopologyLink link, Duration latency) {
    link.latency = latency;
    boost::add_edge(below, above, link, topology.graph);
    link.latency = Duration(0);
    boost::add_edge(above, below, link, topology.graph);
  };
  const auto link_of = [](LinkKind kind, Bandwidth bandwidth, Duration latency) {
    TopologyLink link;
    link.kind = kind;
    link.bandwidth = bandwidth;
    link.latency = latency;
    return link;
  };
  const TopologyLink nvlink = link_of(LinkKind::nvlink, parts.nvlink_bandwidth, {}), port = link_of(LinkKind::network, parts.port_bandwidth, {});
  const TopologyLink pcie = link_of(LinkKind::pcie, parts.pcie_bandwidth, parts.pcie_latency);
  for (int s = 0; s < parts.servers; ++s) {
    const TopologyVertexId nvswitch = topology.add_vertex(VertexKind::nvswitch, s);
    const auto pcie_switches = parts.pcie_switches > 0 ? add_pcie_switches(topology, parts, s, pcie) : std::vector<TopologyVertexId>();
    // The i-th of n parts sits under the switch at the same place along the server.
    const auto pcie_switch = [&](int i, int n) { return pcie_switches[static_cast<size_t>(i * parts.pcie_switches / n)]; };
    for (int g = 0; g < parts.gpus; ++g) {
      const TopologyVertexId gpu = topology.add_vertex(VertexKind::gpu, s);
      link_over(gpu, nvswitch, nvlink, parts.nvlink_latency);
      if (parts.pcie_switches > 0) topology.add_link(gpu, pcie_switch(g, parts.gpus), pcie);
    }
    for (int n = 0; n < parts.nics; ++n) {
      const TopologyVertexId nic = topology.add_vertex(VertexKind::nic, s);
      for (int p = 0; p < parts.ports; ++p) link_over(nic, port_switch(s, n, p), port, parts.nic_latency);
      if (parts.pcie_switches > 0) topology.add_link(nic, pcie_switch(n, parts.nics), pcie);
    }
  }
}

}  // namespace slackline
