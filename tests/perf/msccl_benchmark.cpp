// MSCCL programs of a million steps: reading, FIFOs and contents. Target: 3 s for the whole check, memory linear in steps.
#include <benchmark/benchmark.h>

#include <sstream>

#include "schedule/msccl_check.hpp"

namespace slackline {
namespace {

// `channels` rings around `ranks` ranks, one block a rank and ring, as msccl-tools makes them: 2 ranks (2 ranks - 1)
// steps a ring and rank.
MscclProgram rings(int ranks, int channels) {
  MscclProgram program;
  program.name = "rings";
  program.collective = "allreduce";
  program.channels = channels;
  program.chunks = ranks * channels;
  program.ranks = ranks;
  program.in_place = true;
  program.out_of_place = false;
  for (int r = 0; r < ranks; ++r) {
    MscclGpu gpu;
    gpu.id = r;
    gpu.input_chunks = program.chunks;
    for (int c = 0; c < channels; ++c) {
      MscclBlock block;
      block.id = c;
      block.channel = c;
      block.send = (r + 1) % ranks;
      block.receive = (r + ranks - 1) % ranks;
      const auto add = [&](MscclOp op, int hop) {
        MscclStep step;
        step.op = op;
        step.src_offset = step.dst_offset = c * ranks + ((r - hop) % ranks + ranks) % ranks;
        step.count = 1;
        step.declared = static_cast<int32_t>(block.steps.size());
        block.steps.push_back(step);
      };
      add(MscclOp::s, 0);
      for (int hop = 1; hop < ranks - 1; ++hop) add(MscclOp::rrs, hop);
      add(MscclOp::rrcs, ranks - 1);
      for (int hop = 0; hop < ranks - 2; ++hop) add(MscclOp::rcs, hop);
      add(MscclOp::r, ranks - 2);
      gpu.blocks.push_back(std::move(block));
    }
    program.gpus.push_back(std::move(gpu));
  }
  return program;
}

void check_rings(benchmark::State& state) {
  const MscclProgram program = rings(64, static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const MscclReport report = check_msccl(program, {});
    if (report.in_place != MscclResult::right) state.SkipWithError("not right");
  }
  state.counters["steps"] = static_cast<double>(program.steps());
  state.SetItemsProcessed(static_cast<int64_t>(program.steps()) * state.iterations());
}
BENCHMARK(check_rings)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);

void read_rings(benchmark::State& state) {
  std::ostringstream text;
  write_msccl_xml(rings(64, 128), text);
  const std::string xml = text.str();
  for (auto _ : state) {
    std::vector<Finding> findings;
    benchmark::DoNotOptimize(read_msccl_xml(xml, "", MscclDialect::any, findings));
  }
  state.SetBytesProcessed(static_cast<int64_t>(xml.size()) * state.iterations());
}
BENCHMARK(read_rings)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slackline
