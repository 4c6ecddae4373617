// slackline run: one scenario to its completion time next to its lower bound.
#include <memory>

#include "command.hpp"
#include "report/report.hpp"

namespace slackline {

namespace {

std::function<int()> add_run(CLI::App& app) {
  struct Options {
    ScenarioOptions scenario;
    std::string format = "table", out;
  };
  auto options = std::make_shared<Options>();
  add_scenario_options(app, options->scenario);
  app.add_option("--format", options->format, "table (default), csv or json")->check(CLI::IsMember({"table", "csv", "json"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    const RunResult result = run_scenario(read_scenario(options->scenario.file, options->scenario.settings));
    std::string text;
    if (options->format == "table") text = result_table(result);
    if (options->format == "csv") text = csv_header() + "\n" + csv_row(result, status_of(result)) + "\n";
    if (options->format == "json") text = result_json(result).dump(2) + "\n";
    put(options->out, text);
    return result.valid() ? 0 : 1;
  };
}

}  // namespace

const Command run_command = {"run", "Play one scenario and report its time next to the lower bound", add_run};

}  // namespace slackline
