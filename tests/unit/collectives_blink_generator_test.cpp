// Blink's generator and the NCCL baselines: bad input, roots, hybrid, NVSwitches with slow ports; the machines they run on.
#include <gtest/gtest.h>

#include <set>

#include "collectives/algorithm.hpp"
#include "collectives/nccl_tree.hpp"
#include "collectives/tree_streams.hpp"
#include "fabric/simulate.hpp"
#include "schedule/validate.hpp"
#include "support/dgx.hpp"
#include "support/expect_error.hpp"

namespace slackline {
namespace {

Generated make(const Network& network, const std::string& options, CollectiveType type = CollectiveType::allreduce, int root = 0,
               Bytes size = Bytes(int64_t{1} << 30)) {
  const Json json = parse_json(options, "scenario.json");
  Collective collective;
  collective.type = type;
  collective.ranks = network.ranks();
  collective.root = has_root(type) ? root : -1;
  return generate({network, collective, size, Bytes(4), Sharing::fair, JsonCursor(json, "scenario.json", "/schedule"), {}});
}

double seconds(const Network& network, const Schedule& schedule, Bytes size = Bytes(int64_t{1} << 30)) {
  const MessageLayout layout(size, Bytes(4), schedule.units());
  return static_cast<double>(simulate(network, schedule, layout).time.count()) * 1e-12;
}

Topology failed(const std::string& name, std::vector<int> nvlink, int count, const Fraction& remaining = Fraction(0)) {
  Topology topology = machine(name);
  Failure failure;
  failure.where = "scenario.json: /failures/0";
  failure.nvlink = std::move(nvlink);
  failure.nvlink_count = count;
  failure.nvlink_remaining = remaining;
  apply_failures(topology, {failure});
  return topology;
}

// Two pairs of GPUs with an NVLink each and nothing else.
const char* const no_pcie = R"({"builder": "explicit", "vertices": [{"name": "gpu", "kind": "gpu", "server": 0, "count": 4}],
  "links": [{"kind": "nvlink", "bandwidth": "25 GB/s", "pairs": [["gpu0", "gpu1"], ["gpu2", "gpu3"]]}]})";

Topology built(const std::string& text) {
  const Json json = parse_json(text, "topology.json");
  return build_topology(JsonCursor(json, "topology.json"), SLACKLINE_SOURCE_DIR);
}

TEST(BlinkGenerator, BadInput) {
  const Network whole = allocation(machine("dgx1v"), {gpu_list("0123")});
  EXPECT_EQ(error_of([&] { make(allocation(built(no_pcie), {gpu_list("0123")}), R"({"algorithm": "blink"})"); }),
            "scenario.json: /schedule/algorithm: blink does not apply: ranks {0, 1} and {2, 3} have no NVLinks between them, and there "
            "is no PCIe or network path either");
  EXPECT_EQ(error_of([&] { make(allocation(built(no_pcie), {gpu_list("0123")}), R"({"algorithm": "nccl_ring"})"); }),
            "scenario.json: /schedule/algorithm: nccl_ring does not apply: ranks {0, 1} and {2, 3} have no NVLinks between them, and "
            "there is no PCIe or network path either");
  EXPECT_EQ(error_of([&] { allocation(machine("dgx1v"), {{0, 8}}); }), "ranks: server 0 has no GPU 8; it has GPUs 0 to 7");
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "root": 4})"); }),
            "scenario.json: /schedule/root: must be a whole number from 0 to 3, not 4");
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "root": 1})", CollectiveType::broadcast); }),
            "scenario.json: /schedule/root: the root is given in the collective");
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "chunck": "1 MiB"})"); }).find("did you mean \"chunk\"") == std::string::npos, false);
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "eps": "1"})"); }), "scenario.json: /schedule/eps: eps lies between 1/100 and 9/10");
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "switch_over": "1 us"})"); }),
            "scenario.json: /schedule/switch_over: is the cost of using PCIe beside NVLinks, which \"hybrid\": true asks for");
  EXPECT_EQ(error_of([&] { make(whole, R"({"algorithm": "blink", "chunk": "4 B"})"); }).find("max_transfers is 262144") == std::string::npos, false);
}

TEST(BlinkGenerator, FailuresOfNvlinks) {
  // One of the two links between GPUs 0 and 3.
  const Network one = allocation(failed("dgx1v", {0, 3}, 1), {{0, 3}});
  EXPECT_EQ(nvlink_islands(one)[0].graph.at(0, 1), Fraction(1));
  EXPECT_DOUBLE_EQ(nvlink_islands(one)[0].link_bytes_per_second, 25e9);
  // Both: the pair is joined by PCIe alone.
  EXPECT_EQ(nvlink_islands(allocation(failed("dgx1v", {3, 0}, 2), {{0, 3}})).size(), 2u);
  EXPECT_EQ(nvlink_islands(allocation(failed("dgx1v", {3, 0}, 0), {{0, 3}})).size(), 2u);
  // Slower, but still two links: a link is what the fastest give.
  EXPECT_EQ(nvlink_islands(allocation(failed("dgx1v", {0, 3}, 0, Fraction(3, 4)), {{0, 3, 4}}))[0].graph.at(0, 1), Fraction(3, 2));
  EXPECT_EQ(error_of([] { failed("dgx1v", {0, 3}, 3); }),
            "scenario.json: /failures/0: server 0 has 2 living NVLinks between GPU 0 and GPU 3: 3 cannot fail");
  EXPECT_EQ(error_of([] { failed("dgx1v", {0, 5}, 1); }), "scenario.json: /failures/0: server 0 has no NVLink between GPU 0 and GPU 5");
  EXPECT_EQ(error_of([] { failed("dgx1v", {0, 9}, 1); }), "scenario.json: /failures/0: server 0 has no GPU 9; it has GPUs 0 to 7");
  EXPECT_EQ(error_of([] { failed("dgx2", {0, 5}, 1); }), "scenario.json: /failures/0: server 0 has no NVLink between GPU 0 and GPU 5");
  EXPECT_EQ(error_of([] { failed("dgx1v", {0, 3}, 0, Fraction(5, 4)); }),
            "scenario.json: /failures/0: what remains of an NVLink is a fraction from 0 to 1, not 5/4");
}

// A failed link costs what it must: 8 GPUs with one link less at GPU 0 broadcast at 5 links, not 6.
TEST(BlinkGenerator, DegradedMachineReachesItsOwnOptimum) {
  const Network network = allocation(failed("dgx1v", {0, 4}, 1), {gpu_list("01234567")});
  const Generated generated = make(network, R"({"algorithm": "blink"})", CollectiveType::broadcast, 0);
  EXPECT_TRUE(validate(generated.schedule).empty());
  EXPECT_NEAR(static_cast<double>(int64_t{1} << 30) / seconds(network, generated.schedule) / 125e9, 1, 0.02);
}

// Ports of an NVSwitch of which one is slow: shares x_i = (T c_i - 1)/(m - 2), T = (2m - 2)/(sum of c) as long as no
// share is negative. GPU 0 at 3/4 of 4 GPUs: T = 6/(15/4) = 8/5, x = 1/10 and 3/10.
TEST(BlinkGenerator, SlowPortOnAnNvswitch) {
  const Network network = allocation(failed("dgx2", {0}, 0, Fraction(3, 4)), {gpu_list("0123")});
  const Generated generated = make(network, R"({"algorithm": "blink", "chunk": "1 MiB"})");
  EXPECT_TRUE(validate(generated.schedule).empty());
  EXPECT_EQ(generated.schedule.units(), 10 * generated.segments);
  EXPECT_NE(std::find_if(generated.notes.begin(), generated.notes.end(),
                         [](const std::string& note) { return note.starts_with("planned rate 93.75 GB/s"); }),
            generated.notes.end());
  EXPECT_NEAR(static_cast<double>(int64_t{1} << 30) / seconds(network, generated.schedule) / 93.75e9, 1, 0.06);
}

TEST(BlinkGenerator, OneHopTreesTakeTwoLatencies) {
  const Network network = allocation(machine("dgx2"), {gpu_list("0123456789")});
  const Bytes size(4000);
  const Generated generated = make(network, R"({"algorithm": "blink"})", CollectiveType::allreduce, 0, size);
  // 18 messages of 400 B at 150 GB/s and 20 ns each, and 2 x 700 ns.
  EXPECT_NEAR(seconds(network, generated.schedule, size) * 1e9, 18 * (20 + 400 / 150.0) + 1400, 1);
}

TEST(BlinkGenerator, RootIsObeyed) {
  const Network network = allocation(machine("dgx1v"), {gpu_list("0123")});
  for (int root = 0; root < 4; ++root) {
    const Generated generated = make(network, "{\"algorithm\": \"blink\", \"chunk\": \"1 GiB\", \"root\": " + std::to_string(root) + "}");
    // The root alone sends copies of what it has not received as a copy.
    std::set<uint32_t> copied, first;
    for (size_t i = 0; i < generated.schedule.size(); ++i)
      if (generated.schedule.op(i) == TransferOp::copy) copied.insert(generated.schedule.dst(i));
    EXPECT_FALSE(copied.contains(static_cast<uint32_t>(root)));
    EXPECT_EQ(copied.size(), 3u);
  }
}

// D_pcie = (D B_p - T B_p B_n)/(B_p + B_n), and nothing where the switch-over costs more than PCIe gains.
TEST(BlinkGenerator, HybridBalancesPcieAndNvlink) {
  const Network network = allocation(machine("dgx1v"), {gpu_list("01234567")});
  const Generated plain = make(network, R"({"algorithm": "blink"})", CollectiveType::broadcast);
  const Generated hybrid = make(network, R"({"algorithm": "blink", "hybrid": true})", CollectiveType::broadcast);
  EXPECT_TRUE(validate(hybrid.schedule).empty());
  // Every hop between GPUs without an NVLink crosses the sockets, two of them over each PCIe switch: 7.875 GB/s.
  EXPECT_NEAR(seconds(network, plain.schedule) / seconds(network, hybrid.schedule), (150 + 7.875) / 150, 0.01);
  const Generated late = make(network, R"({"algorithm": "blink", "hybrid": true, "switch_over": "1 s"})", CollectiveType::broadcast);
  EXPECT_EQ(late.schedule.size(), make(network, R"({"algorithm": "blink"})", CollectiveType::broadcast).schedule.size());
  // Between four GPUs that are all joined by NVLinks there is no transfer that takes PCIe.
  const Network quad = allocation(machine("dgx1v"), {gpu_list("0123")});
  const Generated none = make(quad, R"({"algorithm": "blink", "hybrid": true})");
  EXPECT_NE(std::find_if(none.notes.begin(), none.notes.end(), [](const std::string& note) { return note.starts_with("PCIe is not used"); }),
            none.notes.end());
}

TEST(BlinkGenerator, StagesAreReported) {
  const Network network = allocation(machine("dgx1v"), {gpu_list("01234567")});
  const std::vector<std::string> notes = make(network, R"({"algorithm": "blink"})").notes;
  ASSERT_GE(notes.size(), 5u);
  EXPECT_EQ(notes[0], "optimum: 24/7 links (85.7143 GB/s)");
  EXPECT_TRUE(notes[1].starts_with("multiplicative weights, eps 1/10: ")) << notes[1];
  EXPECT_EQ(notes[2], "trees of 1 link: 3 links (75 GB/s), 3 trees, 3 hops deep at most");
  EXPECT_EQ(notes[3], "trees of 1/3 link: 10/3 links (83.3333 GB/s), 10 trees, 3 hops deep at most");
  EXPECT_EQ(notes[4], "shallower trees: 10/3 links (83.3333 GB/s), 10 trees, 2 hops deep at most");
  EXPECT_EQ(make(network, R"({"algorithm": "blink"})").notes, notes) << "not deterministic";
  EXPECT_NE(make(network, R"({"algorithm": "blink", "timings": true})").notes[2].find(" ms"), std::string::npos);
}

TEST(BlinkGenerator, TheSameTwice) {
  const Network network = allocation(machine("dgx1v", "\"servers\": 2"), {gpu_list("023"), gpu_list("01234")});
  EXPECT_EQ(make(network, R"({"algorithm": "blink", "chunk": "16 MiB"})").schedule, make(network, R"({"algorithm": "blink", "chunk": "16 MiB"})").schedule);
}

TEST(NcclTree, InnerNodesOfOneAreLeavesOfTheOther) {
  EXPECT_EQ(binary_tree(8).parent, (std::vector<int>{-1, 2, 4, 2, 0, 6, 4, 6}));
  for (int n = 2; n <= 33; ++n) {
    const Tree first = binary_tree(n), second = complementary_binary_tree(n);
    for (const Tree& tree : {first, second}) {
      std::vector<int> children(static_cast<size_t>(n));
      for (int v = 0; v < n; ++v) {
        ASSERT_GE(depths(tree)[static_cast<size_t>(v)], 0);
        if (v != tree.root) ++children[static_cast<size_t>(tree.parent[static_cast<size_t>(v)])];
      }
      EXPECT_LE(*std::max_element(children.begin(), children.end()), 2) << n;
    }
    if (n % 2 != 0) continue;  // with an odd number one node is inner in both
    for (int v = 0; v < n; ++v) {
      const auto inner = [&](const Tree& tree) { return std::find(tree.parent.begin(), tree.parent.end(), v) != tree.parent.end(); };
      EXPECT_FALSE(inner(first) && inner(second)) << n << " " << v;
    }
  }
}

TEST(NcclRing, BroadcastOnTwoRingsUsesBothDirections) {
  const Network network = allocation(machine("dgx1v"), {gpu_list("0123")});
  const Generated generated = make(network, R"({"algorithm": "nccl_ring", "chunk": "1 MiB"})", CollectiveType::broadcast);
  // Two cycles, each way: 4 links' worth.
  EXPECT_NEAR(static_cast<double>(int64_t{1} << 30) / seconds(network, generated.schedule) / 100e9, 1, 0.02);
}

TEST(ExplicitTopology, ServersAreCopies) {
  const Topology topology = machine("dgx1v", R"("servers": 3, "bandwidths": {"nic": "40 Gb/s"})");
  ASSERT_EQ(topology.servers.size(), 3u);
  EXPECT_EQ(topology.graph[topology.servers[2].gpus[7]].name, "server2/gpu7");
  const Network network = allocation(topology, {gpu_list("01234567")});
  EXPECT_EQ(network.ranks(), 24);
  for (const NetworkLink& link : network.links())
    if (link.kind == LinkKind::network) { EXPECT_EQ(link.capacity, Bandwidth(20'000'000'000)); }  // 4 x 40 Gb/s over 8 GPUs
}

TEST(ExplicitTopology, BadInput) {
  EXPECT_EQ(error_of([] { machine("dgx1v", R"("bandwidths": {"nik": "40 Gb/s"})"); }),
            "reference: /bandwidths/nik: the topology file names no bandwidth \"nik\"; did you mean \"nic\"?");
  EXPECT_EQ(error_of([] { machine("dgx1v", R"("bandwidths": {"nic": "40"})"); }).find("reference: /bandwidths/nic: "), 0u);
  EXPECT_EQ(error_of([] { machine("two_quads", R"("servers": 2)"); }),
            "reference: /servers: the topology file describes no \"server\" that could be copied");
  EXPECT_EQ(error_of([] { built(R"({"builder": "explicit", "server": {"vertices": [{"name": "s", "kind": "switch"}]}})"); }),
            "topology.json: /server/vertices/0/kind: a switch stands between servers: put it into the topology's own \"vertices\"");
  EXPECT_EQ(error_of([] {
              built(R"({"builder": "explicit", "server": {"vertices": [{"name": "gpu", "kind": "gpu", "count": 2}],
                        "links": [{"kind": "nvlink", "bandwidth": "25 GB/s", "pairs": [["gpu0", "gpu2"]]}]}})");
            }).find("topology.json: /server/links/0/pairs/0/1: there is no vertex \"gpu2\""),
            0u);
  EXPECT_EQ(error_of([] {
              built(R"({"builder": "explicit", "server": {"vertices": [{"name": "gpu", "kind": "gpu", "count": 2}],
                        "links": [{"kind": "nvlink", "bandwidth": "0 GB/s", "pairs": [["gpu0", "gpu1"]]}]}})");
            }).find("topology.json: /server/links/0/bandwidth: "),
            0u);
}

}  // namespace
}  // namespace slackline
