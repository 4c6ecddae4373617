// Small MSCCL++ plans whose fate is plain to see, and each with one thing wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/json.hpp"
#include "schedule/mscclpp_check.hpp"
#include "support/expect_error.hpp"

namespace slackline {
namespace {

Json op(const std::string& text) { return Json::parse(text); }
const Json nop = op(R"({"name": "nop"})");
Json on_channel(const std::string& name, const std::string& ids = "[0]") { return op(R"({"name": ")" + name + R"(", "channel_ids": )" + ids + R"(, "channel_type": "memory"})"); }
Json region(const std::string& type, int index, int size = 1) { return {{"type", type}, {"index", index}, {"size", size}}; }
Json remote(int id, int index, int size = 1) { return {{"buffer_id", id}, {"index", index}, {"size", size}}; }
Json move(const std::string& name, Json sources, Json destinations) {
  return {{"name", name}, {"src_buff", std::move(sources)}, {"dst_buff", std::move(destinations)}, {"channel_type", "memory"}};
}

// Two ranks with a channel and access to the other's buffer of `type`.
Json plan_of_two(const std::string& collective, const std::string& type, int input, int output, int scratch, const std::string& protocol = "Simple") {
  Json plan = {{"name", "test"}, {"collective", collective}, {"protocol", protocol}, {"inplace", true}, {"gpus", Json::array()}};
  for (int r = 0; r < 2; ++r)
    plan["gpus"].push_back({{"id", r},
                            {"input_chunks", input},
                            {"output_chunks", output},
                            {"scratch_chunks", scratch},
                            {"threadblocks", Json::array()},
                            {"channels", Json::array({Json{{"channel_type", "memory"}, {"connected_to", {1 - r}}}})},
                            {"remote_buffers", Json::array({Json{{"rank", 1 - r}, {"type", type}, {"access_channel_types", {"memory"}}}})},
                            {"semaphores", Json::array()}});
  return plan;
}
void add_block(Json& plan, int rank, Json ops) {
  Json& blocks = plan["gpus"][static_cast<size_t>(rank)]["threadblocks"];
  blocks.push_back({{"id", blocks.size()}, {"ops", std::move(ops)}, {"channels", Json::array({Json{{"channel_type", "memory"}, {"channel_ids", {0}}}})},
                    {"remote_buffer_refs", Json::array({Json{{"access_channel_type", "memory"}, {"remote_buffer_ids", {0}}}})}});
}
// Every rank puts its part to the other, between two handshakes.
Json allgather() {
  Json plan = plan_of_two("allgather", "o", 1, 2, 0);
  for (int r = 0; r < 2; ++r)
    add_block(plan, r, {on_channel("signal"), on_channel("wait"), nop, move("put", Json::array({region("o", r)}), Json::array({remote(0, r)})), nop, on_channel("signal"), on_channel("wait")});
  return plan;
}
Json& ops_of(Json& plan, size_t rank, size_t block = 0) { return plan["gpus"][rank]["threadblocks"][block]["ops"]; }

MscclppReport check(const Json& plan, MscclppCheckOptions options = {}) {
  std::vector<Finding> reading;
  const MscclppPlan read = read_mscclpp_plan(plan.dump(), "plan.json", reading);
  return check_mscclpp(read, options, reading);
}
std::string rules(const MscclppReport& report, Severity severity = Severity::error) {
  std::vector<std::string> names;
  for (const Finding& finding : report.findings)
    if (finding.severity == severity) names.emplace_back(finding.rule);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST(Mscclpp, PutBetweenHandshakesIsRight) {
  const MscclppReport report = check(allgather());
  EXPECT_EQ(report.verdict(), "right");
  EXPECT_EQ(rules(report), "");
  EXPECT_EQ(rules(report, Severity::warning), "");
  ASSERT_TRUE(report.schedule);
  EXPECT_EQ(report.schedule->size(), 2u);
  EXPECT_TRUE(validate(*report.schedule).empty());
}

TEST(Mscclpp, WithoutTheLastWaitTheCallerMayLookTooEarly) {
  Json plan = allgather();
  for (size_t r = 0; r < 2; ++r) {
    ops_of(plan, r).erase(5);
    ops_of(plan, r).erase(5);
  }
  const MscclppReport report = check(plan);
  EXPECT_EQ(report.contents(), "race");
  EXPECT_EQ(rules(report), "not-awaited");
}

TEST(Mscclpp, WithoutTheFirstHandshakeOnlyTheNextCallSuffers) {
  Json plan = allgather();
  for (size_t r = 0; r < 2; ++r) ops_of(plan, r).erase(ops_of(plan, r).begin(), ops_of(plan, r).begin() + 3);
  const MscclppReport report = check(plan);
  EXPECT_EQ(report.contents(), "right");
  EXPECT_EQ(rules(report, Severity::warning), "next-call-race");
}

TEST(Mscclpp, ASignalWithoutNopIsSentBeforeThePutHasEnded) {
  Json plan = allgather();
  for (size_t r = 0; r < 2; ++r) ops_of(plan, r).erase(4);
  EXPECT_EQ(rules(check(plan)), "not-awaited");
}

TEST(Mscclpp, AWaitThatNobodySignalsNeverEnds) {
  Json plan = allgather();
  ops_of(plan, 1).erase(5);
  const MscclppReport report = check(plan);
  EXPECT_EQ(report.verdict(), "never ends");
  ASSERT_EQ(rules(report), "deadlock");
  const Finding& finding = report.findings.front();
  ASSERT_EQ(finding.witness.size(), 1u);
  EXPECT_EQ(finding.witness[0], "gpu 0 tb 0 op 6 (wait) waits for a signal that nobody sends");
}

TEST(Mscclpp, WaitsBeforeSignalsAreACircle) {
  Json plan = allgather();
  for (size_t r = 0; r < 2; ++r) std::swap(ops_of(plan, r)[0], ops_of(plan, r)[1]);
  const MscclppReport report = check(plan);
  ASSERT_EQ(rules(report), "deadlock");
  EXPECT_EQ(report.findings.front().witness.size(), 2u);
}

TEST(Mscclpp, SignalsThatAreLeftOver) {
  Json plan = allgather();
  ops_of(plan, 0).push_back(on_channel("signal"));
  EXPECT_EQ(rules(check(plan)), "signal-count");
}

TEST(Mscclpp, WrongPlace) {
  Json plan = allgather();
  ops_of(plan, 0)[3]["dst_buff"][0]["index"] = 1;
  const MscclppReport report = check(plan);
  EXPECT_NE(rules(report).find("race"), std::string::npos) << rules(report);
}

TEST(Mscclpp, OutOfBoundsAndOperands) {
  Json plan = allgather();
  ops_of(plan, 0)[3]["dst_buff"][0]["index"] = 2;
  EXPECT_EQ(rules(check(plan)), "out-of-bounds");
  plan = allgather();
  ops_of(plan, 0)[3]["dst_buff"][0] = region("o", 0);
  EXPECT_EQ(check(plan).verdict(), "broken");
  EXPECT_EQ(rules(check(plan)), "operand");
  plan = allgather();
  plan["gpus"][1]["input_chunks"] = 2;
  EXPECT_EQ(rules(check(plan)), "chunks-inconsistent");
}

// Reads the other's half, adds, writes the sum to both.
Json allreduce() {
  Json plan = plan_of_two("allreduce", "i", 2, 2, 0);
  for (int r = 0; r < 2; ++r)
    add_block(plan, r, {on_channel("rlxsignal"), on_channel("rlxwait"), nop, move("rres", Json::array({region("i", r), remote(0, r)}), Json::array({region("i", r), remote(0, r)})), nop, on_channel("signal"), on_channel("wait")});
  return plan;
}

TEST(Mscclpp, ReadReduceSend) {
  EXPECT_EQ(check(allreduce()).verdict(), "right");
  Json plan = allreduce();
  ops_of(plan, 0)[3]["src_buff"].push_back(remote(0, 0));  // twice
  const MscclppReport report = check(plan);
  EXPECT_EQ(rules(report), "wrong-result");
  EXPECT_FALSE(report.findings.front().witness.empty());
}

TEST(Mscclpp, BlocksOfAGroupShareAnOperation) {
  Json plan = plan_of_two("allreduce", "i", 2, 2, 0);
  for (int r = 0; r < 2; ++r) {
    plan["gpus"][static_cast<size_t>(r)]["channels"][0]["connected_to"] = {1 - r, 1 - r};
    for (int b = 0; b < 2; ++b) {
      Json shared = move("rres", Json::array({region("i", r), remote(0, r)}), Json::array({region("i", r), remote(0, r)}));
      shared["tbg_info"] = {{"tb_id", b}, {"tbg_size", 2}};
      add_block(plan, r, {on_channel("signal"), on_channel("wait"), nop, shared, nop, on_channel("signal"), on_channel("wait")});
      plan["gpus"][static_cast<size_t>(r)]["threadblocks"][static_cast<size_t>(b)]["channels"][0]["channel_ids"] = {b};
    }
  }
  EXPECT_EQ(check(plan).verdict(), "right");
  ops_of(plan, 0, 1)[3]["tbg_info"]["tb_id"] = 0;  // one part twice, the other never
  EXPECT_EQ(check(plan).contents(), "race");
}

TEST(Mscclpp, ThreadsOfABlockMeetAtNops) {
  // Through scratch: the copy's part of s[1] is another thread's than the put's.
  Json plan = plan_of_two("allgather", "o", 2, 4, 2);
  for (int r = 0; r < 2; ++r)
    add_block(plan, r, {on_channel("signal"), on_channel("wait"), nop, move("copy", Json::array({region("o", 2 * r, 2)}), Json::array({region("s", 0, 2)})),
                        move("put", Json::array({region("s", 0), region("s", 1)}), Json::array({remote(0, 2 * r), remote(0, 2 * r + 1)})), nop, on_channel("signal"), on_channel("wait")});
  EXPECT_EQ(rules(check(plan)), "missing-nop");
  for (size_t r = 0; r < 2; ++r) ops_of(plan, r)[4] = move("put", Json::array({region("s", 0, 2)}), Json::array({remote(0, 2 * static_cast<int>(r), 2)}));
  EXPECT_EQ(check(plan).verdict(), "right");  // the same parts by the same threads
}

TEST(Mscclpp, Barriers) {
  // Block 0 takes the handshakes, block 1 the put.
  Json plan = plan_of_two("allgather", "o", 1, 2, 0);
  const Json barrier = op(R"({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2})");
  for (int r = 0; r < 2; ++r) {
    add_block(plan, r, {on_channel("signal"), on_channel("wait"), barrier, barrier, on_channel("signal"), on_channel("wait")});
    add_block(plan, r, {barrier, move("put", Json::array({region("o", r)}), Json::array({remote(0, r)})), barrier});
  }
  EXPECT_EQ(check(plan).verdict(), "right");
  EXPECT_EQ(rules(check(plan), Severity::warning), "");
  Json fewer = plan;
  ops_of(fewer, 0, 1).erase(2);
  EXPECT_EQ(rules(check(fewer)), "barrier-count");
}

TEST(Mscclpp, PacketsAreTheirOwnSignal) {
  Json plan = plan_of_two("allreduce", "s", 1, 1, 1, "LL");
  plan["use_double_scratch_buffer"] = true;
  for (int r = 0; r < 2; ++r)
    add_block(plan, r, {move("ppkt", Json::array({region("i", 0)}), Json::array({remote(0, 0)})), move("repkt", Json::array({region("i", 0), region("s", 0)}), Json::array({region("i", 0)}))});
  EXPECT_EQ(check(plan).verdict(), "right");
  EXPECT_EQ(rules(check(plan), Severity::warning), "");
  // With one half the next call's packets may come before these have been read.
  plan["use_double_scratch_buffer"] = false;
  EXPECT_EQ(rules(check(plan), Severity::warning), "next-call-race");
  Json missing = plan;
  ops_of(missing, 0).erase(0);
  EXPECT_EQ(rules(check(missing)), "deadlock");
  Json plain = plan;
  ops_of(plain, 0)[1] = move("re", Json::array({region("i", 0), region("s", 0)}), Json::array({region("i", 0)}));
  EXPECT_EQ(rules(check(plain)), "packet-form");
}

// Copies in, adds up through the switch, copies out, iteration by iteration; `permits` iterations may be on their way.
Json pipeline(int permits) {
  Json plan = plan_of_two("allreduce", "s", 2, 2, 2);
  plan["reuse_resources"] = true;
  for (int r = 0; r < 2; ++r) {
    Json& gpu = plan["gpus"][static_cast<size_t>(r)];
    gpu["channels"] = {{{"channel_type", "switch"}, {"buffer_type", "s"}, {"rank_groups", Json::array({Json{{"size", 2}, {"ranks", {0, 1}}}})}}, {{"channel_type", "memory"}, {"connected_to", {1 - r, 1 - r}}}};
    gpu["semaphores"] = {{{"init_value", 0}}, {{"init_value", 0}}, {{"init_value", permits}}};
    const auto semaphore = [](const std::string& name, int id) { return Json{{"name", name}, {"semaphore_ids", {id}}}; };
    const auto stage = [&](Json ops, int channel) {
      add_block(plan, r, Json::array({Json{{"name", "pipeline"}, {"iter_context", {{"unit_size", 1 << 23}, {"num_chunks", 1}}}, {"ops", std::move(ops)}}}));
      Json& block = plan["gpus"][static_cast<size_t>(r)]["threadblocks"].back();
      block["channels"] = channel < 0 ? Json::array({Json{{"channel_type", "switch"}, {"channel_ids", {0}}}}) : Json::array({Json{{"channel_type", "memory"}, {"channel_ids", {channel}}}});
    };
    const Json sync = on_channel("signal"), wait = on_channel("wait");
    stage({semaphore("sem_acquire", 2), nop, move("copy", Json::array({region("i", 0)}), Json::array({region("s", 0)})), move("copy", Json::array({region("i", 1)}), Json::array({region("s", 1)})), nop, sync, wait, nop, semaphore("sem_release", 0)}, 0);
    Json through = move("glres", Json::array({Json{{"switch_channel_id", 0}, {"index", r}, {"size", 1}}}), Json::array({Json{{"switch_channel_id", 0}, {"index", r}, {"size", 1}}}));
    through["channel_type"] = "switch";
    stage({semaphore("sem_acquire", 0), nop, through, nop, semaphore("sem_release", 1)}, -1);
    stage({semaphore("sem_acquire", 1), nop, sync, wait, nop, move("copy", Json::array({region("s", 0)}), Json::array({region("i", 0)})), move("copy", Json::array({region("s", 1)}), Json::array({region("i", 1)})), nop, semaphore("sem_release", 2)}, 1);
  }
  return plan;
}

TEST(Mscclpp, PipelinesUseScratchAgainOnlyWhenItIsFree) {
  // 64 MiB of scratch in 2 chunks have room for 4 iterations of 8 MiB.
  for (const int permits : {1, 2, 3, 4}) EXPECT_EQ(check(pipeline(permits)).verdict(), "right") << permits;
  EXPECT_EQ(check(pipeline(5)).verdict(), "race");
  EXPECT_EQ(check(pipeline(0)).verdict(), "never ends");
  Json plan = pipeline(4);
  plan["gpus"][0]["threadblocks"][1]["ops"][0]["ops"].erase(4);  // no release
  EXPECT_EQ(check(plan).verdict(), "never ends");
}

TEST(Mscclpp, PortsWorkBehindTheBlocksBack) {
  Json plan = plan_of_two("allgather", "o", 1, 2, 0);
  for (int r = 0; r < 2; ++r) {
    Json& gpu = plan["gpus"][static_cast<size_t>(r)];
    gpu["channels"][0]["channel_type"] = "port";
    gpu["remote_buffers"][0]["access_channel_types"] = {"port"};
    const auto port = [](Json what) {
      what["channel_type"] = "port";
      what["channel_ids"] = {0};
      return what;
    };
    const Json put = port(move("put", Json::array({region("o", r)}), Json::array({remote(0, r)})));
    const Json signal = port(on_channel("signal")), wait = port(on_channel("wait")), flush = port(on_channel("flush"));
    add_block(plan, r, {signal, wait, nop, put, signal, wait, flush});
    Json& block = gpu["threadblocks"][0];
    block["channels"][0]["channel_type"] = "port";
    block["remote_buffer_refs"][0]["access_channel_type"] = "port";
  }
  EXPECT_EQ(check(plan).contents(), "right");
  // The caller may write over the part before the host has read it.
  for (size_t r = 0; r < 2; ++r) ops_of(plan, r).erase(6);
  EXPECT_EQ(rules(check(plan)), "not-awaited");
}

TEST(Mscclpp, WhatTodaysExecutorDoesNotLoadIsAWarningOrAnError) {
  Json plan = allgather();
  plan["gpus"][0]["channels"][0] = {{"type", "memory"}, {"connected_to", {1}}};
  MscclppReport report = check(plan);
  EXPECT_EQ(report.verdict(), "refused");
  EXPECT_EQ(report.contents(), "right");
  EXPECT_EQ(rules(report), "");
  EXPECT_EQ(rules(report, Severity::warning), "loader");
  MscclppCheckOptions options;
  options.executor = true;
  EXPECT_EQ(rules(check(plan, options)), "loader");
}

TEST(Mscclpp, WhatHasNoMeaningIsRefusedWithItsPlace) {
  Json plan = allgather();
  ops_of(plan, 1)[3]["name"] = "glre";
  EXPECT_EQ(error_of([&] { check(plan); }), "plan.json: /gpus/1/threadblocks/0/ops/3/name: \"glre\" is no operation of an MSCCL++ executor; the Python language can write it, but no executor has it");
  plan = allgather();
  ops_of(plan, 0)[0]["channel_ids"] = {1};
  EXPECT_EQ(error_of([&] { check(plan); }), "plan.json: /gpus/0/threadblocks/0/ops/0/channel_ids/0: names channel 1 of its kind, of which the block has 1");
  plan = allgather();
  plan["dynamic"] = true;
  EXPECT_EQ(error_of([&] { check(plan); }), "plan.json: /dynamic: this is a template of MSCCL++ for sizes that are known at run time, and no plan");
}

TEST(Mscclpp, SizesAndBlocks) {
  Json plan = allgather();
  plan["max_message_size"] = 1024;
  MscclppCheckOptions options;
  options.size = Bytes(2048);
  EXPECT_EQ(rules(check(plan, options), Severity::warning), "size-not-picked");
  options.size = Bytes(1024);
  EXPECT_EQ(rules(check(plan, options), Severity::info), "size-picked");
  options.size = Bytes(1000);
  EXPECT_EQ(rules(check(plan, options), Severity::warning), "size-not-picked");
}

}  // namespace
}  // namespace slackline
