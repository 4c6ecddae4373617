// slackline generate: the schedule that an algorithm makes for a scenario, as a file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "scenario/run.hpp"
#include "schedule/schedule_io.hpp"

namespace slackline {

namespace {

std::function<int()> add_generate(CLI::App& app) {
  struct Options {
    ScenarioOptions scenario;
    std::string algorithm, out;
  };
  auto options = std::make_shared<Options>();
  std::string list = "Algorithms:\n";
  for (const Algorithm& algorithm : algorithms()) list += fmt::format("  {:<18}{}\n", algorithm.name, algorithm.summary);
  app.footer(list);
  app.add_option("algorithm", options->algorithm, "One of the algorithms below")->required()->type_name("ALGORITHM");
  app.add_option("--scenario", options->scenario.file, "The network and collective to make it for; its schedule's options "
                                                       "count where it names the same algorithm")->required()->type_name("SCENARIO.json");
  app.add_option("--set", options->scenario.settings, "Change a value of the scenario; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--out", options->out, "The schedule to write: .json or .cbor")->required()->type_name("FILE");
  return [options] {
    keep_inputs(options->out, {options->scenario.file});
    std::vector<std::string_view> names;
    for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
    if (std::find(names.begin(), names.end(), options->algorithm) == names.end())
      throw Error(ErrorKind::usage, "unknown algorithm \"" + options->algorithm + "\"" + suggest_name(options->algorithm, names));
    schedule_writer(options->out);  // a wrong extension shows before the work
    ScenarioDocument document = read_scenario(options->scenario.file, options->scenario.settings);
    Json& schedule = document.json["schedule"];
    if (!schedule.is_object() || schedule.value("algorithm", "") != options->algorithm)
      schedule = Json{{"algorithm", options->algorithm}};
    // --set counts for the algorithm at hand, also where the scenario names another.
    for (const std::string& setting : options->scenario.settings) {
      if (!setting.starts_with("schedule.")) continue;
      const size_t equals = setting.find('=');
      Json value = Json::parse(setting.substr(equals + 1), nullptr, false);
      if (value.is_discarded()) value = setting.substr(equals + 1);
      set_path(document.json, setting.substr(0, equals), value, "--set " + setting);
    }
    const Scenario scenario = parse_scenario(document);
    const Generated generated = make_schedule(document, scenario);
    write_schedule(generated.schedule, options->out);
    fmt::print("{}: {}, {} ranks, {} chunks, {} transfers\n", options->out, options->algorithm,
               generated.schedule.collective().ranks, generated.schedule.chunks().size(), generated.schedule.size());
    for (const std::string& note : generated.notes) fmt::print("  {}\n", note);
    return 0;
  };
}

}  // namespace

const Command generate_command = {"generate", "Write the schedule that an algorithm makes for a scenario", add_generate};

}  // namespace slackline
