// How much of the machine's memcpy bandwidth slackline-replay's cpu backend moves, for messages of 64 MiB.
//   cmake -S . -B build -DSLACKLINE_BENCHMARKS=ON && ninja -C build replay_benchmark && chrt --fifo 50 build/bin/replay_benchmark
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "replay/cpu_backend.hpp"
#include "unit/replay_support.hpp"

namespace slackline {
namespace {

constexpr int64_t size = int64_t{64} << 20;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Counters: bytes that the transfers moved per second, what memcpy moves on all cores, and the one as a part of the other. Both are measured in
// turns, and medians are compared, since what else a machine does changes while this runs.
void replay(benchmark::State& state, const Schedule& schedule, ElementType type) {
  const auto plan = std::make_shared<const Plan>(build_plan(schedule, Bytes(size), element_size(type)));
  const auto backend = make_cpu_backend({plan, type});
  backend->run(0);
  std::vector<double> times, rates;
  for (auto _ : state) {
    rates.push_back(measure_memcpy(std::max(1u, std::thread::hardware_concurrency()), static_cast<size_t>(size)));
    times.push_back(backend->run(static_cast<uint32_t>(times.size())));
    state.SetIterationTime(times.back());
  }
  if (backend->wrong() != 0) state.SkipWithError("wrong results");
  const double rate = static_cast<double>(plan->total_bytes()) / median(times);
  state.counters["moved_GBps"] = rate * 1e-9;
  state.counters["memcpy_GBps"] = median(rates) * 1e-9;
  state.counters["of_memcpy"] = rate / median(rates);
}

void allreduce(benchmark::State& state) {
  replay(state, testing::ring(static_cast<int>(state.range(0))), static_cast<ElementType>(state.range(1)));
}
void allgather(benchmark::State& state) {
  replay(state, testing::ring(static_cast<int>(state.range(0)), CollectiveType::allgather), ElementType::float32);
}
BENCHMARK(allreduce)->ArgsProduct({{2, 4, 8}, {0, 1, 2, 3}})->ArgNames({"ranks", "type"})->Iterations(11)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(allgather)->Arg(2)->Arg(8)->ArgName("ranks")->Iterations(11)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slackline
