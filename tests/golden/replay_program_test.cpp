// slackline-replay and slackline compare as a user sees them: tables, CSV, error lines, exit codes.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.hpp"
#include "base/json.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

const fs::path source = SLACKLINE_SOURCE_DIR;
const std::string replay = std::string("'") + SLACKLINE_REPLAY_PROGRAM + "' ";
const std::string slackline_program = std::string("'") + SLACKLINE_PROGRAM + "' ";
const std::string ring3 = (source / "schedules/examples/ring3.json").string();
const std::string scenario = (source / "scenarios/replay_vs_sim.json").string();

struct Outcome {
  int code;
  std::string out, err;
};

class Replay : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("slackline-replay-" + std::to_string(::getpid()));
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  Outcome run(const std::string& command) {
    const std::string out = (directory_ / "stdout").string(), err = (directory_ / "stderr").string();
    const int status = std::system(("cd '" + directory_.string() + "' && " + command + " >'" + out + "' 2>'" + err + "'").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return (directory_ / name).string();
  }
  // ring3.json after a change.
  template <class Change>
  std::string changed_ring(const std::string& name, const Change& change) {
    Json document = read_json_file(ring3);
    change(document);
    return write(name, document.dump());
  }

  fs::path directory_;
};

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }
const std::string few = " --iterations 2 --warmup 1 ";

TEST_F(Replay, PrintsTheTableOfNcclTests) {
  const Outcome outcome = run(replay + ring3 + few + "--size 1000000");
  EXPECT_EQ(outcome.code, 2) << "a size without a unit";
  const Outcome good = run(replay + ring3 + few + "--size 1MB --element float16");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.err, "");
  for (const char* part : {"allreduce on 3 ranks, 12 transfers", "size", "count", "redop", "algbw", "busbw", "#wrong", " 1000000 ",
                           " 500000 ", " float16 ", " sum ", "the median of 2"})
    EXPECT_NE(good.out.find(part), std::string::npos) << part << " is missing in\n" << good.out;
}

TEST_F(Replay, WritesCsvAndTrace) {
  const Outcome outcome = run(replay + ring3 + few + "--size 30001B --element int32 --out r.csv --trace t.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("# 30001 B were asked for"), std::string::npos);
  const std::string csv = read_file(directory_ / "r.csv");
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "scenario,collective,algorithm,ranks,servers,gpus_per_server,bytes,slowdowns,network,sharing,time_us,algbw_GBps,busbw_GBps,"
            "transfers,status,element,iterations,time_min_us,time_max_us,shape_factor,wrong");
  EXPECT_EQ(lines(csv), 2u);
  EXPECT_NE(csv.find("30004,,cpu,,"), std::string::npos);
  EXPECT_NE(csv.find(",12,ok,int32,2,"), std::string::npos);
  const Json trace = read_json_file(directory_ / "t.json");
  size_t moves = 0;
  for (const Json& event : trace.at("traceEvents")) moves += event.at("ph") == "X";
  EXPECT_EQ(moves, 12u);
}

TEST_F(Replay, RefusesAWrongScheduleUnlessForced) {
  const std::string wrong = changed_ring("wrong.json", [](Json& document) { document["transfers"].erase(11); });
  const Outcome refused = run(replay + wrong + few + "--size 1200B --out r.csv");
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("wrong.json is wrong; --force executes it all the same"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(directory_ / "r.csv"));
  const Outcome forced = run(replay + wrong + few + "--size 1200B --out r.csv --force");
  EXPECT_EQ(forced.code, 1);
  // One rank lacks a third of 300 elements, twice.
  EXPECT_NE(read_file(directory_ / "r.csv").find("200 elements wrong"), std::string::npos) << forced.out;
}

TEST_F(Replay, CannotForceWhatCannotBeExecuted) {
  const std::string broken = changed_ring("broken.json", [](Json& document) { document["transfers"][3]["dst"] = 7; });
  const Outcome outcome = run(replay + broken + few + "--size 1200B --force");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("transfer 3: there is no rank 7"), std::string::npos) << outcome.err;
}

TEST_F(Replay, BadUsageIsOneLine) {
  const auto error = [&](const std::string& arguments, int code) {
    const Outcome outcome = run(replay + arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_EQ(lines(outcome.err), 1u) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(error(ring3 + " --backend cuba", 2), "slackline-replay: --backend: there is no backend \"cuba\"; did you mean \"cuda\"?\n");
  EXPECT_EQ(error(ring3 + " --element float17", 2), "slackline-replay: --element: there is no type \"float17\"; did you mean \"float16\"?\n");
  error(ring3 + " --set a=1", 2);
  error(ring3 + " --iterations 0", 2);
  error(ring3 + " --size 0B", 2);
  error(ring3 + " --size 4000TB", 2);
  error(ring3 + " --ranks-per-gpu 2", 2);
  error("", 2);
  error("no_such_file.json", 2);
  EXPECT_NE(error(ring3 + " --shape " + scenario, 2).find("the schedule is for allreduce on 3 ranks, and the scenario is for allreduce on 5"), std::string::npos);
}

TEST_F(Replay, AskingForGpusWithoutOneIsOneLineAndExit3) {
  for (const std::string backend : {"cuda", "nccl"}) {
    const Outcome outcome = run(replay + ring3 + few + "--size 1MB --backend " + backend);
    if (outcome.code == 0 || outcome.err.find("ranks, and there is 1 process") != std::string::npos) GTEST_SKIP() << "there is a GPU";
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(lines(outcome.err), 1u) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Replay, NeedsNothingButTheSystemsLibraries) {
  const Outcome outcome = run("ldd " + replay);
  if (outcome.code != 0) GTEST_SKIP() << "no ldd";
  const std::vector<const char*> allowed = {"linux-vdso", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "ld-linux"};
  std::istringstream stream(outcome.out);
  for (std::string line; std::getline(stream, line);) {
    const bool known = std::any_of(allowed.begin(), allowed.end(), [&](const char* name) { return line.find(name) != std::string::npos; });
    EXPECT_TRUE(known) << line;
  }
}

TEST_F(Replay, ShapedRunsCompareWithSimulatedOnes) {
  const std::string settings = " --set topology.servers=3 --set 'schedule={\"algorithm\":\"ring\"}' --set collective.size=3MiB ";
  EXPECT_EQ(run(slackline_program + "generate ring --scenario " + scenario + settings + "--out ring.json").code, 0);
  EXPECT_EQ(run(slackline_program + "run " + scenario + settings + "--format csv --out sim.csv").code, 0);
  const Outcome shaped = run(replay + "ring.json --shape " + scenario + settings + "--shape-factor 1000 --iterations 3 --warmup 0 --out replay.csv");
  EXPECT_EQ(shaped.code, 0) << shaped.err;
  EXPECT_NE(shaped.out.find("paced 1000 times slower than scenario \"replay-vs-sim\""), std::string::npos) << shaped.out;
  const Outcome compared = run(slackline_program + "compare sim.csv replay.csv");
  EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
  EXPECT_EQ(lines(compared.out), 2u) << compared.out;
  EXPECT_NE(compared.out.find("0:2"), std::string::npos);
}

TEST_F(Replay, CompareSaysWhatHasNoPartner) {
  const std::string header = "scenario,collective,algorithm,ranks,bytes,slowdowns,time_us\n";
  write("sim.csv", header + "s,allreduce,ring,4,100,,10.0\ns,allreduce,optcc,4,100,0:2,20\n");
  write("replay.csv", header + ",allreduce,x.json,4,100,,11\ns,allreduce,ring,8,100,,30\n");
  const Outcome outcome = run(slackline_program + "compare sim.csv replay.csv --within 0.05");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("1.1000"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("only replayed: s: ring allreduce, 8 ranks, 100 B"), std::string::npos);
  EXPECT_NE(outcome.out.find("only simulated: s: optcc allreduce, 4 ranks, 100 B, slowdowns 0:2"), std::string::npos);
  EXPECT_EQ(run(slackline_program + "compare sim.csv replay.csv --within 0.2").code, 0);
  write("bad.csv", "a,b\n1,2\n");
  const Outcome bad = run(slackline_program + "compare sim.csv bad.csv");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.csv:1: has no column \"collective\""), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace slackline
