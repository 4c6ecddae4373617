// Schedules of all generators as MSCCL XML and back: the verdict is the same and the simulated time within 1 %.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.hpp"
#include "scenario/run.hpp"
#include "scenarios.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/msccl_export.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* schedule;
  int servers;
  const char* slowdown;
};

TEST(MscclExportTime, ComesBackWithTheSameVerdictAndTime) {
  const fs::path file = fs::temp_directory_path() / "slackline_msccl_export_time_test.xml";
  for (const Case& c : {Case{R"({"algorithm": "ring"})", 4, "1"}, Case{R"({"algorithm": "ring"})", 8, "1"}, Case{R"({"algorithm": "ring"})", 8, "4/3"},
                        Case{R"({"algorithm": "optcc", "segments": 4})", 5, "4/3"}, Case{R"({"algorithm": "optcc", "segments": 8})", 8, "2"},
                        Case{R"({"algorithm": "nccl_tree", "chunk": "4 MiB"})", 8, "1"},
                        Case{R"({"algorithm": "recursive_halving_doubling"})", 8, "1"}}) {
    StarScenario scenario;
    scenario.servers = c.servers;
    scenario.slowdown = c.slowdown;
    scenario.size = "252 MiB";  // whole units for all of them: 63 * 4 MiB
    scenario.latency = "1 us";
    scenario.overhead = "20 ns";
    scenario.schedule = c.schedule;
    SCOPED_TRACE(std::string(c.schedule) + " on " + std::to_string(c.servers) + " servers, slowdown " + c.slowdown);
    // The executors, and so what comes back, want a whole number of elements in every unit; about 256 MiB.
    const ScenarioDocument any_size = scenario.document();
    const int64_t units = make_schedule(any_size, parse_scenario(any_size)).schedule.units();
    scenario.size = std::to_string((int64_t{64} << 20) / units * units * 4) + " B";
    const ScenarioDocument document = scenario.document();
    const RunResult original = run_scenario(document);
    ASSERT_TRUE(original.time.has_value());

    const Schedule schedule = make_schedule(document, parse_scenario(document)).schedule;
    const MscclProgram program = export_msccl(schedule, {.executor = &msccl_executor("msccl"), .protocol = MscclProtocol::simple, .min_bytes = 0, .max_bytes = 0});
    const MscclReport report = check_msccl(program, {});
    EXPECT_EQ(report.verdict(0), "right");
    write_file_atomically(file, [&](std::ostream& stream) { write_msccl_xml(program, stream); });

    scenario.schedule = R"({"file": ")" + file.string() + R"("})";
    const RunResult again = run_scenario(scenario.document());
    EXPECT_TRUE(again.valid());
    ASSERT_TRUE(again.time.has_value());
    const double ratio = static_cast<double>(again.time->count()) / static_cast<double>(original.time->count());
    EXPECT_NEAR(ratio, 1.0, 0.01);
  }
  fs::remove(file);
}

}  // namespace
}  // namespace slackline
