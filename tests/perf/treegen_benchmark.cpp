// How long TreeGen takes on DGX-1 allocations (at most 1 s is allowed), and generating on 16 GPUs with an NVSwitch (10 s).
#include <benchmark/benchmark.h>

#include "collectives/algorithm.hpp"
#include "support/dgx.hpp"

namespace slackline {
namespace {

// All allocations of 3 to 8 GPUs; the counter says what the slowest took.
void tree_gen(benchmark::State& state, const char* name, bool undirected) {
  const CapacityGraph whole = whole_machine(name);
  std::vector<CapacityGraph> graphs;
  for (int n = 3; n <= 8; ++n)
    for (const AllocationClass& c : allocation_classes(whole, n))
      graphs.push_back(nvlink_islands(allocation(machine(name), {c.gpus})).at(0).graph);
  double slowest = 0;
  for (auto _ : state) {
    for (const CapacityGraph& graph : graphs) {
      const TreePacking packing = pack_trees(graph, {undirected, 0});
      double seconds = 0;
      for (const PackingStage& stage : packing.stages) seconds += stage.seconds;
      slowest = std::max(slowest, seconds);
    }
  }
  state.counters["slowest_s"] = slowest;
}
BENCHMARK_CAPTURE(tree_gen, dgx1v_broadcast, "dgx1v", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tree_gen, dgx1v_allreduce, "dgx1v", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tree_gen, dgx1p_broadcast, "dgx1p", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tree_gen, dgx1p_allreduce, "dgx1p", true)->Unit(benchmark::kMillisecond);

void generate_on_dgx2(benchmark::State& state) {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < 16; ++gpu) gpus.push_back(gpu);
  const Network network = allocation(machine("dgx2"), {gpus});
  const Json options = {{"algorithm", "blink"}};
  for (auto _ : state) {
    const Generated generated = generate({network, {CollectiveType::allreduce, 16}, Bytes(int64_t{1} << 30), Bytes(4), Sharing::fair,
                                          JsonCursor(options, "benchmark"), {}});
    benchmark::DoNotOptimize(generated.schedule.size());
  }
}
BENCHMARK(generate_on_dgx2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slackline
