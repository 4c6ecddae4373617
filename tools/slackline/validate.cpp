// slackline validate: proves a schedule right, or says what is wrong with it.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "command.hpp"
#include "report/report.hpp"
#include "schedule/schedule_io.hpp"

namespace slackline {

namespace {

// What the schedule needs and the scenario's network lacks.
std::vector<Finding> check_network(const Schedule& schedule, const Scenario& scenario) {
  std::vector<Finding> findings;
  const auto add = [&](std::string_view rule, const std::string& message) {
    Finding finding;
    finding.rule = rule;
    finding.message = message;
    findings.push_back(finding);
  };
  if (schedule.collective().ranks != scenario.network.ranks()) {
    add("network-ranks", fmt::format("the schedule is for {} ranks, and the scenario's network has {}",
                                     schedule.collective().ranks, scenario.network.ranks()));
    return findings;
  }
  if (schedule.collective().type != scenario.collective.type)
    add("network-collective", fmt::format("the schedule is for {}, and the scenario asks for {}",
                                          to_string(schedule.collective().type), to_string(scenario.collective.type)));
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (size_t i = 0; i < schedule.size(); ++i) {
    const uint32_t src = schedule.src(i), dst = schedule.dst(i);
    if (src == dst || !seen.emplace(src, dst).second || scenario.network.has_route(static_cast<int>(src), static_cast<int>(dst))) continue;
    add("network-route", fmt::format("there is no path from rank {} to rank {} in the scenario's network", src, dst));
    findings.back().transfer = static_cast<int64_t>(i);
    findings.back().where = "transfer " + std::to_string(i);
  }
  return findings;
}

std::function<int()> add_validate(CLI::App& app) {
  struct Options {
    std::string schedule, scenario, format = "text", out;
    std::vector<std::string> settings;
  };
  auto options = std::make_shared<Options>();
  app.add_option("schedule", options->schedule, "Schedule file (schedules/README.md)")->required()->type_name("SCHEDULE");
  app.add_option("--scenario", options->scenario, "Also check that this scenario's network can carry it")->type_name("SCENARIO.json");
  app.add_option("--set", options->settings, "Change a value of the scenario; repeatable")->type_name("PATH=VALUE")->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--format", options->format, "text (default) or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    if (options->scenario.empty() && !options->settings.empty()) throw Error(ErrorKind::usage, "--set needs --scenario");
    const Schedule schedule = read_schedule(options->schedule);
    std::vector<Finding> findings = validate(schedule);
    if (!options->scenario.empty() && !has_errors(findings)) {
      const auto more = check_network(schedule, parse_scenario(read_scenario(options->scenario, options->settings)));
      findings.insert(findings.end(), more.begin(), more.end());
    }
    const bool wrong = has_errors(findings);
    if (options->format == "json") {
      put(options->out, Json{{"schedule", options->schedule}, {"valid", !wrong}, {"findings", findings_json(findings)}}.dump(2) + "\n");
    } else {
      const Collective& collective = schedule.collective();
      std::string text = findings_text(findings);
      text += fmt::format("{}: {} ({} on {} ranks, {} transfers)\n", options->schedule,
                          wrong ? "WRONG" : "right under every order that it allows", to_string(collective.type), collective.ranks,
                          schedule.size());
      put(options->out, text);
    }
    return wrong ? 1 : 0;
  };
}

}  // namespace

const Command validate_command = {"validate", "Prove a schedule right, or say what is wrong with it", add_validate};

}  // namespace slackline
