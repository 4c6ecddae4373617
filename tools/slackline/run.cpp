// slackline run: one scenario to its completion time next to its lower bound.
#include <algorithm>
#include <memory>

#include "base/files.hpp"
#include "collectives/algorithm.hpp"
#include "command.hpp"
#include "interrupt.hpp"
#include "report/numbers.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"

namespace slackline {

namespace {

struct Options {
  ScenarioOptions scenario;
  std::string format = "table", out, trace;
  bool explain = false;
  std::vector<std::string> compare;
  double wall_limit = 0;
};

// The scenario with one algorithm after the other. One that does not apply has its reason in place of a time, and does
// not make the command fail; a wrong name does.
int compare(const ScenarioDocument& document, const Options& options, const PlayOptions& play) {
  std::vector<RunResult> results;
  std::vector<std::string> status;
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
  for (const std::string& name : options.compare)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(ErrorKind::usage, "--compare: unknown algorithm \"" + name + "\"" + suggest_name(name, names));
  for (const std::string& name : options.compare) {
    ScenarioDocument variant = document;
    set_path(variant.json, "schedule.algorithm", name, "--compare");
    variant.json["schedule"].erase("file");
    try {
      results.push_back(run_scenario(variant, play));
      status.push_back(status_of(results.back()));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      RunResult nothing;
      nothing.scenario = document.json.value("name", "");
      nothing.algorithm = name;
      results.push_back(nothing);
      status.push_back(error.message());
    }
  }
  std::string text;
  if (options.format == "table") text = comparison_table(results, status);
  if (options.format == "csv") {
    text = csv_header() + "\n";
    for (size_t i = 0; i < results.size(); ++i)
      text += (results[i].time || results[i].stopped.count() > 0 ? csv_row(results[i], status[i])
                               : csv_failure_row(results[i].scenario, std::string(to_string(results[i].collective.type)),
                                                 results[i].algorithm, status[i])) +
              "\n";
  }
  if (options.format == "json") {
    Json all = Json::array();
    for (size_t i = 0; i < results.size(); ++i)
      all.push_back(results[i].time ? result_json(results[i])
                                    : Json{{"algorithm", results[i].algorithm}, {"status", status[i]}});
    text = all.dump(2) + "\n";
  }
  put(options.out, text);
  return std::all_of(results.begin(), results.end(), [](const RunResult& result) { return result.ok(); }) ? 0 : 1;
}

std::function<int()> add_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_scenario_options(app, options->scenario);
  app.add_option("--format", options->format, "table (default), csv or json")->check(CLI::IsMember({"table", "csv", "json"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  app.add_option("--compare", options->compare, "Run the scenario with each of these algorithms and print one table")
      ->delimiter(',')
      ->type_name("NAME,NAME,..");
  app.add_option("--wall-limit", options->wall_limit, "End the simulation after so many seconds of real time")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_option("--trace", options->trace, "Write what happened to every transfer to this file, for Perfetto (Chrome's trace format)")
      ->type_name("FILE")
      ->excludes("--compare");
  app.add_flag("--explain", options->explain, "Say what the ports did, what the time was spent on, and why the bottleneck stood idle")
      ->excludes("--compare");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    keep_inputs(options->trace, {options->scenario.file});
    if (options->explain && options->format == "csv") throw Error(ErrorKind::usage, "--explain: not with --format csv, which is one row");
    if (!options->trace.empty() && options->trace == options->out) throw Error(ErrorKind::usage, "--trace and --out name the same file", options->out);
    const ScenarioDocument document = read_scenario(options->scenario.file, options->scenario.settings);
    PlayOptions play;
    play.record_times = play.record_loads = options->explain || !options->trace.empty();
    play.interrupted = interruption(options->wall_limit);
    if (!options->compare.empty()) return compare(document, *options, play);
    const RunResult result = run_scenario(document, play);
    std::string text;
    if (options->format == "table") text = result_table(result);
    if (options->format == "csv") text = csv_header() + "\n" + csv_rows(result);
    Json json = options->format == "json" ? result_json(result) : Json();
    if (options->explain && result.played) {
      const Numbers numbers = run_numbers(*result.played);
      if (options->format == "table") text += numbers_text(*result.played, numbers);
      if (options->format == "json") json["numbers"] = numbers_json(*result.played, numbers);
    }
    if (options->format == "json") text = json.dump(2) + "\n";
    put(options->out, text);
    if (!options->trace.empty() && result.played)
      write_file_atomically(options->trace, [&](std::ostream& stream) { write_trace(*result.played, stream); });
    return result.ok() ? 0 : 1;
  };
}

}  // namespace

const Command run_command = {"run", "Play one scenario and report its time next to the lower bound", add_run};

}  // namespace slackline
