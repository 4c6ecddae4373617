#include "schedule/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/algorithm.hpp"
#include "topology/builders.hpp"
#include "topology/failures.hpp"

namespace slackline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TransferOp copy = TransferOp::copy, reduce = TransferOp::reduce;

Collective collective(CollectiveType type, int ranks, int root = -1, bool in_place = true) {
  Collective result;
  result.type = type;
  result.ranks = ranks;
  result.root = root;
  result.in_place = in_place;
  return result;
}

// A schedule written out: chunks by region, so that the tests below read like the lists that they
// are.
class Builder {
public:
  Builder(const Collective& collective, int64_t units) : schedule_(collective, units) {}

  uint32_t chunk(Buffer buffer, int64_t offset, int64_t length = 1) {
    const Chunk wanted{buffer, offset, length};
    for (uint32_t c = 0; c < schedule_.chunks().size(); ++c)
      if (schedule_.chunks()[c] == wanted) return c;
    return schedule_.add_chunk(wanted);
  }
  uint32_t data(int64_t offset, int64_t length = 1) { return chunk(Buffer::data, offset, length); }

  uint32_t add(uint32_t src, uint32_t from, uint32_t dst, uint32_t to, TransferOp op,
               std::vector<uint32_t> after = {}, uint16_t channel = 0) {
    schedule_.add({src, dst, from, to, op, channel, after});
    return static_cast<uint32_t>(schedule_.size() - 1);
  }
  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op,
               std::vector<uint32_t> after = {}, uint16_t channel = 0) {
    return add(src, chunk, dst, chunk, op, std::move(after), channel);
  }
  const Schedule& schedule() const { return schedule_; }

private:
  Schedule schedule_;
};

std::vector<std::string> rules(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& finding : findings) result.emplace_back(finding.rule);
  return result;
}
std::vector<std::string> rules(const Builder& builder) {
  return rules(validate(builder.schedule()));
}

// AllReduce of two ranks: there and back.
Builder there_and_back() {
  Builder b(collective(CollectiveType::allreduce, 2), 1);
  const uint32_t first = b.add(0, 1, b.data(0), reduce);
  b.add(1, 0, b.data(0), copy, {first});
  return b;
}

TEST(Validate, ProvesTheSmallestAllReduce) {
  EXPECT_THAT(validate(there_and_back().schedule()), IsEmpty());
}

// ---------------------------------------------------------------- the lists

TEST(Validate, BadCollective) {
  EXPECT_THAT(rules(Builder(collective(CollectiveType::allreduce, 1), 1)),
              ElementsAre("bad-collective"));
  EXPECT_THAT(rules(Builder(collective(CollectiveType::allreduce, 2), 0)),
              ElementsAre("bad-collective"));
  EXPECT_THAT(rules(Builder(collective(CollectiveType::broadcast, 2), 1)),
              ElementsAre("bad-collective"));
  EXPECT_THAT(rules(Builder(collective(CollectiveType::reduce, 2, 2), 1)),
              ElementsAre("bad-collective"));
  EXPECT_THAT(rules(Builder(collective(CollectiveType::allgather, 3), 4)),
              ElementsAre("bad-collective"));
  EXPECT_THAT(rules(Builder(collective(CollectiveType::scatter, 3, 3), 4)),
              ElementsAre("bad-collective", "bad-collective"));
}

TEST(Validate, RankRange) {
  Builder b = there_and_back();
  b.add(2, 0, b.data(0), copy);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("rank-range"));
  EXPECT_EQ(findings[0].transfer, 2);
  EXPECT_EQ(findings[0].rank, 2);
  EXPECT_EQ(findings[0].where, "transfer 2");
  EXPECT_EQ(findings[0].message,
            "the source of transfer 2 is rank 2, and there are ranks 0..1 only");
}

TEST(Validate, ChunkRange) {
  Builder index = there_and_back();
  index.add(0, 1, 7, copy);
  EXPECT_THAT(rules(index), ElementsAre("chunk-range", "chunk-range"));

  for (const auto& [offset, length] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 2},
                                                {1, 1},
                                                {-1, 1},
                                                {0, 0},
                                                {0, -1},
                                                {INT64_MAX, 1},
                                                {1, INT64_MAX},
                                                {INT64_MIN, INT64_MAX}}) {
    Builder b = there_and_back();
    b.data(offset, length);
    EXPECT_THAT(rules(b), ElementsAre("chunk-range")) << offset << " " << length;
  }
  Builder scratch = there_and_back();
  scratch.chunk(Buffer::scratch, INT64_MAX - 1, 2);
  EXPECT_THAT(rules(scratch), ElementsAre("chunk-range"));
  Builder far = there_and_back();
  far.chunk(Buffer::scratch, INT64_MAX - 2, 2);
  EXPECT_THAT(rules(far), IsEmpty());
}

TEST(Validate, BuffersAreAsLongAsTheCollectiveSays) {
  // Out of place an AllGather brings one part and gets all; a ReduceScatter the other way round.
  for (const auto& [type, brings, gets] : std::vector<std::tuple<CollectiveType, int64_t, int64_t>>{
           {CollectiveType::allgather, 2, 6},
           {CollectiveType::gather, 2, 6},
           {CollectiveType::reduce_scatter, 6, 2},
           {CollectiveType::scatter, 6, 2},
           {CollectiveType::alltoall, 6, 6},
           {CollectiveType::allreduce, 6, 6},
           {CollectiveType::broadcast, 6, 6},
           {CollectiveType::reduce, 6, 6}}) {
    const Collective c = collective(type, 3, has_root(type) ? 0 : -1, false);
    const auto has_rule = [&](Buffer buffer, int64_t length) {
      Builder b(c, 6);
      b.chunk(buffer, 0, length);
      return rules(b).front() == "chunk-range";
    };
    EXPECT_FALSE(has_rule(Buffer::input, brings)) << to_string(type);
    EXPECT_TRUE(has_rule(Buffer::input, brings + 1)) << to_string(type);
    EXPECT_FALSE(has_rule(Buffer::output, gets)) << to_string(type);
    EXPECT_TRUE(has_rule(Buffer::output, gets + 1)) << to_string(type);
  }
}

TEST(Validate, DependencyRange) {
  Builder itself = there_and_back();
  itself.add(0, 1, itself.data(0), copy, {2});
  EXPECT_THAT(rules(itself), ElementsAre("dependency-range"));
  Builder later = there_and_back();
  later.add(0, 1, later.data(0), copy, {1, UINT32_MAX});
  EXPECT_THAT(rules(later), ElementsAre("dependency-range"));
}

TEST(Validate, SizeMismatch) {
  Builder b(collective(CollectiveType::allreduce, 2), 2);
  const uint32_t both = b.data(0, 2), one = b.data(0);
  b.add(0, both, 1, one, reduce);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("size-mismatch"));
  EXPECT_THAT(
      findings[0].witness,
      ElementsAre(
          "transfer 0: rank 0 -> rank 1 reduce chunk 0 [data 0..2) to chunk 1 [data 0..1)"));
}

TEST(Validate, BufferMisuse) {
  Builder in_place = there_and_back();
  in_place.chunk(Buffer::output, 0);
  EXPECT_THAT(rules(in_place), ElementsAre("buffer-misuse"));

  Builder out_of_place(collective(CollectiveType::broadcast, 2, 0, false), 1);
  out_of_place.data(0);
  EXPECT_THAT(rules(out_of_place), ElementsAre("buffer-misuse"));

  Builder writes_input(collective(CollectiveType::broadcast, 2, 0, false), 1);
  writes_input.add(0, 1, writes_input.chunk(Buffer::input, 0), copy);
  EXPECT_THAT(rules(writes_input), ElementsAre("buffer-misuse"));
}

TEST(Validate, SelfOverlap) {
  Builder b(collective(CollectiveType::allreduce, 2), 3);
  b.add(0, b.data(0, 2), 0, b.data(1, 2), copy);
  EXPECT_THAT(rules(b), ElementsAre("self-overlap"));
  Builder beside(collective(CollectiveType::allreduce, 2), 4);
  beside.add(0, beside.data(0, 2), 0, beside.data(2, 2), copy);
  EXPECT_THAT(rules(beside), testing::Not(testing::Contains("self-overlap")));
}

TEST(Validate, StopsAfterTheMostFundamentalErrors) {
  Builder b(collective(CollectiveType::allreduce, 2), 1);
  b.add(0, 5, b.data(0), copy);
  EXPECT_THAT(rules(b), ElementsAre("rank-range"));  // and no word about the result
  for (int i = 0; i < 100; ++i) b.add(0, 5, b.data(0), copy);
  EXPECT_EQ(validate(b.schedule()).size(), 20u);
  EXPECT_EQ(validate(b.schedule(), {.max_findings = 3}).size(), 3u);
}

TEST(Validate, TooFine) {
  Builder b(collective(CollectiveType::allreduce, 2), int64_t{1} << 40);
  b.add(0, b.data(0, (int64_t{1} << 40) - 1), 1, b.data(1, (int64_t{1} << 40) - 1), copy);
  EXPECT_THAT(rules(b), ElementsAre("too-fine"));
}

TEST(Validate, AFileCannotAskForMemoryByItsRanks) {
  Builder b(collective(CollectiveType::allreduce, INT32_MAX), 1);
  b.add(0, 1, b.data(0), reduce);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result"));
  EXPECT_EQ(findings[0].rank, 2);
}

// ---------------------------------------------------------------- undefined reads

TEST(Validate, UndefinedRead) {
  Builder b(collective(CollectiveType::broadcast, 3, 0), 1);
  b.add(1, 2, b.data(0), copy);
  b.add(0, 1, b.data(0), copy, {0});
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("undefined-read"));
  EXPECT_EQ(findings[0].transfer, 0);
  EXPECT_EQ(findings[0].rank, 1);
  EXPECT_EQ(findings[0].chunk, 0);
  EXPECT_EQ(findings[0].message,
            "transfer 0 reads chunk 0 [data 0..1) of rank 1, which holds nothing then; it is first "
            "written by transfer 1, which "
            "stands later in the list");
  EXPECT_THAT(findings[0].witness,
              ElementsAre("transfer 0: rank 1 -> rank 2 copy chunk 0 [data 0..1)",
                          "transfer 1: rank 0 -> rank 1 copy chunk 0 [data 0..1)"));
}

TEST(Validate, ReducingIntoNothingIsAnUndefinedRead) {
  Builder b(collective(CollectiveType::reduce, 2, 1, false), 1);
  const uint32_t in = b.chunk(Buffer::input, 0), out = b.chunk(Buffer::output, 0);
  b.add(1, in, 1, out, reduce);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("undefined-read"));
  EXPECT_THAT(findings[0].message, HasSubstr("reduces into chunk 1 [output 0..1) of rank 1"));
}

// ---------------------------------------------------------------- races

TEST(Validate, RaceOfAReadWithTheWriteBeforeIt) {
  Builder b(collective(CollectiveType::allreduce, 2), 1);
  b.add(0, 1, b.data(0), reduce);
  b.add(1, 0, b.data(0), copy);
  const std::vector<Finding> findings = validate(b.schedule());
  // Rank 1 may send before it has received; and so may rank 0 receive before it has sent.
  ASSERT_THAT(rules(findings), ElementsAre("race", "race"));
  EXPECT_EQ(findings[0].transfer, 1);
  EXPECT_EQ(findings[0].rank, 0);
  EXPECT_EQ(findings[0].message,
            "transfer 1 may write chunk 0 [data 0..1) of rank 0 before transfer 0 has read it");
  EXPECT_EQ(findings[1].rank, 1);
  EXPECT_EQ(findings[1].message,
            "transfer 1 may read chunk 0 [data 0..1) of rank 1 before transfer 0 has written it");
  EXPECT_THAT(findings[1].witness,
              ElementsAre("transfer 0: rank 0 -> rank 1 reduce chunk 0 [data 0..1)",
                          "transfer 1: rank 1 -> rank 0 copy chunk 0 [data 0..1)"));
}

// Two ranks' contributions to rank 2 on the channels given; then it has to tell the others.
std::vector<std::string> two_reductions(uint16_t first_channel, uint16_t second_channel,
                                        std::vector<uint32_t> after = {}) {
  Builder b(collective(CollectiveType::reduce, 3, 2), 1);
  b.add(0, 2, b.data(0), reduce, {}, first_channel);
  b.add(1, 2, b.data(0), reduce, std::move(after), second_channel);
  return rules(b);
}

TEST(Validate, TwoReductionsIntoOnePlaceRaceUnlessTheyComeOneByOne) {
  EXPECT_THAT(two_reductions(0, 0), IsEmpty());  // one receive queue
  EXPECT_THAT(two_reductions(0, 1), ElementsAre("race"));
  EXPECT_THAT(two_reductions(0, 1, {0}), IsEmpty());
}

TEST(Validate, SendsOfTheSamePlaceDoNotRace) {
  Builder b(collective(CollectiveType::broadcast, 3, 0), 1);
  b.add(0, 1, b.data(0), copy, {}, 0);
  b.add(0, 2, b.data(0), copy, {}, 1);
  EXPECT_THAT(rules(b), IsEmpty());
}

TEST(Validate, AReceiveQueueDoesNotOrderTheReadsOfLaterTransfers) {
  // Transfers 0 and 1 end in one queue, but 1 reads at rank 1 what 0 writes there only in the sense
  // of a local copy: its phase A may begin at once.
  Builder b(collective(CollectiveType::broadcast, 2, 0), 1);
  const uint32_t data = b.data(0), scratch = b.chunk(Buffer::scratch, 0);
  b.add(0, data, 1, scratch, copy);
  b.add(1, scratch, 1, data, copy);
  EXPECT_THAT(rules(b), ElementsAre("race"));
}

TEST(Validate, ASendQueueOrdersReadsBeforeWhatFollowsALaterSend) {
  // Rank 0 sends unit 0 and then unit 1. Whoever waits for the second send may overwrite unit 0 of
  // rank 0, since the first send has been read by then, though it may not have arrived.
  const auto schedule = [](uint16_t channel_of_second) {
    Builder b(collective(CollectiveType::broadcast, 3, 0), 2);
    b.add(0, 1, b.data(0), copy);
    const uint32_t second = b.add(0, 2, b.data(1), copy, {}, channel_of_second);
    const uint32_t back = b.add(2, b.data(1), 0, b.data(0), copy, {second});
    b.add(0, 2, b.data(0), copy, {back});
    b.add(0, 1, b.data(1), copy);
    return validate(b.schedule());
  };
  EXPECT_THAT(rules(schedule(0)), testing::Not(testing::Contains("race")));
  EXPECT_THAT(rules(schedule(1)), testing::Contains("race"));
}

TEST(Validate, OverlappingChunksRaceWhereTheyOverlap) {
  Builder b(collective(CollectiveType::broadcast, 3, 0), 4);
  b.add(0, 1, b.data(0, 3), copy, {}, 0);
  b.add(0, 1, b.data(2, 2), copy, {}, 1);
  b.add(0, 2, b.data(0, 4), copy);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("race"));
  EXPECT_EQ(findings[0].message,
            "transfers 0 and 1 may write chunk 1 [data 2..4) of rank 1 at the same time or in "
            "either order");
}

TEST(Validate, FollowsQueuesThatAreLong) {
  // Only the queue of rank 0's 40,000 sends tells that the first of them has been read when the
  // last has come to rank 2.
  const auto schedule = [](uint16_t channel_of_last) {
    Builder b(collective(CollectiveType::broadcast, 3, 0), 2);
    const uint32_t zero = b.data(0), one = b.data(1);
    b.add(0, 1, zero, copy);
    for (int i = 0; i < 40'000; ++i) b.add(0, 2, one, copy);
    const uint32_t last = b.add(0, 2, one, copy, {}, channel_of_last);
    b.add(2, one, 0, zero, copy, {last});
    return rules(validate(b.schedule()));
  };
  EXPECT_THAT(schedule(0), testing::Not(testing::Contains("race")));
  EXPECT_THAT(schedule(1), testing::Contains("race"));
}

// ---------------------------------------------------------------- results

TEST(Validate, SaysWhichContributionIsThereTwice) {
  Builder b(collective(CollectiveType::allreduce, 3), 1);
  const uint32_t a = b.add(0, 1, b.data(0), reduce);
  const uint32_t c = b.add(1, 2, b.data(0), reduce, {a});
  const uint32_t d = b.add(0, 2, b.data(0), reduce, {c});
  const uint32_t e = b.add(2, 0, b.data(0), copy, {d});
  b.add(2, 1, b.data(0), copy, {e});
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result", "wrong-result", "wrong-result"));
  EXPECT_EQ(findings[2].rank, 2);
  EXPECT_EQ(findings[2].chunk, 0);
  EXPECT_EQ(findings[2].transfer, 2);
  EXPECT_EQ(findings[2].message,
            "rank 2 chunk 0 [data 0..1) holds rank 0's contribution twice; it should hold every "
            "rank's contribution once");
  EXPECT_THAT(findings[2].witness,
              ElementsAre("transfer 0: rank 0 -> rank 1 reduce chunk 0 [data 0..1)",
                          "transfer 1: rank 1 -> rank 2 reduce chunk 0 [data 0..1)",
                          "transfer 2: rank 0 -> rank 2 reduce chunk 0 [data 0..1)"));
}

TEST(Validate, SaysWhatIsMissing) {
  Builder b(collective(CollectiveType::allreduce, 3), 1);
  const uint32_t a = b.add(0, 1, b.data(0), reduce);
  b.add(1, 0, b.data(0), copy, {a});
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result", "wrong-result", "wrong-result"));
  EXPECT_EQ(findings[0].message,
            "rank 0 chunk 0 [data 0..1) lacks rank 2's contribution; it should hold every rank's "
            "contribution once");
  EXPECT_EQ(findings[2].message,
            "rank 2 chunk 0 [data 0..1) lacks rank 0's contribution and rank 1's contribution; it "
            "should hold every rank's "
            "contribution once");
  EXPECT_EQ(findings[2].transfer, -1);
}

TEST(Validate, SaysWhatIsForeign) {
  Builder b(collective(CollectiveType::allgather, 2), 2);
  const uint32_t zero = b.data(0), one = b.data(1), scratch = b.chunk(Buffer::scratch, 0);
  b.add(0, 1, zero, copy);
  b.add(1, one, 0, scratch, copy);
  b.add(0, zero, 0, one, copy);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result"));
  EXPECT_EQ(findings[0].message,
            "rank 0 chunk 1 [data 1..2) wrongly holds rank 0's unit 0; it lacks rank 1's unit 1; "
            "it should hold rank 1's unit 1");
}

TEST(Validate, SaysThatNothingCame) {
  Builder b(collective(CollectiveType::broadcast, 3, 0), 2);
  b.add(0, 1, b.data(0, 2), copy);
  b.add(0, 2, b.data(0), copy);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result"));
  EXPECT_EQ(findings[0].message,
            "rank 2 chunk 0 [data 1..2) holds nothing; it should hold rank 0's unit 1");
}

TEST(Validate, UnitsThatNoChunkTouchesAreChecked) {
  Builder b(collective(CollectiveType::broadcast, 2, 0), 5);
  b.add(0, 1, b.data(0, 4), copy);
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result"));
  EXPECT_EQ(findings[0].message,
            "rank 1 [data 4..5) holds nothing; it should hold rank 0's unit 4");
  EXPECT_EQ(findings[0].chunk, -1);
}

TEST(Validate, CountsContributionsBeyondThePowersOfTwo) {
  // Doubling 64 times makes 2^64 of each contribution, which is zero to a sum of 64 bits.
  Builder b(collective(CollectiveType::allreduce, 2), 1);
  uint32_t last = b.add(0, 1, b.data(0), reduce);
  const uint32_t scratch = b.chunk(Buffer::scratch, 0);
  const uint32_t saved = b.add(1, b.data(0), 0, scratch, copy, {last});
  last = b.add(1, 0, b.data(0), copy, {saved});
  for (int i = 0; i < 128; ++i) last = b.add(i % 2, (i + 1) % 2, b.data(0), reduce, {last});
  last = b.add(0, scratch, 1, b.data(0), reduce, {last});
  b.add(1, 0, b.data(0), copy, {last});
  const std::vector<Finding> findings = validate(b.schedule());
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].rule, "wrong-result");
  EXPECT_THAT(findings[0].message, HasSubstr("very many times"));
}

TEST(Validate, LongWitnessesAreCutInTheMiddle) {
  Builder b(collective(CollectiveType::allreduce, 50), 1);
  std::vector<uint32_t> last;
  for (uint32_t r = 0; r + 1 < 49; ++r)
    last = {b.add(r, r + 1, b.data(0), reduce, last)};  // rank 49 is forgotten
  const std::vector<Finding> findings = validate(b.schedule(), {.max_findings = 1000});
  const Finding& end = findings[48];
  EXPECT_EQ(end.rank, 48);
  ASSERT_EQ(end.witness.size(), 17u);
  EXPECT_EQ(end.witness[8], "... 32 transfers more ...");
  EXPECT_THAT(end.witness.front(), HasSubstr("transfer 0:"));
  EXPECT_THAT(end.witness.back(), HasSubstr("transfer 47:"));
}

// ---------------------------------------------------------------- every collective, in place and
// out of place

// The obvious right schedule: every transfer waits for the one before.
Schedule obvious(const Collective& c, int64_t units) {
  Builder b(c, units);
  const Buffer source = c.in_place ? Buffer::data : Buffer::input,
               target = c.in_place ? Buffer::data : Buffer::output;
  const int64_t part = units / c.ranks;
  const auto add = [&](int64_t src, Chunk from, int64_t dst, Chunk to, TransferOp op) {
    if (src == dst && from == to) return;
    std::vector<uint32_t> after;
    if (b.schedule().size() > 0) after.push_back(static_cast<uint32_t>(b.schedule().size() - 1));
    b.add(static_cast<uint32_t>(src), b.chunk(from.buffer, from.offset, from.length),
          static_cast<uint32_t>(dst), b.chunk(to.buffer, to.offset, to.length), op, after);
  };
  const Chunk all_in{source, 0, units}, all_out{target, 0, units};
  const auto part_of = [&](Buffer buffer, bool whole, int64_t q) {
    return Chunk{buffer, whole || c.in_place ? q * part : 0, part};
  };
  for (int64_t q = 0; q < c.ranks; ++q) {
    switch (c.type) {
      case CollectiveType::allreduce:
      case CollectiveType::reduce: {
        const int64_t root = c.type == CollectiveType::reduce ? c.root : 0;
        if (q == 0) add(root, all_in, root, all_out, copy);
        if (q != root) add(q, all_in, root, all_out, reduce);
        if (q + 1 == c.ranks && c.type == CollectiveType::allreduce)
          for (int64_t r = 1; r < c.ranks; ++r) add(root, all_out, r, all_out, copy);
        break;
      }
      case CollectiveType::broadcast:
        add(c.root, all_in, q, all_out, copy);
        break;
      case CollectiveType::reduce_scatter:
        add(q, part_of(source, true, q), q, part_of(target, false, q), copy);
        for (int64_t r = 0; r < c.ranks; ++r)
          if (r != q) add(r, part_of(source, true, q), q, part_of(target, false, q), reduce);
        break;
      case CollectiveType::scatter:
        add(c.root, part_of(source, true, q), q, part_of(target, false, q), copy);
        break;
      case CollectiveType::gather:
        add(q, part_of(source, false, q), c.root, part_of(target, true, q), copy);
        break;
      case CollectiveType::allgather:
        for (int64_t r = 0; r < c.ranks; ++r)
          add(r, part_of(source, false, r), q, part_of(target, true, r), copy);
        break;
      case CollectiveType::alltoall:
        for (int64_t r = 0; r < c.ranks; ++r) {
          if (!c.in_place) {
            add(r, part_of(source, true, q), q, part_of(target, true, r), copy);
          } else if (r < q) {  // ranks q and r exchange through scratch space
            const Chunk scratch{Buffer::scratch, 0, part};
            add(q, part_of(source, true, r), q, scratch, copy);
            add(r, part_of(source, true, q), q, part_of(target, true, r), copy);
            add(q, scratch, r, part_of(target, true, q), copy);
          }
        }
        break;
    }
  }
  return b.schedule();
}

class EveryCollective : public testing::TestWithParam<std::tuple<CollectiveType, bool, int>> {};

TEST_P(EveryCollective, IsProvenAndEveryTransferIsNeeded) {
  const auto [type, in_place, ranks] = GetParam();
  const Collective c = collective(type, ranks, has_root(type) ? ranks - 1 : -1, in_place);
  const Schedule right = obvious(c, 2 * ranks);
  EXPECT_THAT(validate(right), IsEmpty());
  for (size_t left_out = 0; left_out < right.size(); ++left_out) {
    Schedule wrong(c, right.units());
    for (const Chunk& chunk : right.chunks()) wrong.add_chunk(chunk);
    for (size_t t = 0; t < right.size(); ++t) {
      if (t == left_out) continue;
      Transfer transfer = right.transfer(t);
      const uint32_t before = static_cast<uint32_t>(wrong.size()) - 1;
      transfer.after = {&before, wrong.size() > 0 ? 1u : 0u};
      wrong.add(transfer);
    }
    const std::vector<Finding> findings = validate(wrong);
    ASSERT_FALSE(findings.empty()) << "without transfer " << left_out;
    EXPECT_TRUE(findings[0].rule == "wrong-result" || findings[0].rule == "undefined-read")
        << findings[0].rule;
    for (const Finding& finding : findings)
      EXPECT_EQ(finding.message.find("lacks;"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Validate, EveryCollective,
    testing::Combine(testing::Values(CollectiveType::allreduce, CollectiveType::allgather,
                                     CollectiveType::reduce_scatter, CollectiveType::broadcast,
                                     CollectiveType::reduce, CollectiveType::gather,
                                     CollectiveType::scatter, CollectiveType::alltoall),
                     testing::Bool(), testing::Values(2, 3, 5)),
    [](const auto& info) {
      return std::string(to_string(std::get<0>(info.param))) +
             (std::get<1>(info.param) ? "_in_place_" : "_out_of_place_") +
             std::to_string(std::get<2>(info.param));
    });

TEST(Validate, ChunksOfDifferentCutsMeetInOneResult) {
  // Rank 1 gets thirds, rank 2 gets these as halves, rank 3 gets all at once, shifted through
  // scratch.
  Builder b(collective(CollectiveType::broadcast, 4, 0), 6);
  for (int64_t i = 0; i < 3; ++i) b.add(0, 1, b.data(2 * i, 2), copy);
  const uint32_t half = b.add(1, 2, b.data(0, 3), copy, {0, 1});
  b.add(1, 2, b.data(3, 3), copy, {half, 2});
  const uint32_t shifted = b.chunk(Buffer::scratch, 5, 6);
  b.add(2, b.data(0, 6), 3, shifted, copy, {4});
  b.add(3, b.chunk(Buffer::scratch, 5, 1), 3, b.data(0, 1), copy, {5});
  b.add(3, b.chunk(Buffer::scratch, 6, 5), 3, b.data(1, 5), copy, {5});
  EXPECT_THAT(rules(b), IsEmpty());
}

TEST(Validate, ShiftsByOneUnitAreFollowedThroughTheWholeMessage) {
  // Rank 1 gets unit 0, shifts it on and is to have unit 0 everywhere, which is wrong from unit 1
  // on.
  constexpr int64_t units = 100;
  Builder b(collective(CollectiveType::broadcast, 2, 0), units);
  const uint32_t first = b.add(0, 1, b.data(0, units), copy);
  const uint32_t scratch = b.chunk(Buffer::scratch, 0, units - 1);
  const uint32_t away = b.add(1, b.data(0, units - 1), 1, scratch, copy, {first});
  b.add(1, scratch, 1, b.data(1, units - 1), copy, {away});
  const std::vector<Finding> findings = validate(b.schedule(), {.max_findings = 1000});
  ASSERT_THAT(rules(findings), ElementsAre("wrong-result"));  // one chunk, one finding
  EXPECT_THAT(findings[0].message, HasSubstr("holds rank 0's unit 0"));
}

// ---------------------------------------------------------------- our generators

Schedule generated(const std::string& algorithm, int ranks, const std::string& slowdown,
                   int segments, CollectiveType type = CollectiveType::allreduce) {
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
  return generate({network,
                   collective(type, ranks),
                   Bytes(int64_t{1} << 30),
                   Bytes(4),
                   Sharing::fair,
                   JsonCursor(options, "options"),
                   {}})
      .schedule;
}

TEST(Validate, ProvesTheRing) {
  for (const int ranks : {2, 3, 4, 5, 8, 16, 33, 64})
    for (const CollectiveType type :
         {CollectiveType::allreduce, CollectiveType::allgather, CollectiveType::reduce_scatter})
      EXPECT_THAT(rules(validate(generated("ring", ranks, "2", 0, type))), IsEmpty())
          << ranks << to_string(type);
}

TEST(Validate, ProvesOptCC) {
  for (const int ranks : {2, 3, 4, 5, 8, 17, 32})
    for (const char* slowdown : {"1", "8/7", "4/3", "3/2", "2", "3"})
      for (const int segments : {1, 2, 3, 4, 5, 7, 8, 13})
        EXPECT_THAT(rules(validate(generated("optcc", ranks, slowdown, segments))), IsEmpty())
            << ranks << " " << slowdown << " " << segments;
}

// Which dependencies of a generator are needed, and that leaving out any of those is seen.
TEST(Validate, SeesThatADependencyOfTheRingIsMissing) {
  const Schedule ring = generated("ring", 4, "1", 0);
  size_t seen = 0, dropped = 0;
  for (size_t t = 0; t < ring.size(); ++t) {
    if (ring.after(t).empty()) continue;
    Schedule without(ring.collective(), ring.units());
    for (const Chunk& chunk : ring.chunks()) without.add_chunk(chunk);
    for (size_t i = 0; i < ring.size(); ++i) {
      Transfer transfer = ring.transfer(i);
      if (i == t) transfer.after = {};
      without.add(transfer);
    }
    ++dropped;
    seen += testing::Value(rules(validate(without)), testing::Contains("race"));
  }
  EXPECT_EQ(dropped, 20u);
  EXPECT_EQ(seen, dropped);  // each hop reads what the hop before it has written
}

TEST(Validate, ToStringOfSeverities) {
  EXPECT_EQ(to_string(Severity::error), "error");
  EXPECT_EQ(to_string(Severity::warning), "warning");
  EXPECT_EQ(to_string(Severity::info), "info");
  EXPECT_FALSE(has_errors({}));
  Finding finding;
  finding.severity = Severity::warning;
  EXPECT_FALSE(has_errors({finding}));
  finding.severity = Severity::error;
  EXPECT_TRUE(has_errors({finding}));
}

}  // namespace
}  // namespace slackline
