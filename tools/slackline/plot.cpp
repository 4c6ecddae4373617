// slackline plot: one scenario as a picture.
#include <memory>

#include "command.hpp"
#include "report/plot.hpp"
#include "report/report.hpp"

namespace slackline {

namespace {

struct Options {
  ScenarioOptions scenario;
  std::string out;
};

std::function<int()> add_plot(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_scenario_options(app, options->scenario);
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE.svg");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    const ScenarioDocument document = read_scenario(options->scenario.file, options->scenario.settings);
    const RunResult result = run_scenario(document, {.record_times = true, .record_loads = true});
    if (!result.played) throw Error(ErrorKind::input, "there is nothing to plot: " + status_of(result), options->scenario.file);
    std::string title = result.scenario + ": " + result.algorithm + ", " + std::string(to_string(result.collective.type)) + " of " +
                        to_string(result.size) + " on " + std::to_string(result.collective.ranks) + " ranks";
    if (result.time) title += ", " + show_time(*result.time);
    put(options->out, run_svg(*result.played, title));
    return 0;
  };
}

}  // namespace

const Command plot_command = {"plot", "Play one scenario and draw who sends what when, and how busy the ports are (SVG)", add_plot};

}  // namespace slackline
