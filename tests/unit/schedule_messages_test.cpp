// Programs of messages without contents, and the schedules of other tools that are read from their text.
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "schedule/foreign_schedules.hpp"
#include "schedule/message_program.hpp"
#include "schedule/traffic.hpp"
#include "schedule/validate.hpp"
#include "support/expect_error.hpp"

namespace slackline {
namespace {

std::string rules(const std::vector<Finding>& findings, Severity severity = Severity::error) {
  std::string text;
  for (const Finding& finding : findings)
    if (finding.severity == severity) text += (text.empty() ? "" : " ") + std::string(finding.rule);
  return text;
}
MessageReport goal(const std::string& text) { return check_messages(read_goal(text, "a.goal")); }

TEST(Messages, ARelayEndsWithAnyBuffering) {
  const MessageReport report = goal(R"(num_ranks 3 // three
rank 0 { l1: send 8b to 1 tag 5 }
rank 1 { l1: recv 8b from 0 tag 5 l2: calc 100 cpu 1
         l3: send 8b to 2 tag 5 nic 0 /* later */ l2 requires l1 l3 requires l2 }
rank 2 { recv 8b from -1 tag -1 })");
  EXPECT_TRUE(report.ends);
  EXPECT_TRUE(report.ends_unbuffered);
  EXPECT_EQ(report.messages, 2);
  EXPECT_EQ(report.bytes, 16);
  EXPECT_EQ(report.longest_chain, 2);
  EXPECT_EQ(rules(report.findings), "");
  EXPECT_EQ(rules(report.findings, Severity::info), "no-contents");
}

TEST(Messages, SendsBeforeReceivesNeedBuffers) {
  std::string text = "num_ranks 2\n";
  for (int r = 0; r < 2; ++r) {
    const std::string n = std::to_string(r), m = std::to_string(1 - r);
    text += "rank " + n + " { s: send 1b to " + m + " tag 0 r: recv 1b from " + m + " tag 0 r requires s }\n";
  }
  const MessageReport report = goal(text);
  EXPECT_TRUE(report.ends);
  EXPECT_FALSE(report.ends_unbuffered);
  ASSERT_EQ(rules(report.findings, Severity::warning), "deadlock-capacity");
  EXPECT_FALSE(report.findings.front().witness.empty());
}

TEST(Messages, ReceivesBeforeSendsNeverEnd) {
  std::string text = "num_ranks 2\n";
  for (int r = 0; r < 2; ++r) {
    const std::string n = std::to_string(r), m = std::to_string(1 - r);
    text += "rank " + n + " { s: send 1b to " + m + " tag 0 r: recv 1b from " + m + " tag 0 s requires r }\n";
  }
  const MessageReport report = goal(text);
  EXPECT_FALSE(report.ends);
  ASSERT_EQ(rules(report.findings), "deadlock");
  EXPECT_EQ(report.findings.front().witness.size(), 4u);  // two operations of each rank
}

TEST(Messages, WhatDoesNotMeet) {
  EXPECT_EQ(rules(goal("num_ranks 2 rank 0 { send 1b to 1 tag 0 } rank 1 { }").findings), "message-unreceived");
  EXPECT_EQ(rules(goal("num_ranks 2 rank 0 { send 1b to 1 tag 0 } rank 1 { recv 1b from 0 tag 1 }").findings), "message-unreceived message-missing deadlock");
  EXPECT_EQ(rules(goal("num_ranks 2 rank 0 { send 1b to 1 tag 0 } rank 1 { recv 2b from 0 tag 0 }").findings), "message-size");
}

TEST(Messages, DamagedGoal) {
  EXPECT_EQ(error_of([] { goal("num_ranks 2 rank 0 { send 1b to 2 }"); }), "a.goal:1: the destination must be a number from 0 to 1, and is \"2\"");
  EXPECT_EQ(error_of([] { goal("num_ranks 1 rank 0 {\n a: calc 1\n a requires b }"); }), "a.goal:3: there is no label \"b\"");
  EXPECT_EQ(error_of([] { goal("num_ranks 99999999"); }), "a.goal:1: num_ranks must be a number from 1 to 1048576, and is \"99999999\"");
  EXPECT_EQ(error_of([] { goal("num_ranks 1 /* "); }), "a.goal:1: has a comment that does not end");
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value > 127; value >>= 7) text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}
std::string bytes(uint64_t field, const std::string& value) { return varint(field << 3 | 2) + varint(value.size()) + value; }
std::string number(uint64_t field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string node(uint64_t id, uint64_t type, const std::string& peer_name, uint64_t peer, const std::string& after) {
  const auto attribute = [](const std::string& name, uint64_t value) { return bytes(10, bytes(1, name) + number(9, value)); };
  const std::string body = number(1, id) + bytes(2, "n") + number(3, type) + (after.empty() ? "" : bytes(5, after)) + attribute(peer_name, peer) + attribute("comm_size", 300) + attribute("comm_tag", 0);
  return varint(body.size()) + body;
}

TEST(Messages, ChakraTraces) {
  const std::string head = varint(3) + "abc";
  const auto rank = [&](uint64_t peer, bool receives_first) {
    return head + (receives_first ? node(0, 6, "comm_src", peer, "") + node(1, 5, "comm_dst", peer, std::string(1, '\0')) : node(0, 5, "comm_dst", peer, "") + node(1, 6, "comm_src", peer, std::string(1, '\0')));
  };
  MessageProgram program;
  read_chakra_rank(rank(1, false), "x.0.et", program);
  read_chakra_rank(rank(0, true), "x.1.et", program);
  MessageReport report = check_messages(program);
  EXPECT_TRUE(report.ends_unbuffered);
  EXPECT_EQ(report.bytes, 600);
  EXPECT_EQ(report.longest_chain, 2);
  program.ranks.clear();
  read_chakra_rank(rank(1, true), "x.0.et", program);
  read_chakra_rank(rank(0, true), "x.1.et", program);
  EXPECT_EQ(rules(check_messages(program).findings), "deadlock");
  const std::string cut = rank(1, true).substr(0, 20);
  EXPECT_EQ(error_of([&] { read_chakra_rank(cut, "x.0.et", program); }), "x.0.et: has a part that goes beyond its end at byte 5");
}

// Two ranks and a relay, rank 2, which also wants and brings a chunk; `paths` are those of rank 0's chunk for rank 1.
std::string table(const std::string& paths) {
  std::string text = R"({"1-Epoch_Duration": 1.0, "6-Flows": ["Chunk 1 from 0 traveled over 0->1 with volume 0.25 in epoch 0"], "7-chunk paths": {"Demand at 1 for chunk 1 from 0 met by epoch 9": [)" + paths + "]";
  for (int to = 0; to < 3; ++to)
    for (int from = 0; from < 3; ++from)
      if (from != to && (from != 0 || to != 1)) {
        const std::string f = std::to_string(from), t = std::to_string(to);
        text += ", \"Demand at " + t + " for chunk " + t + " from " + f + " met by epoch 9\": [[[0, \"" + f + "->" + t + " with volume 1.0 in epoch 0\"]]]";
      }
  return text + "}}";
}
std::string hop(int from, int to, const std::string& volume, int epoch) {
  return "[" + std::to_string(epoch) + ", \"" + std::to_string(from) + "->" + std::to_string(to) + " with volume " + volume + " in epoch " + std::to_string(epoch) + "\"]";
}

TEST(TeCcl, FractionsOfAnAllToAllGoDownTheirPaths) {
  const std::string direct = "[" + hop(0, 1, "0.25", 0) + "]";
  EXPECT_EQ(rules(validate(parse_te_ccl(table(direct + ", [" + hop(0, 2, "0.75", 1) + "," + hop(2, 1, "0.75", 2) + "]"), "f"))), "");
  EXPECT_EQ(rules(validate(parse_te_ccl(table(direct), "f"))), "wrong-result wrong-result wrong-result");  // three quarters
  // The relay sends what comes in the same epoch.
  EXPECT_NE(rules(validate(parse_te_ccl(table(direct + ", [" + hop(0, 2, "0.75", 1) + "," + hop(2, 1, "0.75", 1) + "]"), "f"))), "");
  EXPECT_EQ(error_of([&] { parse_te_ccl(table(direct + "," + direct + ", [" + hop(0, 1, "0.75", 2) + "]"), "f"); }), "f: /7-chunk paths/Demand at 1 for chunk 1 from 0 met by epoch 9/2: carries more than is left of its chunk");
}

std::string forest(const std::string& first) {
  return "<Algo nchunkspernode=\"2\">" + first + R"x(
<tree root="(0, 'GPU', 1)" index="0" nchunks="2" height="2"><send src="(0, 'GPU', 1)" dst="(0, 'GPU', 0)" path="a"/><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 2)" path="a"/></tree>
<tree root="(0, 'GPU', 2)" index="0" nchunks="1" height="1"><send src="(0, 'GPU', 2)" dst="(0, 'GPU', 0)" path="a"/><send src="(0, 'GPU', 2)" dst="(0, 'GPU', 1)" path="a"/></tree>
<tree root="(0, 'GPU', 2)" index="1" nchunks="1" height="2"><send src="(0, 'GPU', 1)" dst="(0, 'GPU', 0)" path="a"/><send src="(0, 'GPU', 2)" dst="(0, 'GPU', 1)" path="a"/></tree></Algo>)x";
}

TEST(ForestColl, TreesAreAnAllGather) {
  const std::string whole = R"x(<tree root="(0, 'GPU', 0)" index="0" nchunks="2" height="1"><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)" path="a"/><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 2)" path="a"/></tree>)x";
  const Schedule schedule = parse_forest(forest(whole), "f.xml");
  EXPECT_EQ(schedule.collective().ranks, 3);
  EXPECT_EQ(schedule.units(), 6);
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_TRUE(traffic_notes(schedule).empty());
  const std::string half = R"x(<tree root="(0, 'GPU', 0)" index="0" nchunks="1" height="1"><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)" path="a"/><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 2)" path="a"/></tree>)x";
  EXPECT_EQ(rules(validate(parse_forest(forest(half), "f.xml"))), "wrong-result wrong-result");
  EXPECT_EQ(error_of([&] { parse_forest(forest(whole + half), "f.xml"); }), "f.xml:1: the trees of this root carry more than its 2 chunks");
}

TEST(Traffic, ExcessAndUnusedScratch) {
  Schedule schedule({CollectiveType::broadcast, 2, 0, true, Reduction::sum}, 1);
  const uint32_t data = schedule.add_chunk({Buffer::data, 0, 1}), scratch = schedule.add_chunk({Buffer::scratch, 0, 1});
  schedule.add({0, 1, data, data, TransferOp::copy, 0, {}});
  EXPECT_TRUE(traffic_notes(schedule).empty());
  schedule.add({0, 1, data, scratch, TransferOp::copy, 0, {}});
  const std::vector<Finding> notes = traffic_notes(schedule);
  EXPECT_EQ(rules(notes, Severity::info), "excess-bytes unused-scratch");
  EXPECT_EQ(notes.front().message, "moves 2 times the message between ranks, 2.00 times the 1 that broadcast on 2 ranks needs");
}

}  // namespace
}  // namespace slackline
