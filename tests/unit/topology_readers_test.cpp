// Topologies in other tools' formats: what is understood of small files, and the errors for what cannot be right.
#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.hpp"
#include "topology/network.hpp"
#include "topology/readers.hpp"

namespace slackline {
namespace {

// GB/s from `a` to `b`, all links together; 0 where there is none.
int64_t rate(const Topology& topology, TopologyVertexId a, TopologyVertexId b, LinkKind kind) {
  int64_t total = 0;
  for (auto [edge, end] = boost::out_edges(a, topology.graph); edge != end; ++edge)
    if (boost::target(*edge, topology.graph) == b && topology.graph[*edge].kind == kind) total += topology.graph[*edge].bandwidth.count();
  return total / 8'000'000'000;
}
int64_t nvlink(const Topology& topology, int a, int b) {
  const auto& gpus = topology.servers.at(0).gpus;
  return rate(topology, gpus.at(static_cast<size_t>(a)), gpus.at(static_cast<size_t>(b)), LinkKind::nvlink);
}

std::string nccl(const std::string& first, const std::string& second, const std::string& sm = "70") {
  return R"(<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="79">
<pci busid="0000:01:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
<pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm=")" + sm + R"(" rank="1">)" + first + R"(</gpu></pci>
<pci busid="0000:03:00.0" class="0x030200" link_speed="16 GT/s" link_width="8"><gpu dev="0" sm=")" + sm + R"(" rank="0">)" + second + R"(</gpu></pci>
<pci busid="0000:04:00.0" class="0x020000" link_speed="8 GT/s" link_width="16"><nic><net name="mlx5_0" dev="0" speed="100000"/><net name="mlx5_1" dev="1" speed="0"/></nic></pci>
</pci></cpu></system>)";
}
std::string link_to(const std::string& target, int count, const std::string& target_class = "0x030200") {
  return R"(<nvlink target=")" + target + R"(" count=")" + std::to_string(count) + R"(" tclass=")" + target_class + R"("/>)";
}
const std::string first_bus = "0000:02:00.0", second_bus = "0000:03:00.0";

TEST(NcclTopology, ReadsGpusNvlinksPcieAndNics) {
  const TopologyFile file = read_nccl_topology(nccl(link_to(second_bus, 2), link_to(first_bus, 2)), "t.xml", {});
  const Topology& t = file.topology;
  ASSERT_EQ(t.servers.size(), 1U);
  ASSERT_EQ(t.servers[0].gpus.size(), 2U);
  EXPECT_EQ(t.graph[t.servers[0].gpus[0]].name, "gpu 0 (0000:03:00.0)");  // in the order of dev
  EXPECT_EQ(nvlink(t, 0, 1), 40);
  EXPECT_EQ(nvlink(t, 1, 0), 40);
  ASSERT_EQ(t.servers[0].nics.size(), 2U);
  // 16 GT/s x16 is 24 GB/s as NCCL counts, x8 half of it.
  const auto upstream = [&](int gpu) {
    int64_t total = 0;
    const TopologyVertexId v = t.servers[0].gpus[static_cast<size_t>(gpu)];
    for (auto [edge, end] = boost::out_edges(v, t.graph); edge != end; ++edge)
      if (t.graph[*edge].kind == LinkKind::pcie) total += t.graph[*edge].bandwidth.count();
    return total / 8'000'000'000;
  };
  EXPECT_EQ(upstream(1), 24);
  EXPECT_EQ(upstream(0), 12);
  EXPECT_EQ(file.notes, (std::vector<std::string>{"a NIC without speed is taken as 10 Gb/s, as NCCL does"}));
}

TEST(NcclTopology, CollapsesNvswitches) {
  const std::string links = link_to("0000:07:00.0", 4, "0x068000") + link_to("0000:08:00.0", 5, "0x068000");
  const Topology t = read_nccl_topology(nccl(links, links, "90"), "t.xml", {}).topology;
  TopologyVertexId hub = 0;
  int hubs = 0;
  for (auto [v, end] = boost::vertices(t.graph); v != end; ++v)
    if (t.graph[*v].kind == VertexKind::nvswitch) hub = *v, ++hubs;
  EXPECT_EQ(hubs, 1);
  EXPECT_EQ(rate(t, t.servers[0].gpus[0], hub, LinkKind::nvlink), 185);  // 9 * 20.6
  const Topology invisible = read_nccl_topology(nccl(link_to("fffffff:ffff:ff", 18), "", "90"), "t.xml", {}).topology;
  EXPECT_EQ(boost::num_vertices(invisible.graph), boost::num_vertices(t.graph));
}

TEST(NcclTopology, RejectsLinksThatCannotBe) {
  const auto error = [](const std::string& text) { return error_of([&] { read_nccl_topology(text, "t.xml", {}); }); };
  EXPECT_EQ(error(nccl(link_to(first_bus, 1), "")), "t.xml:4: the GPU 0000:02:00.0 has a link to itself");
  EXPECT_EQ(error(nccl(link_to("0000:99:00.0", 1), "")), "t.xml:4: the link of 0000:02:00.0 leads to 0000:99:00.0, which is no GPU of this file");
  EXPECT_EQ(error(nccl(link_to(second_bus, 2), "")),
            "t.xml:4: 0000:02:00.0 names 2 links to 0000:03:00.0, which names 0 back: a link has two ends");
  EXPECT_EQ(error(nccl(link_to(second_bus, 7), link_to(first_bus, 7))),
            "t.xml:5: the GPU 0000:03:00.0 names 7 NVLinks, but one of compute capability 70 has 6");
  EXPECT_EQ(error(R"(<system version="3"/>)"), "t.xml:1: has version 3; NCCL writes 1, RCCL 2");
}

TEST(NcclTopology, MakesSeveralServersOfOne) {
  TopologyReadOptions options;
  options.servers = 3;
  const Topology t = read_nccl_topology(nccl("", ""), "t.xml", options).topology;
  ASSERT_EQ(t.servers.size(), 3U);
  const Network network = build_network(t, {});
  EXPECT_EQ(network.ranks(), 6);
  EXPECT_TRUE(network.has_route(0, 5));
}

const char* const pair = "        GPU0    GPU1    mlx5_0  CPU Affinity\nGPU0     X      NV2     PIX     0-3\nGPU1    NV2      X      SYS     4-7\nmlx5_0  PIX     SYS      X\n";

TEST(NvidiaSmi, ReadsTheMatrix) {
  const Topology t = read_nvidia_smi_matrix(pair, "t.txt", {}).topology;
  EXPECT_EQ(t.servers[0].gpus.size(), 2U);
  EXPECT_EQ(t.servers[0].nics.size(), 1U);
  EXPECT_EQ(nvlink(t, 0, 1), 36);  // guessed to be two links of a GPU with four
  TopologyReadOptions options;
  options.compute_capability = 80;
  EXPECT_EQ(nvlink(read_nvidia_smi_matrix(pair, "t.txt", options).topology, 0, 1), 40);
  // GPU0 and the NIC share a switch, GPU1 is on the other socket.
  int switches = 0, sockets = 0;
  for (auto [v, end] = boost::vertices(t.graph); v != end; ++v) {
    switches += t.graph[*v].kind == VertexKind::pcie_switch;
    sockets += t.graph[*v].kind == VertexKind::cpu;
  }
  EXPECT_EQ(switches, 1);
  EXPECT_EQ(sockets, 2);
}

TEST(NvidiaSmi, ToleratesTheDamageOfPasting) {
  // Glued header, double tabs, no leading tab, a legend below, the last row lost.
  EXPECT_EQ(nvlink(read_nvidia_smi_matrix("GPU0GPU1mlx5_0\tCPU     Affinity\nGPU0\t X \t\tNV1\tPIX\t0-3\n\nLegend:\n\n  X    = Self\n", "t.txt", {}).topology, 1, 0), 18);
  EXPECT_EQ(error_of([] { read_nvidia_smi_matrix("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV1\tSYS\n", "t.txt", {}); }),
            "t.txt:1: lacks the rows of both GPU1 and GPU2, so how they are connected is lost; paste the whole table");
  EXPECT_EQ(error_of([] { read_nvidia_smi_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tSYS\t X \n", "t.txt", {}); }),
            "t.txt:3: the rows of GPU0 and GPU1 do not agree about how the two are connected");
  EXPECT_EQ(error_of([] { read_nvidia_smi_matrix("\tGPU0\tGPU1\nGPU0\t X \tNVX\n", "t.txt", {}); }),
            "t.txt:2: the row of GPU0 has \"NVX\" where its relation to GPU1 should be; it must have one of X, NV#, PIX, PXB, PHB, NODE, SYS for each of the 2 columns");
}

std::string clique(int gpus, const std::string& relation) {
  std::string text;
  for (int g = 0; g < gpus; ++g) text += "\tGPU" + std::to_string(g);
  text += "\n";
  for (int g = 0; g < gpus; ++g) {
    text += "GPU" + std::to_string(g);
    for (int h = 0; h < gpus; ++h) text += g == h ? "\t X " : "\t" + relation;
    text += "\n";
  }
  return text;
}

TEST(NvidiaSmi, TellsSwitchesFromDirectLinks) {
  const auto hubs = [](const std::string& text, const TopologyReadOptions& options = {}) {
    const Topology t = read_nvidia_smi_matrix(text, "t.txt", options).topology;
    int count = 0;
    for (auto [v, end] = boost::vertices(t.graph); v != end; ++v) count += t.graph[*v].kind == VertexKind::nvswitch;
    return count;
  };
  EXPECT_EQ(hubs(clique(8, "NV18")), 1);
  EXPECT_EQ(hubs(clique(8, "NV12")), 1);
  EXPECT_EQ(hubs(clique(4, "NV4")), 0);
  EXPECT_EQ(hubs(clique(2, "NV12")), 0);
  EXPECT_NE(error_of([&] { hubs(clique(4, "NV6")); }).find("say \"nvlinks\": \"direct\" or \"switch\""), std::string::npos);
  TopologyReadOptions options;
  options.nvswitch = true;
  EXPECT_EQ(hubs(clique(4, "NV6"), options), 1);
  options.nvswitch = false;
  EXPECT_EQ(hubs(clique(4, "NV6"), options), 0);
  EXPECT_NE(error_of([&] { hubs(clique(8, "NV12"), options); }).find("84 NVLinks"), std::string::npos);
}

TEST(SimulatorNetworks, ReadsNs3AndSimai) {
  const Topology star = read_ns3_topology("3 1 2\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n", "t").topology;
  EXPECT_EQ(star.servers.size(), 2U);
  const Network network = build_network(star, {});
  EXPECT_EQ(network.ranks(), 2);
  EXPECT_EQ(network.route(0, 1).latency, Duration(500'000));
  const Topology simai = read_ns3_topology("6 2 2 0 4 H100\n4 5\n0 4 2880Gbps 0.000025ms 0\n1 4 2880Gbps 0.000025ms 0\n2 5 2880Gbps 25ns 0\n3 5 2880Gbps 25ns 0\n", "t").topology;
  EXPECT_EQ(simai.servers.size(), 2U);
  EXPECT_EQ(simai.servers[1].gpus.size(), 2U);
  EXPECT_EQ(error_of([] { read_ns3_topology("3 1 2\n2\n0 2 400GB 1ms 0\n", "t"); }),
            "t:3: the bandwidth \"400GB\" must be a number with one of the units Gbps, Mbps, Kbps, bps");
  EXPECT_EQ(error_of([] { read_ns3_topology("3 1 2\n2\n0 2 400Gbps 1ms 0\n", "t"); }), "t:3: ends after 1 of 2 links");
}

TEST(SimulatorNetworks, ReadsAstraSim) {
  const Topology t = read_astra_network("# c\ntopology: [ FullyConnected, Switch ]\nnpus_count: [ 3, 2 ]\nbandwidth: [ 50.0, 25.0 ]  # GB/s\nlatency: [ 500.0, 700.0 ]\n", "t").topology;
  EXPECT_EQ(t.servers.size(), 2U);
  EXPECT_EQ(nvlink(t, 0, 2), 50);
  EXPECT_EQ(build_network(t, {}).ranks(), 6);
  EXPECT_EQ(error_of([] { read_astra_network("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwith: [ 1 ]\n", "t"); }),
            "t:3: has the unknown key \"bandwith\"; did you mean \"bandwidth\"?");
}

}  // namespace
}  // namespace slackline
