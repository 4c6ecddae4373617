// slackline bound: every lower bound that applies to a scenario, the binding one first.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "report/report.hpp"

namespace slackline {

namespace {

std::function<int()> add_bound(CLI::App& app) {
  struct Options {
    ScenarioOptions scenario;
    std::string format = "table", out;
  };
  auto options = std::make_shared<Options>();
  add_scenario_options(app, options->scenario);
  app.add_option("--format", options->format, "table (default) or json")->check(CLI::IsMember({"table", "json"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    const Scenario scenario = parse_scenario(read_scenario(options->scenario.file, options->scenario.settings));
    const std::vector<Bound> bounds = scenario_bounds(scenario);
    put(options->out, options->format == "json" ? bounds_json(bounds).dump(2) + "\n" : bounds_table(bounds));
    return 0;
  };
}

}  // namespace

const Command bound_command = {"bound", "List every lower bound of a scenario with its certificate", add_bound};

}  // namespace slackline
