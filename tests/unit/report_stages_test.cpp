// Names of transfers, against what the OptCC paper's stages consist of.
#include "report/stages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "support/networks.hpp"

namespace slackline {
namespace {

TEST(Stages, OptccHasThePapersStages) {
  // A segment of h sections: h(h-1) hops of S1 and of S4, h transfers of S2 and of S3 (design/optcc.md; l = 2, no bubbles).
  const int ranks = 5, h = ranks - 1, k = 4;
  const Schedule schedule = generated("optcc", ranks, CollectiveType::allreduce, {{"segments", k}}, 4);
  const std::vector<int> stragglers = {0};
  const Stages stages(schedule, k, stragglers);
  std::array<int, stage_count> counts{};
  std::set<std::pair<int64_t, int64_t>> places;
  for (size_t t = 0; t < schedule.size(); ++t) {
    const Stage stage = stages.stage(t);
    ++counts[static_cast<size_t>(stage)];
    const MessagePlace place = stages.place(t);
    places.emplace(place.segment, place.section);
    EXPECT_EQ(stages.name(t), std::string(short_name(stage)) + " seg " + std::to_string(place.segment) + " sec " + std::to_string(place.section));
  }
  EXPECT_EQ(counts, (std::array<int, stage_count>{k * h * (h - 1), k * h, k * h, k * h * (h - 1), 0, 0, 0, 0}));
  std::set<std::pair<int64_t, int64_t>> expected;
  for (int64_t segment = 0; segment < k; ++segment)
    for (int64_t section = 0; section < h; ++section) expected.emplace(segment, section);
  EXPECT_EQ(places, expected);
}

TEST(Stages, WithoutStragglersThereAreTwo) {
  const Schedule schedule = generated("ring", 4);
  const Stages stages(schedule, 1, {});
  int reductions = 0;
  for (size_t t = 0; t < schedule.size(); ++t) {
    reductions += stages.stage(t) == Stage::reduce_scatter ? 1 : 0;
    EXPECT_EQ(stages.stage(t), schedule.op(t) == TransferOp::reduce ? Stage::reduce_scatter : Stage::allgather);
  }
  EXPECT_EQ(reductions, 12);
}

Schedule one_transfer(CollectiveType type, const Chunk& from, const Chunk& to, uint32_t src, uint32_t dst, TransferOp op) {
  Collective collective;
  collective.type = type;
  collective.ranks = 4;
  collective.in_place = false;
  Schedule schedule(collective, 8);
  const uint32_t source = schedule.add_chunk(from), destination = schedule.add_chunk(to);
  schedule.add({src, dst, source, destination, op, 0, {}});
  return schedule;
}

TEST(Stages, OfOtherTransfers) {
  const Chunk data{Buffer::data, 2, 1};
  const std::vector<int> stragglers = {1};
  const Schedule broadcast = one_transfer(CollectiveType::broadcast, data, data, 0, 1, TransferOp::copy);
  EXPECT_EQ(Stages(broadcast, 1, stragglers).stage(0), Stage::copy);
  const Schedule own = one_transfer(CollectiveType::allreduce, data, data, 1, 1, TransferOp::reduce);
  EXPECT_EQ(Stages(own, 1, stragglers).stage(0), Stage::local);
  // Within one of two servers; where all are on one, servers say nothing.
  const Schedule reduction = one_transfer(CollectiveType::allreduce, data, data, 0, 1, TransferOp::reduce);
  EXPECT_EQ(Stages(reduction, 1, stragglers, std::vector<int>{0, 0, 1, 1}).stage(0), Stage::server_reduce);
  EXPECT_EQ(Stages(reduction, 1, stragglers, std::vector<int>{0, 1, 2, 3}).stage(0), Stage::upload);
  EXPECT_EQ(Stages(reduction, 1, {}, std::vector<int>{0, 0, 0, 0}).stage(0), Stage::reduce_scatter);
}

TEST(Stages, PlacesOfOtherBuffers) {
  // Part 3 of 4 is units 6 and 7: the second unit of the last of four segments.
  const Schedule gathered = one_transfer(CollectiveType::allgather, {Buffer::input, 1, 1}, {Buffer::scratch, 0, 1}, 3, 0, TransferOp::copy);
  EXPECT_EQ(Stages(gathered, 4, {}).name(0), "copy seg 3 sec 1");
  const Schedule scattered = one_transfer(CollectiveType::reduce_scatter, {Buffer::scratch, 9, 1}, {Buffer::output, 0, 1}, 0, 2, TransferOp::reduce);
  EXPECT_EQ(Stages(scattered, 4, {}).name(0), "S1 seg 2 sec 0");
  const Schedule scratch = one_transfer(CollectiveType::allreduce, {Buffer::scratch, 9, 1}, {Buffer::scratch, 0, 1}, 0, 2, TransferOp::copy);
  EXPECT_EQ(Stages(scratch, 4, {}).name(0), "S4 scratch");
  // Segments that units do not divide into: 0..2, 3..5, 6..7.
  const Schedule uneven = one_transfer(CollectiveType::allreduce, {Buffer::data, 5, 1}, {Buffer::data, 5, 1}, 0, 2, TransferOp::copy);
  EXPECT_EQ(Stages(uneven, 3, {}).name(0), "S4 seg 1 sec 2");
}

}  // namespace
}  // namespace slackline
