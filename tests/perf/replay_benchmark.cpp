// How much of the machine's memcpy bandwidth slackline-replay's cpu backend moves: acceptance 4 of the REPLAY issue.
//   cmake -S . -B build -DSLACKLINE_BENCHMARKS=ON && ninja -C build replay_benchmark && build/bin/replay_benchmark
#include <benchmark/benchmark.h>

#include <thread>

#include "replay/cpu_backend.hpp"
#include "unit/replay_support.hpp"

namespace slackline {
namespace {

constexpr int64_t size = int64_t{64} << 20;

double memcpy_rate() {
  static const double rate = measure_memcpy(std::max(1u, std::thread::hardware_concurrency()), static_cast<size_t>(size));
  return rate;
}

// Counters: bytes that the transfers moved per second, and that as a part of what memcpy moves on all cores.
void replay(benchmark::State& state, const Schedule& schedule, ElementType type) {
  const auto plan = std::make_shared<const Plan>(build_plan(schedule, Bytes(size), element_size(type)));
  const auto backend = make_cpu_backend({plan, type});
  backend->run(0);
  double seconds = 0;
  int64_t runs = 0;
  for (auto _ : state) {
    const double time = backend->run(static_cast<uint32_t>(runs));
    state.SetIterationTime(time);
    seconds += time;
    ++runs;
  }
  if (backend->wrong() != 0) state.SkipWithError("wrong results");
  const double rate = static_cast<double>(plan->total_bytes() * runs) / seconds;
  state.counters["moved_GBps"] = rate * 1e-9;
  state.counters["memcpy_GBps"] = memcpy_rate() * 1e-9;
  state.counters["of_memcpy"] = rate / memcpy_rate();
}

void allreduce(benchmark::State& state) {
  replay(state, testing::ring(static_cast<int>(state.range(0))), static_cast<ElementType>(state.range(1)));
}
void allgather(benchmark::State& state) {
  replay(state, testing::ring(static_cast<int>(state.range(0)), CollectiveType::allgather), ElementType::float32);
}
BENCHMARK(allreduce)->ArgsProduct({{2, 4, 8}, {0, 1, 2, 3}})->ArgNames({"ranks", "type"})->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(allgather)->Arg(2)->Arg(8)->ArgName("ranks")->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slackline
