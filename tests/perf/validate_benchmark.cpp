// How long validation takes: what our generators make, and schedules as imports have them, of which
// nothing may be assumed. build/bin/validate_benchmark; peak memory is reported by /usr/bin/time -v
// on one benchmark alone (--benchmark_filter).
#include <benchmark/benchmark.h>

#include <random>

#include "collectives/algorithm.hpp"
#include "schedule/validate.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"

namespace slackline {
namespace {

Schedule generated(const std::string& algorithm, int ranks, const std::string& slowdown,
                   int segments) {
  const auto description = parse_json(
      R"({"builder":"rail_fabric","servers":)" + std::to_string(ranks) +
          R"(,"gpus_per_server":8,"nics_per_server":8,"nic_bandwidth":"100 GB/s","nic_latency":"2 us",
                        "message_overhead":"20 ns","nvlink_bandwidth":"900 GB/s","nvlink_latency":"500 ns"})",
      "topology");
  Topology topology = build_topology(JsonCursor(description, "topology"), ".");
  Failure failure;
  failure.slowdown = Fraction::parse(slowdown);
  apply_failures(topology, {failure});
  RankSelection selection;
  selection.gpus_per_server = 1;
  const Network network = build_network(topology, selection);
  const auto options =
      parse_json(R"({"algorithm":")" + algorithm + "\"" +
                     (segments > 0 ? ",\"segments\":" + std::to_string(segments) : "") + "}",
                 "options");
  Collective collective;
  collective.ranks = ranks;
  return generate({network,
                   collective,
                   Bytes(int64_t{8} << 30),
                   Bytes(4),
                   Sharing::fair,
                   JsonCursor(options, "options"),
                   {}})
      .schedule;
}

// Thread blocks as in an MSCCL file: each rank has one per channel, which goes through its steps in
// order; all channels run a ring over and over in lockstep. Orders come from the thread blocks
// alone, never from the chunk.
Schedule thread_blocks(uint32_t ranks, uint32_t channels, int turns) {
  Collective collective;
  collective.ranks = static_cast<int>(ranks);
  Schedule schedule(collective, int64_t{ranks} * channels);
  for (int64_t u = 0; u < schedule.units(); ++u) schedule.add_chunk({Buffer::data, u, 1});
  std::vector<uint32_t> received(ranks * channels, UINT32_MAX), sent = received;
  for (int phase = 0; phase < 2 * turns; ++phase)
    for (uint32_t step = 0; step + 1 < ranks; ++step) {
      const std::vector<uint32_t> received_before = received, sent_before = sent;
      for (uint32_t k = 0; k < channels; ++k)
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          const uint32_t next = (rank + 1) % ranks;
          const uint32_t chunk =
              (rank + (phase % 2 == 0 ? ranks - 1 : 0) + ranks - step) % ranks * channels + k;
          std::vector<uint32_t> after;
          for (const uint32_t d :
               {received_before[rank * channels + k], sent_before[next * channels + k]})
            if (d != UINT32_MAX) after.push_back(d);
          sent[rank * channels + k] = received[next * channels + k] =
              static_cast<uint32_t>(schedule.size());
          schedule.add({rank, next, chunk, chunk,
                        phase == 0 ? TransferOp::reduce : TransferOp::copy,
                        static_cast<uint16_t>(k), after});
        }
    }
  return schedule;
}

// Transfers between any two chunks of 64 ranks, all one group; of the orders wanted, the given
// number per 1000 is missing.
Schedule tangle(int transfers, int missing) {
  constexpr uint32_t ranks = 64, units = 64;
  Collective collective;
  collective.ranks = ranks;
  Schedule schedule(collective, units);
  for (int64_t u = 0; u < units; ++u) schedule.add_chunk({Buffer::data, u, 1});
  std::mt19937 random(1);
  std::vector<uint32_t> writer(ranks * units, UINT32_MAX);
  std::vector<std::vector<uint32_t>> readers(ranks * units);
  for (int t = 0; t < transfers; ++t) {
    const uint32_t src = random() % ranks, dst = (src + 1 + random() % (ranks - 1)) % ranks;
    const uint32_t from = random() % units, to = random() % units;
    const uint32_t source = src * units + from, destination = dst * units + to;
    std::vector<uint32_t> after;
    const auto wait = [&](uint32_t d) {
      if (d != UINT32_MAX && static_cast<int>(random() % 1000) >= missing) after.push_back(d);
    };
    wait(writer[source]);
    wait(writer[destination]);
    for (const uint32_t d : readers[destination]) wait(d);
    readers[source].push_back(static_cast<uint32_t>(t));
    writer[destination] = static_cast<uint32_t>(t);
    readers[destination].clear();
    schedule.add(
        {src, dst, from, to, TransferOp::copy, static_cast<uint16_t>(random() % 8), after});
  }
  return schedule;
}

void run(benchmark::State& state, const Schedule& schedule) {
  size_t findings = 0;
  for (auto _ : state) findings = validate(schedule).size();
  state.counters["transfers"] = static_cast<double>(schedule.size());
  state.counters["findings"] = static_cast<double>(findings);
}

void ring_1024(benchmark::State& state) {
  run(state, generated("ring", 1024, "2", 0));
}
void optcc_1024_16(benchmark::State& state) {
  run(state, generated("optcc", 1024, "8/7", 16));
}
void thread_blocks_64_8(benchmark::State& state) {
  run(state, thread_blocks(64, 8, 16));
}
void tangle_ordered(benchmark::State& state) {
  run(state, tangle(1'000'000, 0));
}
void tangle_with_races(benchmark::State& state) {
  run(state, tangle(1'000'000, 1));
}

BENCHMARK(ring_1024)->Unit(benchmark::kMillisecond);
BENCHMARK(optcc_1024_16)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(thread_blocks_64_8)->Unit(benchmark::kMillisecond);
BENCHMARK(tangle_ordered)->Unit(benchmark::kMillisecond);
BENCHMARK(tangle_with_races)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slackline
