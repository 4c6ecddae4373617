// Every rule of check_msccl() on the smallest program that breaks it; FIFO sizes and safe sizes with numbers worked out by
// hand; reading, writing, lowering and exporting.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "schedule/list_timing.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/msccl_export.hpp"
#include "schedule/schedule_io.hpp"
#include "support/expect_error.hpp"
#include "support/msccl_text.hpp"

namespace slackline {
namespace {

const Finding* find(const MscclReport& report, std::string_view rule) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(), [&](const Finding& f) { return f.rule == rule; });
  return found == report.findings.end() ? nullptr : &*found;
}

std::string rules(const MscclReport& report, Severity severity) {
  std::string text;
  for (const Finding& finding : report.findings)
    if (finding.severity == severity && text.find(finding.rule) == std::string::npos) text += (text.empty() ? "" : " ") + std::string(finding.rule);
  return text;
}

// Two ranks give each other their chunk; right in place, and out of place with the copy.
MscclText exchange() {
  MscclText text("allgather", 2, 2);
  for (int r = 0; r < 2; ++r)
    text.gpu(r, 1, 2, 0).tb(1 - r, 1 - r).step("s", 'i', 0, 'o', r).step("r", 'o', 1 - r, 'o', 1 - r).tb(-1, -1).step("cpy", 'i', 0, 'o', r);
  return text;
}

MscclReport check(MscclText& text, const MscclCheckOptions& options = {}) { return check_msccl(text.program(), options); }

TEST(MscclCheck, ProvesTheExchangeRightInBothPlaces) {
  MscclText text = exchange();
  const MscclReport report = check(text);
  EXPECT_EQ(rules(report, Severity::error), "");
  EXPECT_EQ(rules(report, Severity::warning), "");
  EXPECT_EQ(report.in_place, MscclResult::right);
  EXPECT_EQ(report.out_of_place, MscclResult::right);
  EXPECT_EQ(report.one_node.progress, MscclProgress::completes);
  EXPECT_FALSE(report.refused[0] || report.refused[1] || report.refused[2]);
}

TEST(MscclCheck, FindsADeadlockWithItsCycle) {
  MscclText text("allgather", 2, 2);
  for (int r = 0; r < 2; ++r)
    text.gpu(r, 1, 2, 0).tb(1 - r, 1 - r).step("r", 'o', 1 - r, 'o', 1 - r).step("s", 'o', r, 'o', r);
  const MscclReport report = check(text);
  EXPECT_EQ(report.one_node.progress, MscclProgress::never);
  const Finding* finding = find(report, "deadlock");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->witness, (std::vector<std::string>{"line 4 gpu 0 tb 0 step 0 (r) waits for a message from gpu 1 tb 0 on channel 0",
                                                        "line 10 gpu 1 tb 0 step 0 (r) waits for a message from gpu 0 tb 0 on channel 0"}));
}

TEST(MscclCheck, FindsABlockThatWaitsForItself) {
  MscclText text("allgather", 2, 2);
  text.gpu(0, 1, 2, 0).tb(1, 1).step("s", 'o', 0, 'o', 0, 1, 0, 1).step("r", 'o', 1, 'o', 1, 1, -1, -1, true);
  text.gpu(1, 1, 2, 0).tb(0, 0).step("s", 'o', 1, 'o', 1).step("r", 'o', 0, 'o', 0);
  EXPECT_EQ(check(text).one_node.progress, MscclProgress::never);
}

// Three messages each before the first receive: a FIFO of two calls is one too small, one of four is large enough.
MscclText eager(const char* protocol, int messages, int count) {
  const int part = messages * count;
  MscclText text("allgather", 2, 2 * part, protocol);
  for (int r = 0; r < 2; ++r) {
    text.gpu(r, part, 2 * part, 0).tb(1 - r, 1 - r);
    for (int k = 0; k < messages; ++k) text.step("s", 'o', r * part + k * count, 'o', r * part + k * count, count);
    for (int k = 0; k < messages; ++k) text.step("r", 'o', (1 - r) * part + k * count, 'o', (1 - r) * part + k * count, count);
  }
  return text;
}

TEST(MscclCheck, KnowsHowMuchFifosMustHold) {
  MscclText text = eager("Simple", 3, 1);
  MscclReport report = check(text);
  EXPECT_EQ(report.one_node.progress, MscclProgress::needs_capacity);
  EXPECT_EQ(report.one_node.needed_calls, 3);
  EXPECT_EQ(report.all_nodes.progress, MscclProgress::completes);
  ASSERT_NE(find(report, "deadlock-capacity"), nullptr);
  EXPECT_EQ(find(report, "deadlock-capacity")->severity, Severity::warning);  // whether the two share a node is not known

  MscclCheckOptions options;
  options.ranks_per_node = 2;
  report = check(text, options);
  EXPECT_EQ(find(report, "deadlock-capacity")->severity, Severity::error);
  options.ranks_per_node = 1;
  report = check(text, options);
  EXPECT_EQ(find(report, "deadlock-capacity"), nullptr);
}

TEST(MscclCheck, KnowsTheLargestSafeSize) {
  // Two messages of 4 chunks: with Simple's two calls, a call must move all 4, so that a chunk has at most 2 MiB / 4.
  MscclText text = eager("Simple", 2, 4);  // 16 chunks
  const MscclReport report = check(text);
  EXPECT_EQ(report.one_node.progress, MscclProgress::completes_small);
  EXPECT_EQ(report.one_node.least_chunks_per_call, 4);
  EXPECT_EQ(*report.one_node.largest_safe_size, Bytes(int64_t{16} << 19));
  // Between nodes it is four calls: two a message, so that a call must move 2.
  EXPECT_EQ(report.all_nodes.least_chunks_per_call, 2);
  EXPECT_EQ(*report.all_nodes.largest_safe_size, Bytes(int64_t{16} << 20));
  EXPECT_EQ(find(report, "deadlock-size")->severity, Severity::error);

  MscclCheckOptions options;
  options.size = Bytes(int64_t{8} << 20);
  EXPECT_EQ(find(check(text, options), "deadlock-size")->severity, Severity::info);
  options.size = Bytes((int64_t{8} << 20) + 16);
  EXPECT_EQ(find(check(text, options), "deadlock-size")->severity, Severity::warning);  // between nodes it would end
  options.ranks_per_node = 8;
  EXPECT_EQ(find(check(text, options), "deadlock-size")->severity, Severity::error);
  // A larger buffer moves the limit; LL holds eight calls.
  options = {};
  options.buffer = Bytes(int64_t{8} << 20);
  EXPECT_EQ(*check(text, options).one_node.largest_safe_size, Bytes(int64_t{16} << 20));
  MscclText ll = eager("LL", 2, 4);
  EXPECT_EQ(check(ll).one_node.progress, MscclProgress::completes);
}

TEST(MscclCheck, CutsMessagesAsTheExecutorsDo) {
  EXPECT_EQ(msccl_call_bytes(MscclProtocol::simple, {}), Bytes(2 << 20));
  EXPECT_EQ(msccl_call_bytes(MscclProtocol::ll, {}), Bytes(32 << 10));
  EXPECT_EQ(msccl_call_bytes(MscclProtocol::ll128, {}), Bytes(576000));
  // 100 bytes in 8 chunks are chunks of 13; a call of 2 MiB takes more than 71 of them, and never more than 71.
  EXPECT_EQ(msccl_chunks_per_call(MscclProtocol::simple, {}, Bytes(100), 8), 71);
  EXPECT_EQ(msccl_chunks_per_call(MscclProtocol::simple, {}, Bytes(8 << 20), 8), 2);
  EXPECT_EQ(msccl_chunks_per_call(MscclProtocol::simple, {}, Bytes((8 << 20) + 1), 8), 1);
  EXPECT_EQ(msccl_chunks_per_call(MscclProtocol::simple, {}, Bytes(int64_t{1} << 40), 8), 1);
  EXPECT_EQ(msccl_fifo_calls(MscclProtocol::simple, false), 2);
  EXPECT_EQ(msccl_fifo_calls(MscclProtocol::ll128, true), 16);
}

TEST(MscclCheck, FindsWhatBreaksConnections) {
  {
    MscclText text = exchange();
    text.tb(0, -1, 0).step("s", 'o', 1, 'o', 1);  // a second sender
    EXPECT_EQ(rules(check(text), Severity::error), "connection-shared");
  }
  {
    MscclText text = exchange();
    text.tb(0, -1, 1).step("s", 'o', 1, 'o', 1);  // nobody receives
    EXPECT_EQ(rules(check(text), Severity::error), "message-unreceived");
  }
  {
    MscclText text = exchange();
    text.tb(-1, 0, 1).step("r", 'o', 1, 'o', 1);  // nobody sends
    const MscclReport report = check(text);
    EXPECT_EQ(rules(report, Severity::error), "message-missing deadlock");
    EXPECT_FALSE(report.structure_ok);
  }
  {
    MscclText text("allgather", 2, 4);
    for (int r = 0; r < 2; ++r)
      text.gpu(r, 2, 4, 0).tb(1 - r, 1 - r).step("s", 'o', 2 * r, 'o', 2 * r, 2).step("r", 'o', 2 - 2 * r, 'o', 2 - 2 * r, r + 1);
    const MscclReport report = check(text);
    EXPECT_EQ(rules(report, Severity::error), "message-count");
    EXPECT_EQ(find(report, "message-count")->message, "receives 1 chunks, but message 0 of its connection has 2");
  }
}

TEST(MscclCheck, FindsBadDependencies) {
  MscclText missing_block = exchange();
  missing_block.tb(-1, -1).step("cpy", 'o', 0, 'o', 1, 1, 7, 0);
  EXPECT_EQ(rules(check(missing_block), Severity::error), "dependency-missing");
  MscclText missing_step = exchange();
  missing_step.tb(-1, -1).step("cpy", 'o', 0, 'o', 1, 1, 0, 2);
  EXPECT_EQ(rules(check(missing_step), Severity::error), "dependency-missing");
  MscclText never_posted = exchange();
  never_posted.tb(-1, -1).step("cpy", 'o', 0, 'o', 1, 1, 0, 1);
  const MscclReport report = check(never_posted);
  EXPECT_EQ(rules(report, Severity::error), "deadlock");
  EXPECT_NE(find(report, "deadlock")->witness.at(0).find("to post step 1, which never happens"), std::string::npos);
  MscclText chain = exchange();
  chain.tb(-1, -1).step("nop", 'i', 0, 'i', 0, 1, 1, 0).step("cpy", 'o', 1, 'o', 1);
  EXPECT_NE(rules(check(chain), Severity::error).find("nop-chain"), std::string::npos);
  MscclText idle = exchange();
  idle.tb(-1, -1).step("nop", 'i', 0, 'i', 0).step("cpy", 'o', 1, 'o', 1, 1, -1, -1, true);
  EXPECT_NE(find(check(idle), "nop-empty"), nullptr);
}

TEST(MscclCheck, FindsRacesWithBothSteps) {
  // The block of scratch copies what the other block receives, without waiting for it.
  MscclText text("allgather", 2, 2);
  for (int r = 0; r < 2; ++r)
    text.gpu(r, 1, 2, 1).tb(1 - r, 1 - r).step("s", 'o', r, 'o', r).step("r", 'o', 1 - r, 'o', 1 - r).tb(-1, -1).step("cpy", 'o', 1 - r, 's', 0);
  const MscclReport report = check(text);
  EXPECT_EQ(report.in_place, MscclResult::race);
  const Finding* race = find(report, "race");
  ASSERT_NE(race, nullptr);
  EXPECT_EQ(race->witness.size(), 2U);
  EXPECT_NE(race->message.find("gpu 0 tb 0 step 1"), std::string::npos);
  EXPECT_NE(race->message.find("gpu 0 tb 1 step 0"), std::string::npos);

  // Waiting for the step itself, or for an earlier one that only a later one posts, orders them.
  for (const int waits_for : {0, 1}) {
    MscclText ordered("allgather", 2, 2);
    for (int r = 0; r < 2; ++r)
      ordered.gpu(r, 1, 2, 1).tb(1 - r, 1 - r).step("s", 'o', r, 'o', r).step("r", 'o', 1 - r, 'o', 1 - r, 1, -1, -1, true).tb(-1, -1).step("cpy", 'o', 1 - r, 's', 0, 1, 0, waits_for);
    EXPECT_EQ(check(ordered).in_place, MscclResult::right) << waits_for;
  }
}

TEST(MscclCheck, FindsWrongResults) {
  MscclText twice("allreduce", 2, 1);
  for (int r = 0; r < 2; ++r)
    twice.gpu(r, 1, 1, 2).tb(1 - r, 1 - r).step("s", 'i', 0, 's', 0).step("r", 's', 0, 's', 0).step("re", 's', 0, 'i', 0).step("re", 's', 0, 'i', 0);
  MscclReport report = check(twice);
  EXPECT_EQ(report.in_place, MscclResult::wrong);
  EXPECT_NE(find(report, "wrong-result")->message.find("twice"), std::string::npos);
  EXPECT_FALSE(find(report, "wrong-result")->witness.empty());
  MscclText undefined("allreduce", 2, 1);
  for (int r = 0; r < 2; ++r) undefined.gpu(r, 1, 1, 2).tb(1 - r, 1 - r).step("s", 's', 1, 's', 0).step("r", 's', 0, 's', 0);
  EXPECT_NE(find(check(undefined), "undefined-read"), nullptr);
}

TEST(MscclCheck, KnowsTheTrapOfTheRemoteSource) {
  // Rank 0 keeps chunk 0, rank 1 chunk 1; src names the chunk at the sender's place in scratch, as msccl-tools does.
  MscclText text("allreduce", 2, 2);
  for (int r = 0; r < 2; ++r)
    text.gpu(r, 2, 2, 2).tb(1 - r, 1 - r).step("s", 'i', 1 - r, 'i', 1 - r).step("rrc", 'i', 1 - r, 'i', r).step("s", 'i', r, 'i', r).step("r", 'i', 1 - r, 'i', 1 - r);
  const MscclReport report = check(text);
  EXPECT_EQ(report.in_place, MscclResult::wrong);
  EXPECT_NE(find(report, "remote-source"), nullptr);
  EXPECT_NE(find(report, "wrong-result")->message.find("it would be right if reductions took dst"), std::string::npos);
}

TEST(MscclCheck, FindsChunksOutsideTheirBuffers) {
  MscclText beyond = exchange();
  beyond.tb(-1, -1).step("cpy", 'o', 1, 'o', 2);
  EXPECT_EQ(rules(check(beyond), Severity::error), "out-of-bounds");
  MscclText before = exchange();
  before.tb(-1, -1).step("cpy", 'o', -1, 'o', 0);
  EXPECT_EQ(rules(check(before), Severity::error), "out-of-bounds");
  // In place declares no input, and executors believe it.
  MscclText undeclared("allreduce", 2, 1);
  for (int r = 0; r < 2; ++r) undeclared.gpu(r, 0, 1, 1).tb(1 - r, 1 - r).step("s", 'i', 0, 's', 0).step("r", 's', 0, 's', 0).step("re", 's', 0, 'o', 0);
  EXPECT_NE(find(check(undeclared), "beyond-declared"), nullptr);
}

TEST(MscclCheck, FindsWhatExecutorsRefuse) {
  const auto refused = [](MscclText& text) {
    const MscclReport report = check(text);
    return std::string() + (report.refused[0] ? "m" : "") + (report.refused[1] ? "a" : "") + (report.refused[2] ? "r" : "");
  };
  MscclText name("reduce_scatter", 2, 2);
  for (int r = 0; r < 2; ++r) name.gpu(r, 2, 0, 0).tb(1 - r, 1 - r).step("s", 'i', 1 - r, 'i', 1 - r).step("rrc", 'i', r, 'i', r);
  EXPECT_EQ(refused(name), "ar");
  MscclText channels = exchange();
  channels.tb(0, -1, 32);
  EXPECT_EQ(refused(channels), "mar");
  MscclText steps("allgather", 2, 2);
  for (int r = 0; r < 2; ++r) {
    steps.gpu(r, 1, 2, 1).tb(1 - r, 1 - r).step("s", 'o', r, 'o', r).step("r", 'o', 1 - r, 'o', 1 - r).tb(-1, -1);
    for (int k = 0; k < 65; ++k) steps.step("cpy", 'o', r, 's', 0);
  }
  EXPECT_EQ(refused(steps), "ar");
  EXPECT_EQ(find(check(steps), "limit-steps")->severity, Severity::warning);
  MscclCheckOptions options;
  options.executor = &msccl_executor("rccl");
  EXPECT_EQ(find(check(steps, options), "limit-steps")->severity, Severity::error);
  options.executor = &msccl_executor("msccl");
  EXPECT_EQ(find(check(steps, options), "limit-steps"), nullptr);
  MscclText count("allgather", 2, 200);
  for (int r = 0; r < 2; ++r) count.gpu(r, 100, 200, 0).tb(1 - r, 1 - r).step("s", 'o', 100 * r, 'o', 100 * r, 100).step("r", 'o', 100 - 100 * r, 'o', 100 - 100 * r, 100);
  EXPECT_EQ(refused(count), "mar");
  MscclText inconsistent = exchange();
  MscclProgram program = inconsistent.program();
  program.gpus[0].input_chunks = 2;
  EXPECT_TRUE(check_msccl(program, {}).refused[0]);
  EXPECT_FALSE(check_msccl(program, {}).refused[1]);
}

TEST(MscclCheck, SaysWhoUsesTheFileForASize) {
  MscclText text = exchange();
  MscclProgram program = text.program();
  program.min_bytes = 1024;
  program.max_bytes = 4096;
  MscclCheckOptions options;
  options.size = Bytes(4096);
  EXPECT_EQ(rules(check_msccl(program, options), Severity::info), "size-picked");
  options.size = Bytes(4104);
  EXPECT_EQ(find(check_msccl(program, options), "size-not-picked")->message,
            "msccl does not use the file for 4.104 kB (4104 bytes): it is for 1024 to 4096 bytes");
  // 513 elements a rank: azure wants a multiple of the 2 chunks of one rank's count, rccl of all ranks' count.
  options.size = Bytes(2 * 513 * 4);
  program.max_bytes = 0;
  options.executor = &msccl_executor("azure");
  EXPECT_NE(find(check_msccl(program, options), "size-not-picked"), nullptr);
  options.executor = &msccl_executor("rccl");
  EXPECT_NE(find(check_msccl(program, options), "size-picked"), nullptr);
}

TEST(MscclCheck, TellsTrafficBeyondTheMinimumAndUnusedScratch) {
  MscclText text("allgather", 2, 2);
  for (int r = 0; r < 2; ++r)
    text.gpu(r, 1, 2, 3).tb(1 - r, 1 - r).step("s", 'o', r, 'o', r).step("r", 'o', 1 - r, 'o', 1 - r).step("s", 'o', r, 's', 0).step("r", 's', 0, 's', 0);
  const MscclReport report = check(text);
  EXPECT_EQ(find(report, "excess-bytes")->message, "sends 4 chunks, 2.00 times the 2 that allgather needs");
  EXPECT_EQ(find(report, "unused-scratch")->message, "2 of 3 scratch chunks are never used");
}

TEST(MscclCheck, FindsTheRootOfABroadcast) {
  MscclText text("broadcast", 3, 2);
  text.gpu(0, 2, 2, 0).tb(-1, 2).step("r", 'o', 0, 'o', 0, 2);
  text.gpu(1, 2, 2, 0).tb(-1, 2).step("r", 'o', 0, 'o', 0, 2);
  text.gpu(2, 2, 2, 0).tb(0, -1).step("s", 'i', 0, 'o', 0, 2).tb(1, -1).step("s", 'i', 0, 'o', 0, 2).tb(-1, -1).step("cpy", 'i', 0, 'o', 0, 2);
  const MscclReport report = check(text);
  EXPECT_EQ(report.root, 2);
  EXPECT_EQ(report.in_place, MscclResult::right);
  EXPECT_EQ(report.out_of_place, MscclResult::right);
}

// ------------------------------------------------------------------ reading

std::string read_error(const std::string& text, MscclDialect dialect = MscclDialect::any) {
  std::vector<Finding> findings;
  return error_of([&] { read_msccl_xml(text, "a.xml", dialect, findings); });
}

TEST(MscclXml, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(read_error("<algo"), "a.xml:1: is no valid XML: Error parsing start element tag");
  EXPECT_EQ(read_error("<system/>"), "a.xml:1: has no <algo>, so it is no MSCCL algorithm");
  EXPECT_EQ(read_error("\n\n<algo name=\"x\"/>"), "a.xml:3: <algo> lacks the attribute \"nchunksperloop\"");
  EXPECT_EQ(read_error("<algo nchunksperloop=\"9223372036854775808\"/>"), "a.xml:1: <algo> nchunksperloop=\"9223372036854775808\" is no whole number of 64 bits");
  EXPECT_EQ(read_error("<algo nchunksperloop=\"4294967296\"/>"), "a.xml:1: <algo> nchunksperloop=\"4294967296\" must be 0 to 1048576");
  const std::string text = exchange().text();
  std::string broken = text;
  broken.replace(broken.find("type=\"cpy\""), 10, "type=\"cyp\"");
  EXPECT_EQ(read_error(broken), "a.xml:8: <step> has type=\"cyp\"; did you mean \"cpy\"?");
}

TEST(MscclXml, KeepsDialectsApart) {
  const std::string text = exchange().text();
  EXPECT_EQ(read_error(text, MscclDialect::executor), "no error");
  std::string without = text;
  without.erase(without.find(" outofplace=\"1\""), 15);
  EXPECT_EQ(read_error(without, MscclDialect::executor), "a.xml:1: <algo> lacks the attribute \"outofplace\"");
  EXPECT_EQ(read_error(without, MscclDialect::msccl), "no error");
  std::string copies = text;
  copies.insert(copies.find("<tb"), "<copy i_off=\"0\" o_off=\"0\"/>");
  EXPECT_EQ(read_error(copies, MscclDialect::executor), "a.xml:3: <copy> inside <gpu> is no element of MSCCL");
  EXPECT_EQ(read_error(copies, MscclDialect::legacy_taccl), "no error");
}

TEST(MscclXml, FindsWhereTheExecutorsReaderStops) {
  const auto spelling = [](const std::string& text) {
    std::vector<Finding> findings;
    read_msccl_xml(text, "a.xml", MscclDialect::any, findings);
    for (const Finding& finding : findings)
      if (finding.rule == "xml-spelling") return finding.where + ": " + finding.message.substr(finding.message.find(": ") + 2);
    return std::string("fine");
  };
  const std::string text = exchange().text();
  EXPECT_EQ(spelling(text), "fine");
  EXPECT_EQ(spelling("<?xml version=\"1.0\"?>\n" + text), "a.xml:1: a prolog or declaration");
  EXPECT_EQ(spelling("<!-- fine\n -->\n" + text), "fine");
  std::string changed = text;
  changed.insert(changed.find(" proto"), " ");
  EXPECT_EQ(spelling(changed), "a.xml:1: two spaces between attributes");
  changed = text;
  changed.insert(changed.find("<gpu"), "\t");
  EXPECT_EQ(spelling(changed), "a.xml:2: a tab between elements");
}

TEST(MscclXml, WritesWhatItReads) {
  const std::string text = exchange().text();
  std::vector<Finding> findings;
  std::ostringstream once, again;
  write_msccl_xml(read_msccl_xml(text, "", MscclDialect::any, findings), once);
  write_msccl_xml(read_msccl_xml(once.str(), "", MscclDialect::executor, findings), again);
  EXPECT_EQ(once.str(), again.str());
  EXPECT_TRUE(findings.empty());
}

// ------------------------------------------------------------------ export

// A ring allreduce as slackline's generator makes it.
Schedule ring(uint32_t p) {
  Schedule schedule({CollectiveType::allreduce, static_cast<int>(p), -1, true, Reduction::sum}, p);
  for (uint32_t c = 0; c < p; ++c) schedule.add_chunk({Buffer::data, c, 1});
  std::vector<uint32_t> last(p, UINT32_MAX);
  for (const auto& [op, shift] : {std::pair{TransferOp::reduce, p - 1}, std::pair{TransferOp::copy, 0U}})
    for (uint32_t step = 0; step + 1 < p; ++step)
      for (uint32_t rank = 0; rank < p; ++rank) {
        const uint32_t chunk = (rank + shift + p - step) % p;
        const auto index = static_cast<uint32_t>(schedule.size());
        schedule.add({rank, (rank + 1) % p, chunk, chunk, op, 0, std::span<const uint32_t>(&last[chunk], last[chunk] == UINT32_MAX ? 0 : 1)});
        last[chunk] = index;
      }
  return schedule;
}

TEST(MscclExport, ARingIsTakenByAllAndComesBackRight) {
  for (const char* executor : {"msccl", "azure", "rccl"}) {
    MscclExportOptions options;
    options.executor = &msccl_executor(executor);
    const Schedule original = ring(6);
    ASSERT_TRUE(validate(original).empty());
    std::ostringstream text;
    write_msccl_xml(export_msccl(original, options), text);
    std::vector<Finding> findings;
    const MscclProgram program = read_msccl_xml(text.str(), "ring.xml", MscclDialect::executor, findings);
    const MscclReport report = check_msccl(program, {}, findings);
    EXPECT_EQ(rules(report, Severity::error), "");
    EXPECT_EQ(rules(report, Severity::warning), "");
    EXPECT_EQ(report.in_place, MscclResult::right);
    EXPECT_EQ(report.one_node.progress, MscclProgress::completes);
    const Schedule again = parse_schedule_msccl(text.str(), "ring.xml");
    EXPECT_TRUE(validate(again).empty());
    EXPECT_EQ(again.size(), original.size());  // direct transfers, no FIFOs
  }
}

TEST(MscclExport, WhatSendsAheadNeedsFifos) {
  // Both ends send before they receive: as direct transfers each would wait for the other.
  const Schedule schedule = parse_schedule_msccl(eager("Simple", 2, 1).text(), "eager.xml");
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_EQ(schedule.size(), 8U);  // two sends a rank, and as many copies out of the FIFO
}

TEST(MscclExport, AWrongScheduleComesBackWrong) {
  Schedule wrong({CollectiveType::allreduce, 2, -1, true, Reduction::sum}, 1);
  wrong.add_chunk({Buffer::data, 0, 1});
  wrong.add({0, 1, 0, 0, TransferOp::reduce, 0, {}});
  wrong.add({1, 0, 0, 0, TransferOp::reduce, 0, {}});  // not after the first, and a reduction too many
  const MscclReport report = check_msccl(export_msccl(wrong, {}), {});
  EXPECT_NE(report.in_place, MscclResult::right);
}

TEST(MscclExport, SaysWhatCannotBeSaid) {
  Schedule remote({CollectiveType::broadcast, 4, 0, true, Reduction::sum}, 1);
  remote.add_chunk({Buffer::data, 0, 1});
  remote.add({0, 1, 0, 0, TransferOp::copy, 0, {}});
  const uint32_t first = 0;
  remote.add({2, 3, 0, 0, TransferOp::copy, 0, std::span<const uint32_t>(&first, 1)});
  EXPECT_EQ(error_of([&] { export_msccl(remote, {}); }),
            "MSCCL export: transfer 1 waits for transfer 0, which touches neither of its ranks; MSCCL has no way to say that");
}

TEST(MscclExport, GoesOnInAnotherBlockBeforeALimit) {
  // 100 messages to one peer are more steps than a block of azure has.
  Schedule schedule({CollectiveType::broadcast, 2, 0, true, Reduction::sum}, 100);
  for (uint32_t c = 0; c < 100; ++c) {
    schedule.add_chunk({Buffer::data, c, 1});
    schedule.add({0, 1, c, c, TransferOp::copy, 0, {}});
  }
  const MscclProgram program = export_msccl(schedule, {});
  EXPECT_EQ(program.gpus[0].blocks.size(), 2U);
  const MscclReport report = check_msccl(program, {});
  EXPECT_EQ(rules(report, Severity::error), "");
  EXPECT_EQ(report.in_place, MscclResult::right);
  EXPECT_FALSE(report.refused[1]);
}

}  // namespace
}  // namespace slackline
