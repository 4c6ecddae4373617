// The command line as a user sees it: outputs, error lines, exit codes, files that are or are not written.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

const std::string program = SLACKLINE_PROGRAM;
const fs::path source = SLACKLINE_SOURCE_DIR;
const std::string one_nic_down = (source / "scenarios/one_nic_down.json").string();
// Enough of the shipped scenario to run in no time.
const std::string quick = " --set topology.servers=4 --set collective.size=1MiB --set schedule.segments=8 ";

struct Outcome {
  int code;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("slackline-cli-" + std::to_string(::getpid()));
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  Outcome run(const std::string& arguments) {
    const std::string out = (directory_ / "stdout").string(), err = (directory_ / "stderr").string();
    const std::string command = "cd '" + directory_.string() + "' && '" + program + "' " + arguments + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }
  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = directory_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  fs::path directory_;
};

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

TEST_F(Cli, RunPrintsEverythingAPersonNeeds) {
  const Outcome outcome = run("run " + one_nic_down + quick);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string part : {"allreduce of 1 MiB on 4 ranks", "NIC 0 of server 0", "rank 0 by 8/7", "optcc, 8 segments",
                                 "proven right", "algbw", "busbw", "lower bound", "theorem 1", "slack", "fault-free ring", "overhead"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is missing in\n" << outcome.out;
}

TEST_F(Cli, CsvHasTheDocumentedColumns) {
  const Outcome outcome = run("run " + one_nic_down + quick + "--format csv");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream stream(outcome.out);
  std::string header, row;
  std::getline(stream, header);
  std::getline(stream, row);
  EXPECT_EQ(header,
            "scenario,collective,algorithm,ranks,servers,gpus_per_server,bytes,segments,slowdowns,network,sharing,time_us,algbw_GBps,"
            "busbw_GBps,bound_us,bound,slack,fault_free_us,overhead,transfers,events,group,recovery,undisturbed_us,detection_us,resending_us,"
            "planning_us,discarded_us,lost_bytes,attempts,status");
  EXPECT_TRUE(row.starts_with("one-nic-down,allreduce,optcc,4,4,1,1048576,8,0:8/7,flow,fair,")) << row;
  EXPECT_TRUE(row.ends_with(",ok")) << row;
}

TEST_F(Cli, SameInputSameBytes) {
  const std::string arguments = "run " + one_nic_down + quick + "--format json";
  EXPECT_EQ(run(arguments).out, run(arguments).out);
  const std::string sweep = "sweep " + one_nic_down + quick +
                            R"(--set 'sweep={"failures.0.nics":[1,4],"topology.servers":[3,5],"schedule.algorithm":["ring","optcc"]}' )";
  ASSERT_EQ(run(sweep + "--out one.csv").code, 0);
  ASSERT_EQ(run(sweep + "--out three.csv --jobs 3").code, 0);
  const std::string one = read_file(directory_ / "one.csv");
  EXPECT_EQ(one, read_file(directory_ / "three.csv"));
  EXPECT_EQ(lines(one), 9U);
  EXPECT_FALSE(fs::exists(directory_ / "one.csv.partial"));
}

TEST_F(Cli, SweepResumesFromItsFinishedRows) {
  // Thirty points that take some time each, interrupted while some but not all are done.
  std::string axis;
  for (int servers = 20; servers < 50; ++servers) axis += (axis.empty() ? "" : ",") + std::to_string(servers);
  const std::string arguments = "sweep " + one_nic_down + " --set schedule.segments=48 --set 'sweep={\"topology.servers\":[" + axis + "]}' ";
  size_t finished = 0;
  for (double seconds = 0.2; finished == 0 && seconds < 30; seconds *= 2) {
    const std::string command = "cd '" + directory_.string() + "' && timeout -s INT " + std::to_string(seconds) + " '" + program + "' " +
                                arguments + "--out t.csv 2>err";
    const int status = std::system(command.c_str());
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "finished before it was interrupted";
    EXPECT_FALSE(fs::exists(directory_ / "t.csv"));
    finished = lines(read_file(directory_ / "t.csv.partial")) - 1;
  }
  ASSERT_GT(finished, 0U);
  // Mark a finished row, to see it again.
  std::string journal = read_file(directory_ / "t.csv.partial");
  const size_t row = journal.find("\tok\tone-nic-down,");
  ASSERT_NE(row, std::string::npos);
  journal.replace(row, 16, "\tok\tkept-as-it-is");
  write("t.csv.partial", journal + "29\tok\tcut sho");  // the last write was cut off
  ASSERT_EQ(run(arguments + "--out t.csv --resume --quiet").code, 0);
  EXPECT_FALSE(fs::exists(directory_ / "t.csv.partial"));
  ASSERT_EQ(run(arguments + "--out whole.csv --quiet").code, 0);
  std::string resumed = read_file(directory_ / "t.csv");
  const size_t kept = resumed.find("kept-as-it-is,");
  ASSERT_NE(kept, std::string::npos);
  resumed.replace(kept, 13, "one-nic-down");
  EXPECT_EQ(resumed, read_file(directory_ / "whole.csv"));

  write("t.csv.partial", "some other sweep\n0\tok\tx\n");
  const Outcome refused = run(arguments + "--out t.csv --resume");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("another scenario"), std::string::npos) << refused.err;
}

TEST_F(Cli, OneBadRowLeavesTheOthersAlone) {
  const Outcome outcome = run("sweep " + one_nic_down + quick + R"(--set 'sweep={"failures.0.nics":[1,8,9,2]}' --out t.csv --quiet)");
  EXPECT_EQ(outcome.code, 1);
  std::istringstream stream(read_file(directory_ / "t.csv"));
  std::vector<std::string> rows;
  for (std::string row; std::getline(stream, row);) rows.push_back(row);
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_TRUE(rows[1].ends_with(",ok")) << rows[1];
  EXPECT_NE(rows[2].find("no living NIC"), std::string::npos) << rows[2];
  EXPECT_NE(rows[3].find("9 cannot fail"), std::string::npos) << rows[3];
  EXPECT_TRUE(rows[4].ends_with(",ok")) << rows[4];
}

TEST_F(Cli, GenerateValidateRunAFile) {
  for (const std::string extension : {"json", "cbor"}) {
    const std::string file = "s." + extension;
    ASSERT_EQ(run("generate optcc --scenario " + one_nic_down + quick + "--out " + file).code, 0);
    const Outcome valid = run("validate " + file + " --scenario " + one_nic_down + quick);
    EXPECT_EQ(valid.code, 0) << valid.out << valid.err;
    const Outcome direct = run("run " + one_nic_down + quick + "--format csv");
    const Outcome from_file = run("run " + one_nic_down + quick + "--format csv --set 'schedule={\"file\":\"" + (directory_ / file).string() + "\"}'");
    EXPECT_EQ(from_file.code, 0) << from_file.err;
    // The same time, whichever way the schedule came.
    const auto time = [](const std::string& csv) {
      std::istringstream row(csv.substr(csv.find('\n') + 1));
      std::string field;
      for (int i = 0; i < 12; ++i) std::getline(row, field, ',');
      return field;
    };
    EXPECT_EQ(time(from_file.out), time(direct.out));
  }
  const Outcome other = run("validate s.json --scenario " + one_nic_down);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("network-ranks"), std::string::npos) << other.out;
}

// A NIC dies on the way: 4 servers of 2 GPUs, both groups at once.
const std::string drill = (source / "scenarios/drills/one_nic.json").string() +
                          " --set topology.servers=4 --set topology.gpus_per_server=2 --set topology.nics_per_server=2 --set collective.size=64MiB "
                          "--set schedule.segments=8 --set 'failures=[{\"server\":3,\"nics\":[1],\"at\":\"1 ms\"}]' ";

TEST_F(Cli, StalledRunsSayWhatWaits) {
  const Outcome stalled = run("run " + drill);
  EXPECT_EQ(stalled.code, 1);
  EXPECT_NE(stalled.out.find("STALLED"), std::string::npos) << stalled.out;
  EXPECT_NE(stalled.out.find("waits for network"), std::string::npos) << stalled.out;
  const Outcome csv = run("run " + drill + " --format csv");
  EXPECT_NE(csv.out.find("stalled: "), std::string::npos) << csv.out;
  EXPECT_EQ(lines(csv.out), 4u);  // header, all, two groups
  const Outcome moved = run("run " + drill + " --set recovery.policy=reroute");
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_NE(moved.out.find("until failures were known and flows moved"), std::string::npos) << moved.out;
}

TEST_F(Cli, ExplainTraceAndPlot) {
  const Outcome outcome = run("run " + drill + " --set recovery.policy=reroute --explain --trace t.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string part : {"bottleneck", "critical path", "standing still on a dead link", "idle because"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is missing in\n" << outcome.out;
  const std::string trace = read_file((directory_ / "t.json").string());
  EXPECT_NE(trace.find("NIC 1 of server 3 failed"), std::string::npos);
  const Outcome plot = run("plot " + drill + " --set recovery.policy=replan --out p.svg");
  EXPECT_EQ(plot.code, 0) << plot.err;
  EXPECT_NE(read_file((directory_ / "p.svg").string()).find("</svg>"), std::string::npos);
}

TEST_F(Cli, WallLimitEndsARun) {
  const Outcome outcome = run("run " + one_nic_down + " --set topology.servers=64 --wall-limit 0.2");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("INTERRUPTED"), std::string::npos) << outcome.out;
}

TEST_F(Cli, WrongScheduleIsFoundAndNotPlayed) {
  ASSERT_EQ(run("generate ring --scenario " + one_nic_down + quick + "--out s.json").code, 0);
  std::string text = read_file(directory_ / "s.json");
  const size_t at = text.find("\"op\":\"reduce\"") != std::string::npos ? text.find("\"op\":\"reduce\"") : text.find("\"op\": \"reduce\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(text.find("reduce", at), 6, "copy");
  write("wrong.json", text);
  const Outcome outcome = run("validate wrong.json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("wrong-result"), std::string::npos) << outcome.out;
  const Outcome played = run("run " + one_nic_down + quick + "--set 'schedule={\"file\":\"" + (directory_ / "wrong.json").string() + "\"}'");
  EXPECT_EQ(played.code, 1);
  EXPECT_NE(played.out.find("INVALID"), std::string::npos) << played.out;
}

struct BadInput {
  std::string settings, expected;
  friend std::ostream& operator<<(std::ostream& stream, const BadInput& input) { return stream << input.settings; }
};

class BadScenario : public Cli, public ::testing::WithParamInterface<BadInput> {};

TEST_P(BadScenario, OneLineWithPointerExit2NoFile) {
  write("out.csv", "untouched");
  const Outcome outcome = run("run " + one_nic_down + " --format csv --out out.csv " + GetParam().settings);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(lines(outcome.err), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find(GetParam().expected), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(directory_ / "out.csv"), "untouched");
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadScenario,
    ::testing::Values(
        BadInput{"--set colective.size=1", "/colective: unknown key \"colective\"; did you mean \"collective\"?"},
        BadInput{"--set topology.nics_per_sever=8", "/topology/nics_per_sever: unknown key"},
        BadInput{"--set schedule.segmnts=8", "did you mean \"segments\"?"},
        BadInput{"--set collective.size=8", "/collective/size: must be a string with a unit"},
        BadInput{"--set 'collective.size=\"8\"'", "/collective/size: \"8\" has no unit"},
        BadInput{"--set 'collective.size=8 Gb'", "unknown unit \"Gb\""},
        BadInput{"--set 'collective.size=99999999 TiB'", "too large"},
        BadInput{"--set 'collective.size=0 B'", "/collective/size: a message has at least 1 byte"},
        BadInput{"--set topology.servers=0", "/topology/servers: must be a whole number from 1"},
        BadInput{"--set topology.servers=1", "at least 2 ranks"},
        BadInput{"--set topology.servers=1.5", "/topology/servers: must be a whole number"},
        BadInput{"--set failures.0.nics=9", "/failures/0: server 0 has 8 NICs"},
        BadInput{"--set failures.0.nics=8", "no living NIC"},
        BadInput{"--set failures.0.server=16", "/failures/0: server 16 does not exist"},
        BadInput{"--set 'failures.0={\"server\":0,\"slowdown\":\"1/2\"}'", "/failures/0/slowdown: a slowdown is at least 1"},
        BadInput{"--set 'failures.0={\"server\":0,\"slowdown\":1.5}'", "/failures/0/slowdown: must be an exact fraction"},
        BadInput{"--set ranks.gpus_per_server=9", "/ranks/gpus_per_server: must be a whole number from 1 to 8"},
        BadInput{"--set 'ranks={\"gpus\":[0,12]}'", "/ranks/gpus: server 0 has no GPU 12"},
        BadInput{"--set collective.root=3", "/collective/root: an allreduce has no root"},
        BadInput{"--set collective.type=allredoce", "did you mean \"allreduce\"?"},
        BadInput{"--set schedule.algorithm=optc", "/schedule/algorithm: unknown algorithm \"optc\"; did you mean \"optcc\"?"},
        BadInput{"--set schedule.segments=0", "/schedule/segments: must be a whole number from 1"},
        BadInput{"--set schedule.segments=lots", "/schedule/segments"},
        BadInput{"--set network.sharing=fare", "did you mean \"fair\"?"},
        BadInput{"--set 'topology.nic_bandwidth=0 GB/s'", "/topology/nic_bandwidth: a rate must be above 0"},
        BadInput{"--set 'topology.nic_latency=-2 us'", "/topology/nic_latency"},
        BadInput{"--set 'topology={\"file\":\"nowhere.json\"}'", "/topology/file: there is no file"},
        BadInput{"--set 'schedule={\"file\":\"nowhere.json\"}'", "/schedule/file: there is no file"},
        BadInput{"--set nonsense", "write PATH=VALUE"},
        BadInput{"--set name.x=1", "\"name\" is a plain value"}));

TEST_F(Cli, UnreadableFiles) {
  EXPECT_EQ(run("run nowhere.json").code, 2);
  write("cut.json", R"({"name": "x", "topology": {)");
  const Outcome cut = run("run cut.json");
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.err.find("cut.json:1: not valid JSON"), std::string::npos) << cut.err;
  EXPECT_EQ(lines(cut.err), 1U);
  EXPECT_EQ(run("run .").code, 2);
  EXPECT_EQ(run("frobnicate").code, 2);
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("run " + one_nic_down + quick + "--out /nowhere/x.csv").code, 2);
  EXPECT_EQ(run("generate ring --scenario " + one_nic_down + " --out s.txt").code, 2);
  EXPECT_FALSE(fs::exists(directory_ / "s.txt"));
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("--version").out, SLACKLINE_VERSION "\n");
}

TEST_F(Cli, BoundListsTheBindingOneFirst) {
  const Outcome outcome = run("bound " + one_nic_down);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.substr(0, outcome.out.find('\n')).find("theorem 1"), std::string::npos) << outcome.out;
  EXPECT_EQ(run("bound " + one_nic_down + " --format json").code, 0);
}

}  // namespace
}  // namespace slackline
