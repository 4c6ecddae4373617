// The CPU backend: right results for every collective, type and number of cores, right timing when shaped, and
// an end with a message where a rank fails.
#include "replay/cpu_backend.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.hpp"
#include "replay_support.hpp"
#include "schedule/list_timing.hpp"
#include "schedule/validate.hpp"

namespace slackline {
namespace {

using testing::NamedSchedule;

constexpr ElementType types[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int32};

std::shared_ptr<const Plan> plan_of(const Schedule& schedule, int64_t bytes, ElementType type = ElementType::float32) {
  return std::make_shared<const Plan>(build_plan(schedule, Bytes(bytes), element_size(type)));
}

int64_t wrong_after_runs(const Schedule& schedule, int64_t bytes, ElementType type, uint32_t runs = 2,
                         const CpuOptions& options = {}) {
  const auto backend = make_cpu_backend({plan_of(schedule, bytes, type), type}, options);
  int64_t wrong = 0;
  for (uint32_t run = 0; run < runs; ++run) {
    EXPECT_GT(backend->run(run), 0);
    wrong += backend->wrong();
  }
  return wrong;
}

TEST(ReplayCpu, ComputesEveryCollectiveInEveryType) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const NamedSchedule& kind : testing::all_kinds(ranks)) {
      for (const ElementType type : types) {
        SCOPED_TRACE(kind.name + ", " + std::to_string(ranks) + " ranks, " + std::string(to_string(type)));
        for (const int64_t bytes : {1, 37, 4096, 100'003}) EXPECT_EQ(wrong_after_runs(kind.schedule, bytes, type, 1), 0);
      }
    }
  }
}

TEST(ReplayCpu, ReducesByEveryOperation) {
  for (const Reduction reduction : {Reduction::sum, Reduction::prod, Reduction::min, Reduction::max})
    for (const ElementType type : types)
      EXPECT_EQ(wrong_after_runs(testing::ring(16, CollectiveType::allreduce, reduction), 50'000, type), 0)
          << to_string(reduction) << " " << to_string(type);
}

TEST(ReplayCpu, MoreRanksThanCoresAreFine) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // inherited by the ranks' threads
  EXPECT_EQ(wrong_after_runs(testing::ring(64), 1 << 18, ElementType::float32), 0);
  EXPECT_EQ(wrong_after_runs(testing::channel_rings(16, 4), 1 << 20, ElementType::float16), 0);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// What a wrong schedule computes is wrong, in as many elements as it should be.
TEST(ReplayCpu, CountsWrongElements) {
  // The ring without its last transfer: one rank lacks one of 4 units, 250 of 1000 elements.
  const Schedule whole = testing::ring(4);
  Schedule cut(whole.collective(), whole.units());
  for (const Chunk& chunk : whole.chunks()) cut.add_chunk(chunk);
  for (size_t i = 0; i + 1 < whole.size(); ++i) cut.add(whole.transfer(i));
  EXPECT_EQ(wrong_after_runs(cut, 4000, ElementType::float32, 1), 250);
  EXPECT_EQ(wrong_after_runs(cut, 4000, ElementType::float32, 3), 750);
  // No transfers at all: of ranks * elements sums nearly none is right by chance.
  EXPECT_EQ(wrong_after_runs(Schedule(whole.collective(), 4), 4000, ElementType::float32, 1), 4000);
  // An allgather of which nothing came: each of 4 ranks has but its own part.
  EXPECT_EQ(wrong_after_runs(Schedule(testing::collective(CollectiveType::allgather, 4), 4), 4000, ElementType::int32, 1), 3000);
}

// Without transfer `left_out`; who waited for it waits for what it waited for.
Schedule without(const Schedule& whole, uint32_t left_out) {
  Schedule result(whole.collective(), whole.units());
  for (const Chunk& chunk : whole.chunks()) result.add_chunk(chunk);
  for (uint32_t i = 0; i < whole.size(); ++i) {
    if (i == left_out) continue;
    Transfer transfer = whole.transfer(i);
    std::vector<uint32_t> after;
    for (const uint32_t earlier : transfer.after) {
      if (earlier == left_out)
        for (const uint32_t before : whole.after(left_out)) after.push_back(before);
      else
        after.push_back(earlier - (earlier > left_out));
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    transfer.after = after;
    result.add(transfer);
  }
  return result;
}
// With a copy where there was a reduction, or the other way round.
Schedule turned(const Schedule& whole, uint32_t which) {
  Schedule result(whole.collective(), whole.units());
  for (const Chunk& chunk : whole.chunks()) result.add_chunk(chunk);
  for (uint32_t i = 0; i < whole.size(); ++i) {
    Transfer transfer = whole.transfer(i);
    if (i == which) transfer.op = transfer.op == TransferOp::copy ? TransferOp::reduce : TransferOp::copy;
    result.add(transfer);
  }
  return result;
}

// The validator and the executor know nothing of each other, and agree: what the one proves right comes out right, and what it
// calls wrong (other than a race, which may pass unnoticed) comes out wrong.
TEST(ReplayCpu, ComputesWrongResultsWhereTheValidatorSaysSo) {
  int right = 0, wrong = 0, racing = 0;
  for (const Schedule& whole : {testing::ring(4), testing::ring(3, CollectiveType::allgather), testing::optcc(5, 2, Fraction(2)),
                                testing::scratch_allreduce(3), testing::direct(CollectiveType::reduce_scatter, 3)}) {
    for (uint32_t i = 0; i < whole.size(); ++i) {
      for (const bool leave_out : {true, false}) {
        const Schedule changed = leave_out ? without(whole, i) : turned(whole, i);
        const std::vector<Finding> findings = validate(changed);
        if (std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.rule == "race"; })) {
          ++racing;
          continue;
        }
        SCOPED_TRACE((leave_out ? "without transfer " : "with another operation in transfer ") + std::to_string(i) + " of " + whole.algorithm() +
                     (findings.empty() ? "" : ": " + findings[0].message));
        const int64_t found = wrong_after_runs(changed, 30'000, ElementType::float32, 1);
        if (has_errors(findings)) {
          EXPECT_GT(found, 0);
          ++wrong;
        } else {
          EXPECT_EQ(found, 0);
          ++right;
        }
      }
    }
  }
  EXPECT_GT(wrong, 100);
  RecordProperty("right", right);
  RecordProperty("racing", racing);
}

TEST(ReplayCpu, RecordsWhenStepsMovedData) {
  CpuOptions options;
  options.record_times = true;
  const auto plan = plan_of(testing::ring(3), 3'000'000);
  const auto backend = make_cpu_backend({plan, ElementType::float32}, options);
  const double seconds = backend->run(0);
  const std::vector<StepTimes> times = backend->times();
  ASSERT_EQ(times.size(), 12u);
  std::vector<StepTimes> by_step(plan->steps().size());
  for (const StepTimes& time : times) {
    EXPECT_TRUE(plan->steps()[time.step].moves());
    EXPECT_LE(time.begin_ns, time.end_ns);
    EXPECT_LE(static_cast<double>(time.end_ns), seconds * 1e9);
    by_step[time.step] = time;
  }
  for (const StepTimes& time : times)
    for (const uint32_t earlier : plan->after(time.step - 1))  // of its send
      EXPECT_LE(by_step[earlier].end_ns, time.begin_ns);
}

CpuOptions shaped(const Network& network, double factor, Sharing sharing = Sharing::fair) {
  CpuOptions options;
  options.shape = Shape{&network, sharing, factor};
  // However late a busy machine runs us, what is due when stays as it is.
  options.shape->burst = Duration(3'600'000'000'000'000);
  options.record_times = true;
  return options;
}

// When the last data of a shaped run were due, in seconds.
double due(const ReplayBackend& backend) {
  int64_t last = 0;
  for (const StepTimes& time : backend.times()) last = std::max(last, time.due_ns);
  return static_cast<double>(last) * 1e-9;
}

double simulated_seconds(const Network& network, const Schedule& schedule, int64_t bytes) {
  const MessageLayout layout(Bytes(bytes), Bytes(4), schedule.units());
  ListTiming timing(network, layout, schedule.chunks());
  for (size_t i = 0; i < schedule.size(); ++i) timing.add(schedule.transfer(i));
  return static_cast<double>(timing.completion().count()) * 1e-12;
}

// The pacing makes the last data due exactly when the simulation ends, and no run ends before. That runs end soon after is for
// tools/replay/replay_vs_sim.sh to show: here it would depend on what else the machine does.
TEST(ReplayCpu, ShapedRunsAreDueWhenTheSimulationEnds) {
  for (const int ranks : {5, 8}) {
    for (const Fraction& slowdown : {Fraction(1), Fraction(4, 3), Fraction(2)}) {
      const Network network = testing::star(ranks, "2 us", "20 ns", slowdown);
      for (const bool use_ring : {true, false}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, l = " + slowdown.to_string() + (use_ring ? ", ring" : ", optcc"));
        const Schedule schedule = use_ring ? testing::ring(ranks) : testing::optcc(ranks, 8, slowdown);
        const int64_t bytes = 2 << 20;
        const double simulated = simulated_seconds(network, schedule, bytes);
        const double factor = 0.05 / simulated;
        const auto backend = make_cpu_backend({plan_of(schedule, bytes), ElementType::float32}, shaped(network, factor));
        const double measured = backend->run(1);
        EXPECT_EQ(backend->wrong(), 0);
        EXPECT_NEAR(due(*backend) / factor, simulated, simulated * 1e-5);
        EXPECT_GE(measured, due(*backend) - 1e-8);
      }
    }
  }
}

// Latency is passed by pipelining: messages in a row arrive a latency after each was sent, not one after another.
TEST(ReplayCpu, LatencyAndOverheadArePacedToo) {
  const Network network = testing::star(2, "30 us", "10 us");
  testing::HandMade writer(testing::collective(CollectiveType::allreduce, 2), 8);
  for (int i = 0; i < 8; ++i) writer.add(0, {Buffer::data, i, 1}, 1, {Buffer::data, i, 1}, TransferOp::reduce);
  for (int i = 0; i < 8; ++i)
    writer.add(1, {Buffer::data, i, 1}, 0, {Buffer::data, i, 1}, TransferOp::copy, 0, {static_cast<uint32_t>(i)});
  // 8 messages of 10 us + 1 us (100 kB at 100 GB/s), a latency, one more message and a latency.
  const double simulated = 9 * 11e-6 + 2 * 30e-6;
  EXPECT_NEAR(simulated_seconds(network, writer.schedule(), 800'000), simulated, 1e-9);
  const auto backend = make_cpu_backend({plan_of(writer.schedule(), 800'000), ElementType::float32}, shaped(network, 500));
  EXPECT_GE(backend->run(1), simulated * 500);
  EXPECT_EQ(backend->wrong(), 0);
  EXPECT_NEAR(due(*backend) / 500, simulated, simulated * 1e-6);
}

// Two flows out of one port: together they take twice as long as alone, however they share it.
TEST(ReplayCpu, FlowsShareAPort) {
  const Network network = testing::star(3, "0 us", "0 us");
  Schedule schedule(Collective{CollectiveType::broadcast, 3, 0, true, Reduction::sum}, 1);
  const uint32_t all = schedule.add_chunk({Buffer::data, 0, 1});
  schedule.add({0, 1, all, all, TransferOp::copy, 0, {}});
  schedule.add({0, 2, all, all, TransferOp::copy, 1, {}});
  for (const Sharing sharing : {Sharing::fair, Sharing::exclusive}) {
    const auto backend = make_cpu_backend({plan_of(schedule, 1'000'000), ElementType::float32}, shaped(network, 2000, sharing));
    backend->run(1);
    EXPECT_EQ(backend->wrong(), 0);
    EXPECT_NEAR(due(*backend) / 2000, 20e-6, 1e-9);
  }
}

TEST(ReplayPacer, FairFlowsAlternateAndExclusiveOnesQueue) {
  const Network network = testing::star(3, "0 us", "1 us");
  Schedule schedule(Collective{CollectiveType::broadcast, 3, 0, true, Reduction::sum}, 1);
  const uint32_t all = schedule.add_chunk({Buffer::data, 0, 1});
  schedule.add({0, 1, all, all, TransferOp::copy, 0, {}});
  schedule.add({0, 2, all, all, TransferOp::copy, 1, {}});
  const Plan plan = build_plan(schedule, Bytes(1'000'000), Bytes(4));
  Pacer pacer({&network, Sharing::fair, 10}, plan);
  const Pacer::Path& a = pacer.path(0, 1);
  const Pacer::Path& b = pacer.path(0, 2);
  ASSERT_EQ(a.links.size(), 2u);
  ASSERT_EQ(a.links[0], b.links[0]);  // rank 0's way out
  EXPECT_DOUBLE_EQ(a.byte_ps, 100);   // 10 ps at 100 GB/s, times ten
  EXPECT_EQ(a.overhead_ps, 10'000'000);
  EXPECT_EQ(a.quantum, 20'000'000);   // 2 ms
  // a: 10 us of overhead and 1000 bytes of 100 ps; then b gets its turn, then a again, each where the other ended.
  EXPECT_EQ(pacer.take(a.links[0], 0, 1000, a.overhead_ps), 0);
  EXPECT_EQ(pacer.take(b.links[0], 0, 1000, b.overhead_ps), 10'100'000);
  EXPECT_EQ(pacer.take(a.links[0], 10'100'000, 1000, 0), 20'200'000);
  EXPECT_EQ(pacer.take(b.links[0], 20'200'000, 1000, 0), 20'300'000);
  EXPECT_EQ(pacer.take(b.links[1], 20'300'000, 1000, 0), 20'300'000);  // the other rank's way in is free
  EXPECT_EQ(pacer.take(a.links[0], 90'000'000, 1000, 0), 90'000'000);  // an idle port saves nothing up
  pacer.reset();
  EXPECT_EQ(pacer.take_all(a, 5, 1000), 5);
  EXPECT_EQ(pacer.take_all(b, 5, 1000), 10'100'005);
}

TEST(ReplayCpu, ShapeFactorLetsPacingDominate) {
  const Network network = testing::star(8);
  const Schedule schedule = testing::ring(8);
  const auto plan = plan_of(schedule, 16 << 20);
  const double factor = shape_factor(network, *plan, 2);
  EXPECT_EQ(factor, std::floor(factor));
  const double seconds = factor * simulated_seconds(network, schedule, 16 << 20);
  EXPECT_GE(seconds, 1.0);
  EXPECT_GE(seconds, 25 * 1e-9 * static_cast<double>(plan->total_bytes()) / 2);
  EXPECT_LE(seconds, 10);
}

std::string failure_of(const std::shared_ptr<const Plan>& plan, CpuOptions options) {
  options.timeout = std::chrono::milliseconds(300);
  const auto backend = make_cpu_backend({plan, ElementType::float32}, options);
  try {
    backend->run(0);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    return error.what();
  }
  return "ran";
}

TEST(ReplayCpu, ARankThatThrowsEndsTheRun) {
  CpuOptions options;
  options.before_step = [](uint32_t rank, uint32_t step) {
    if (rank == 2 && step > 20) throw std::runtime_error("out of luck");
  };
  EXPECT_EQ(failure_of(plan_of(testing::ring(5), 4096), options), "rank 2 failed: out of luck");
}

TEST(ReplayCpu, ARankThatIsKilledEndsTheRun) {
  CpuOptions options;
  options.before_step = [](uint32_t rank, uint32_t) {
    if (rank == 1) pthread_exit(nullptr);
  };
  EXPECT_EQ(failure_of(plan_of(testing::ring(5), 4096), options), "rank 1 stopped before its program ended");
}

TEST(ReplayCpu, ARankThatHangsEndsTheRun) {
  auto released = std::make_shared<std::atomic<bool>>(false), left = std::make_shared<std::atomic<bool>>(false);
  CpuOptions options;
  options.before_step = [=](uint32_t rank, uint32_t) {
    if (rank != 3 || left->load()) return;
    while (!released->load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    left->store(true);
  };
  EXPECT_EQ(failure_of(plan_of(testing::ring(5), 4096), options),
            "no progress for 300 ms: rank 3 does not complete transfer 2 on channel 0 from rank 2");
  released->store(true);
  while (!left->load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(ReplayCpu, ABackendThatFailedOnceRunsAgain) {
  auto fail = std::make_shared<std::atomic<bool>>(true);
  CpuOptions options;
  options.before_step = [=](uint32_t rank, uint32_t) {
    if (rank == 0 && fail->load()) throw std::runtime_error("once");
  };
  const auto backend = make_cpu_backend({plan_of(testing::ring(4), 4096), ElementType::float32}, options);
  EXPECT_THROW(backend->run(0), Error);
  fail->store(false);
  backend->run(1);
  EXPECT_EQ(backend->wrong(), 0);
}

TEST(ReplayCpu, AShapeWithoutARouteIsRefused) {
  const Network lonely({{"a", 0}, {"b", 1}}, 2, {}, Duration(0));
  EXPECT_THROW(make_cpu_backend({plan_of(testing::ring(2), 64), ElementType::float32}, shaped(lonely, 1)), Error);
}

}  // namespace
}  // namespace slackline
