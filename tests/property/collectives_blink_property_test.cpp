// Every schedule that Blink and the NCCL baselines generate is proven right by validate(), and the simulator
// reaches the rate that the packing promises, on all classes of DGX-1 allocations.
#include <gtest/gtest.h>

#include "collectives/algorithm.hpp"
#include "collectives/tree_streams.hpp"
#include "fabric/simulate.hpp"
#include "schedule/validate.hpp"
#include "support/dgx.hpp"
#include "support/sanitized.hpp"

namespace slackline {
namespace {

struct Case {
  std::string algorithm = "blink";
  CollectiveType type = CollectiveType::allreduce;
  int root = 0;
  Bytes size{int64_t{1} << 30};
  Json options = Json::object();
};

Generated make(const Network& network, const Case& wanted) {
  Json options = wanted.options;
  options["algorithm"] = wanted.algorithm;
  Collective collective;
  collective.type = wanted.type;
  collective.ranks = network.ranks();
  collective.root = has_root(wanted.type) ? wanted.root : -1;
  return generate({network, collective, wanted.size, Bytes(4), Sharing::fair, JsonCursor(options, "options"), {}});
}

double simulated_seconds(const Network& network, const Case& wanted, const Schedule& schedule) {
  const MessageLayout layout(wanted.size, Bytes(4), schedule.units());
  return static_cast<double>(simulate(network, schedule, layout).time.count()) * 1e-12;
}

std::string first_finding(const Schedule& schedule) {
  const std::vector<Finding> findings = validate(schedule);
  return findings.empty() ? "" : std::string(findings[0].rule) + ": " + findings[0].message;
}

constexpr std::array<CollectiveType, 7> all_types = {
    CollectiveType::broadcast, CollectiveType::reduce,    CollectiveType::gather,        CollectiveType::scatter,
    CollectiveType::allreduce, CollectiveType::allgather, CollectiveType::reduce_scatter};

// The size that makes 16 chunks of every stream; the pipeline then takes (levels + 15)/16 of the time of the rate,
// which the packing guarantees hop by hop.
void expect_planned_rate(const Network& network, Case wanted, double links, double link_bytes_per_second) {
  wanted.options["max_transfers"] = 1 << 16;
  const double rate = links * link_bytes_per_second;
  const Generated probe = make(network, wanted);
  ASSERT_EQ(first_finding(probe.schedule), "");
  int levels = 0;
  std::vector<int> level(probe.schedule.size());
  for (size_t i = 0; i < probe.schedule.size(); ++i) {
    for (const uint32_t earlier : probe.schedule.after(i)) level[i] = std::max(level[i], level[earlier]);
    levels = std::max(levels, ++level[i]);
  }
  const double chunks = static_cast<double>(probe.segments);
  const double expected = static_cast<double>(wanted.size.count()) / rate * (levels + chunks - 1) / chunks;
  const double time = simulated_seconds(network, wanted, probe.schedule);
  EXPECT_LE(time, expected * 1.002) << "of " << probe.segments << " chunks and " << levels << " levels";
  EXPECT_GE(time, static_cast<double>(wanted.size.count()) / rate * 0.999) << "faster than the packing";
}

TEST(BlinkProperty, EveryAllocationReachesItsPackingsRate) {
  for (const std::string name : {"dgx1v", "dgx1p"}) {
    const Topology topology = machine(name);
    for (int n = 3; n <= 8; ++n) {
      for (const AllocationClass& c : allocation_classes(whole_machine(name), n)) {
        const Network network = allocation(topology, {c.gpus});
        const Island island = nvlink_islands(network).at(0);
        // Under the sanitizers, where this takes minutes, the first root has to do.
        for (int root = 0; root < (sanitized ? 1 : n); ++root) {
          SCOPED_TRACE(name + " " + rank_set(c.gpus) + " root " + std::to_string(root));
          Case wanted;
          wanted.options["chunk"] = "2 MiB";
          wanted.type = CollectiveType::broadcast;
          wanted.root = root;
          expect_planned_rate(network, wanted, pack_trees(island.graph, {false, root}).rate().to_double(), island.link_bytes_per_second);
          wanted.type = CollectiveType::allreduce;
          wanted.options["root"] = root;
          wanted.options["chunk"] = "8 MiB";
          expect_planned_rate(network, wanted, pack_trees(island.graph, {true, 0}).rate().to_double(), island.link_bytes_per_second);
        }
      }
    }
  }
}

// All collectives of all generators on all kinds of machines: proven right, and as fast as planned.
TEST(BlinkProperty, EveryCollectiveOnEveryKindOfMachine) {
  struct Place {
    std::string machine, changes;
    std::vector<std::vector<int>> gpus;
  };
  const std::vector<Place> places = {
      {"dgx1v", "", {gpu_list("1456")}},                                     // no ring
      {"dgx1v", "", {gpu_list("0123")}},                                     // two rings
      {"dgx1v", "", {gpu_list("03")}},                                       // two links
      {"dgx1v", "", {gpu_list("0156")}},                                     // 0-1-5-6
      {"dgx1v", "", {gpu_list("0257")}},                                     // two islands, 0-2 and 5-7
      {"dgx1v", "", {gpu_list("07")}},                                       // PCIe only
      {"dgx2", "", {gpu_list("012345")}},                                    // NVSwitch
      {"dgx2", "", {gpu_list("01")}},                                        //
      {"dgx1v", "\"servers\": 2", {gpu_list("023"), gpu_list("01234")}},     // 3 + 5
      {"dgx1v", "\"servers\": 3", {gpu_list("02"), gpu_list("0"), gpu_list("0257")}},
      {"dgx_a100", "\"servers\": 2", {gpu_list("0123")}},                    // NVSwitch twice
      {"dgx_h100", "\"servers\": 4", {gpu_list("0")}},                       // no NVLink used
  };
  for (const Place& place : places) {
    const Network network = allocation(machine(place.machine, place.changes), place.gpus);
    for (const std::string algorithm : {"blink", "nccl_ring", "nccl_tree"}) {
      for (const CollectiveType type : all_types) {
        Case wanted{algorithm, type, network.ranks() - 1, Bytes(int64_t{30} << 20), Json::object()};
        wanted.size = Bytes(wanted.size.count() * network.ranks());
        wanted.options["chunk"] = "4 MiB";
        SCOPED_TRACE(place.machine + " " + place.changes + " " + rank_set(place.gpus[0]) + " " + algorithm + " " + std::string(to_string(type)));
        const auto entry = std::find_if(algorithms().begin(), algorithms().end(), [&](const Algorithm& a) { return a.name == algorithm; });
        Collective collective{type, network.ranks(), has_root(type) ? wanted.root : -1};
        const Json options = {{"algorithm", algorithm}};
        if (entry->inapplicable({network, collective, wanted.size, Bytes(4), Sharing::fair, JsonCursor(options, "options"), {}})) {
          EXPECT_NE(algorithm, "blink");
          continue;
        }
        const Generated generated = make(network, wanted);
        EXPECT_EQ(first_finding(generated.schedule), "");
        EXPECT_GT(simulated_seconds(network, wanted, generated.schedule), 0);
      }
    }
  }
}

// Large messages, the chunk chosen by the closed form: within 2 % of the plan, latency and overhead included.
TEST(BlinkProperty, LargeMessagesWithinTwoPercent) {
  if (sanitized) GTEST_SKIP() << "asks for rates, of code that the other tests run, and takes a minute under the sanitizers";
  struct Place {
    std::string machine, changes;
    std::vector<std::vector<int>> gpus;
    CollectiveType type;
    double gigabytes_per_second;
  };
  const std::vector<Place> places = {
      {"dgx1v", "", {gpu_list("01234567")}, CollectiveType::broadcast, 6 * 25},
      {"dgx1v", "", {gpu_list("01234567")}, CollectiveType::allreduce, 10.0 / 3 * 25},
      {"dgx1v", "", {gpu_list("1456")}, CollectiveType::broadcast, 2 * 25},
      {"dgx1p", "", {gpu_list("01234567")}, CollectiveType::allreduce, 9.0 / 4 * 20},
      {"dgx2", "", {gpu_list("0123456789")}, CollectiveType::allreduce, 150 * 10.0 / 18},
      {"dgx2", "", {gpu_list("0123456789")}, CollectiveType::broadcast, 150},
      // Two servers: every byte enters and leaves the server with fewer GPUs, which have 1/8 of 4 x 12.5 GB/s each.
      {"dgx1v", "\"servers\": 2", {gpu_list("023"), gpu_list("01234")}, CollectiveType::allreduce, 3 * 6.25},
      {"dgx1v", "\"servers\": 2", {gpu_list("01234567")}, CollectiveType::allreduce, 8 * 6.25},
      // The NVSwitch is the ceiling: each GPU sends 7/8 of the message twice, at 300 GB/s.
      {"dgx_a100", "\"servers\": 2", {gpu_list("01234567")}, CollectiveType::allreduce, 300 * 8.0 / 14},
      // Each of four servers receives 3/4 of the message twice.
      {"dgx_a100", "\"servers\": 4", {gpu_list("01")}, CollectiveType::allreduce, 2 * 25 / 1.5},
  };
  for (const Place& place : places) {
    SCOPED_TRACE(place.machine + " " + place.changes + " " + rank_set(place.gpus[0]) + " " + std::string(to_string(place.type)));
    const Network network = allocation(machine(place.machine, place.changes), place.gpus);
    Case wanted{"blink", place.type, 0, Bytes(int64_t{64} << 30), Json::object()};
    wanted.options["max_transfers"] = 300000;
    const Generated generated = make(network, wanted);
    const double rate = static_cast<double>(wanted.size.count()) / simulated_seconds(network, wanted, generated.schedule) / 1e9;
    EXPECT_GE(rate, 0.98 * place.gigabytes_per_second) << generated.segments;
    EXPECT_LE(rate, 1.001 * place.gigabytes_per_second);
  }
}

}  // namespace
}  // namespace slackline
