// slackline sweep: every point of a scenario's grid, one CSV row each.
#include "scenario/sweep.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "report/report.hpp"

namespace slackline {

namespace {

std::string name_of(const ScenarioDocument& document) {
  const auto name = document.json.find("name");
  return name != document.json.end() && name->is_string() ? name->get<std::string>() : "";
}

std::string failure_row(const SweepPoint& point, const std::string& how) {
  const auto text = [&](const char* object, const char* key) -> std::string {
    const auto outer = point.document.json.find(object);
    if (outer == point.document.json.end() || !outer->is_object()) return "";
    const auto inner = outer->find(key);
    return inner != outer->end() && inner->is_string() ? inner->get<std::string>() : "";
  };
  return csv_failure_row(name_of(point.document), text("collective", "type"), text("schedule", "algorithm"),
                         "error: " + how + " (" + point.label + ")");
}

SweepRow run_point(const SweepPoint& point) {
  try {
    const RunResult result = run_scenario(point.document);
    return {csv_row(result, status_of(result)), !result.valid()};
  } catch (const std::exception& error) {
    return {failure_row(point, error.what()), true};
  }
}

std::function<int()> add_sweep(CLI::App& app) {
  struct Options {
    ScenarioOptions scenario;
    std::string out;
    int jobs = 1;
    bool resume = false, quiet = false;
  };
  auto options = std::make_shared<Options>();
  add_scenario_options(app, options->scenario);
  app.add_option("--out", options->out, "The table to write; rows that are finished wait in FILE.csv.partial")->required()->type_name("FILE.csv");
  app.add_option("--jobs", options->jobs, "Points to run at the same time")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_flag("--resume", options->resume, "Go on with the rows that an interrupted sweep finished");
  app.add_flag("--quiet", options->quiet, "No progress on standard error");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    const ScenarioDocument document = read_scenario(options->scenario.file, options->scenario.settings);
    const std::vector<SweepPoint> points = sweep_points(document);
    SweepJob job;
    job.header = csv_header();
    for (const SweepPoint& point : points) job.labels.push_back(point.label.empty() ? name_of(point.document) : point.label);
    job.fingerprint = "slackline sweep " SLACKLINE_VERSION " " + document.json.dump();
    job.run = [&](size_t i) { return run_point(points[i]); };
    job.crashed = [&](size_t i, const std::string& how) { return failure_row(points[i], how); };
    job.out = options->out;
    job.jobs = options->jobs;
    job.resume = options->resume;
    if (!options->quiet) job.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
    const SweepOutcome outcome = run_sweep(job);
    if (outcome.interrupted) {
      fmt::print(stderr, "slackline: interrupted; the finished rows are in {}.partial, --resume goes on from them\n", options->out);
      return 1;
    }
    if (outcome.failed > 0)
      fmt::print(stderr, "slackline: {} of {} points failed; see the column status of {}\n", outcome.failed, outcome.points, options->out);
    return outcome.failed > 0 ? 1 : 0;
  };
}

}  // namespace

const Command sweep_command = {"sweep", "Run every point of a scenario's grid into a CSV table", add_sweep};

}  // namespace slackline
