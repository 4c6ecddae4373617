// The CUDA backend on whatever GPUs there are; without one these tests skip and say why.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "replay/registry.hpp"
#include "replay_support.hpp"

namespace slackline {
namespace {

using testing::NamedSchedule;

const BackendEntry& cuda() {
  for (const BackendEntry& entry : replay_backends())
    if (entry.name == "cuda") return entry;
  throw std::logic_error("cuda is not registered");
}

// Why there is no GPU to use, or nothing.
std::string why_not() {
  try {
    cuda().require();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return {};
}

constexpr ElementType types[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int32};

std::unique_ptr<ReplayBackend> backend_for(const Schedule& schedule, int64_t bytes, ElementType type, const BackendOptions& options = {}) {
  const auto plan = std::make_shared<const Plan>(build_plan(schedule, Bytes(bytes), element_size(type)));
  return cuda().make({plan, type}, options);
}

TEST(ReplayCuda, ComputesEveryCollectiveInEveryType) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  for (const int ranks : {2, 5, 8})
    for (const NamedSchedule& kind : testing::all_kinds(ranks))
      for (const ElementType type : types)
        for (const int64_t bytes : {1, 37, 100'003, 1 << 20}) {
          SCOPED_TRACE(kind.name + ", " + std::to_string(ranks) + " ranks, " + std::string(to_string(type)) + ", " + std::to_string(bytes) + " B");
          const auto backend = backend_for(kind.schedule, bytes, type);
          for (uint32_t seed = 0; seed < 2; ++seed) {
            EXPECT_GT(backend->run(seed), 0);
            EXPECT_EQ(backend->wrong(), 0);
          }
        }
}

TEST(ReplayCuda, ReducesByEveryOperation) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  for (const Reduction reduction : {Reduction::sum, Reduction::prod, Reduction::min, Reduction::max})
    for (const ElementType type : types) {
      const auto backend = backend_for(testing::ring(16, CollectiveType::allreduce, reduction), 50'000, type);
      backend->run(1);
      EXPECT_EQ(backend->wrong(), 0) << to_string(reduction) << " " << to_string(type);
    }
}

TEST(ReplayCuda, CountsWrongElements) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const Schedule nothing(testing::collective(CollectiveType::allgather, 4), 4);
  const auto backend = backend_for(nothing, 4000, ElementType::int32);
  backend->run(1);
  EXPECT_EQ(backend->wrong(), 3000);
}

TEST(ReplayCuda, RefusesWhatItCannotDo) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const Network network = testing::star(2);
  BackendOptions options;
  options.shape = Shape{&network, Sharing::fair, 1};
  EXPECT_THROW(backend_for(testing::ring(2), 64, ElementType::float32, options), Error);
  options = {};
  options.record_times = true;
  EXPECT_THROW(backend_for(testing::ring(2), 64, ElementType::float32, options), Error);
}

}  // namespace
}  // namespace slackline
