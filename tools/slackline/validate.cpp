// slackline validate: proves a schedule right, or says what is wrong with it; of MSCCL XML also what executors make of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/files.hpp"
#include "command.hpp"
#include "report/report.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/schedule_io.hpp"
#include "topology/readers.hpp"

namespace slackline {

namespace {

struct Options {
  std::string schedule, scenario, topology, format = "text", out;
  std::vector<std::string> settings;
  std::string executor, dialect, size, element, buffer;
  int ranks_per_node = 0, multiprocessors = 0;

  bool any_msccl() const {
    return !executor.empty() || !dialect.empty() || !size.empty() || !element.empty() || !buffer.empty() || ranks_per_node > 0 || multiprocessors > 0;
  }
};

Finding network_finding(std::string_view rule, std::string message) {
  Finding finding;
  finding.rule = rule;
  finding.message = std::move(message);
  return finding;
}

// What the schedule needs and the network lacks.
std::vector<Finding> check_network(const Schedule& schedule, const Network& network, std::string_view whose) {
  std::vector<Finding> findings;
  if (schedule.collective().ranks != network.ranks()) {
    findings.push_back(network_finding("network-ranks", fmt::format("the schedule is for {} ranks, and the {}'s network has {}",
                                                                    schedule.collective().ranks, whose, network.ranks())));
    return findings;
  }
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (size_t i = 0; i < schedule.size(); ++i) {
    const uint32_t src = schedule.src(i), dst = schedule.dst(i);
    if (src == dst || !seen.emplace(src, dst).second || network.has_route(static_cast<int>(src), static_cast<int>(dst))) continue;
    findings.push_back(network_finding("network-route", fmt::format("there is no path from rank {} to rank {} in the {}'s network", src, dst, whose)));
    findings.back().transfer = static_cast<int64_t>(i);
    findings.back().where = "transfer " + std::to_string(i);
  }
  return findings;
}

std::vector<Finding> check_network(const MscclProgram& program, const Network& network) {
  std::vector<Finding> findings;
  const auto place = [&](int32_t line, const std::string& what) { return fmt::format("{}:{} {}", program.file, line, what); };
  if (program.ranks != network.ranks()) {
    findings.push_back(network_finding("network-ranks", fmt::format("the schedule is for {} ranks, and the topology has {}", program.ranks, network.ranks())));
    findings.back().where = fmt::format("{}:{}", program.file, program.line);
    return findings;
  }
  for (const MscclGpu& gpu : program.gpus) {
    for (const MscclBlock& block : gpu.blocks) {
      const bool used = std::any_of(block.steps.begin(), block.steps.end(), [](const MscclStep& step) { return sends(step.op); });
      if (!used || block.send < 0 || block.send >= network.ranks() || gpu.id >= network.ranks() || block.send == gpu.id || network.has_route(gpu.id, block.send)) continue;
      findings.push_back(network_finding("network-route", fmt::format("sends to rank {}, to which the topology has no path", block.send)));
      findings.back().where = place(block.line, fmt::format("gpu {} tb {}", gpu.id, block.id));
    }
  }
  return findings;
}

// The static analysis results interchange format 2.1.0 (OASIS), for editors and code hosts.
Json sarif(const std::vector<Finding>& findings, const std::string& file) {
  Json rules = Json::array(), results = Json::array();
  std::set<std::string> known;
  for (const Finding& finding : findings) {
    const std::string rule(finding.rule);
    if (known.insert(rule).second) rules.push_back({{"id", rule}, {"helpUri", "schedules/README.md#" + rule}});
    std::string text = finding.where.empty() ? finding.message : finding.where + ": " + finding.message;
    for (const std::string& step : finding.witness) text += "\n" + step;
    Json location = {{"artifactLocation", {{"uri", file}}}};
    // "file:12 gpu ..."
    if (finding.where.starts_with(file + ":")) {
      const int line = std::atoi(finding.where.c_str() + file.size() + 1);
      if (line > 0) location["region"] = {{"startLine", line}};
    }
    const std::string_view level = finding.severity == Severity::error ? "error" : finding.severity == Severity::warning ? "warning" : "note";
    results.push_back({{"ruleId", rule},
                       {"level", level},
                       {"message", {{"text", text}}},
                       {"locations", Json::array({Json{{"physicalLocation", location}}})}});
  }
  const Json driver = {{"name", "slackline"}, {"version", SLACKLINE_VERSION}, {"rules", rules}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", Json::array({Json{{"tool", {{"driver", driver}}}, {"results", results}}})}};
}

int tell(const Options& options, const std::vector<Finding>& findings, const Json& verdict, const std::string& summary) {
  const bool wrong = has_errors(findings);
  if (options.format == "sarif") {
    put(options.out, sarif(findings, options.schedule).dump(2) + "\n");
  } else if (options.format == "json") {
    Json json = {{"schedule", options.schedule}, {"valid", !wrong}};
    for (const auto& [key, value] : verdict.items()) json[key] = value;
    json["findings"] = findings_json(findings);
    put(options.out, json.dump(2) + "\n");
  } else {
    put(options.out, findings_text(findings) + summary);
  }
  return wrong ? 1 : 0;
}

Json fifo_json(const MscclFifoVerdict& verdict) {
  Json json = {{"progress", to_string(verdict.progress)}};
  if (verdict.progress == MscclProgress::needs_capacity) json["needed_calls"] = verdict.needed_calls;
  if (verdict.largest_safe_size) {
    json["least_chunks_per_call"] = verdict.least_chunks_per_call;
    json["largest_safe_bytes"] = verdict.largest_safe_size->count();
  }
  return json;
}

std::string fifo_text(const MscclFifoVerdict& verdict) {
  switch (verdict.progress) {
    case MscclProgress::completes: return "ends for every size";
    case MscclProgress::completes_small: return fmt::format("ends up to {} ({} bytes), hangs above", to_string(*verdict.largest_safe_size), verdict.largest_safe_size->count());
    case MscclProgress::needs_capacity: return fmt::format("hangs; needs FIFOs of {} calls", verdict.needed_calls);
    case MscclProgress::never: return "never ends";
    case MscclProgress::unknown: break;
  }
  return "not known";
}

int validate_msccl(const Options& options, std::string_view text, const std::optional<Network>& network) {
  MscclCheckOptions check;
  if (!options.executor.empty()) check.executor = &msccl_executor(options.executor);
  if (!options.size.empty()) check.size = parse_bytes(options.size, "--size");
  if (!options.element.empty()) check.element = parse_bytes(options.element, "--element");
  if (!options.buffer.empty()) check.buffer = parse_bytes(options.buffer, "--buffsize");
  if (check.element.count() < 1) throw Error(ErrorKind::usage, "--element must be at least 1 B");
  if (options.multiprocessors > 0) check.multiprocessors = options.multiprocessors;
  check.ranks_per_node = options.ranks_per_node;
  if (check.ranks_per_node == 0 && network) check.ranks_per_node = network->ranks_per_server();

  std::vector<Finding> reading;
  const MscclProgram program =
      read_msccl_xml(text, options.schedule, options.dialect.empty() ? MscclDialect::any : msccl_dialect(options.dialect), reading);
  MscclReport report = check_msccl(program, check, std::move(reading));
  if (network) {
    std::vector<Finding> more = check_network(program, *network);
    report.findings.insert(report.findings.begin(), more.begin(), more.end());
  }
  Json executors = Json::object();
  std::string verdicts;
  for (size_t e = 0; e < msccl_executor_names().size(); ++e) {
    const std::string name(msccl_executor_names()[e]);
    executors[name] = report.verdict(e);
    if (!options.executor.empty() && options.executor != name) continue;
    verdicts += fmt::format("  {:<22}{}\n", "on " + name, report.verdict(e));
  }
  const bool map_known = check.ranks_per_node > 0;
  Json verdict = {{"collective", program.collective}, {"ranks", program.ranks}, {"steps", program.steps()}, {"structure_ok", report.structure_ok},
                  {"executors", executors}, {"in_place", to_string(report.in_place)}, {"out_of_place", to_string(report.out_of_place)}};
  if (map_known) {
    verdict["fifos"] = fifo_json(report.one_node);
  } else {
    verdict["fifos_one_node"] = fifo_json(report.one_node);
    verdict["fifos_all_nodes"] = fifo_json(report.all_nodes);
  }
  std::string summary = fmt::format("{}: {} on {} ranks, {} steps\n", options.schedule, program.collective.empty() ? "no collective" : program.collective, program.ranks, program.steps());
  const auto line = [&](std::string_view name, const std::string& value) { summary += fmt::format("  {:<22}{}\n", name, value); };
  if (map_known) {
    line(fmt::format("FIFOs, {} ranks a node", check.ranks_per_node), fifo_text(report.one_node));
  } else {
    line("FIFOs, one node", fifo_text(report.one_node));
    line("FIFOs, all nodes", fifo_text(report.all_nodes));
  }
  line("in place", std::string(to_string(report.in_place)));
  line("out of place", std::string(to_string(report.out_of_place)));
  summary += verdicts;
  return tell(options, report.findings, verdict, summary);
}

int validate_schedule(const Options& options, const std::optional<Network>& network) {
  if (options.any_msccl())
    throw Error(ErrorKind::usage, "--executor, --dialect, --size, --element, --buffsize, --ranks-per-node and --multiprocessors are for MSCCL XML, which this is not", options.schedule);
  const Schedule schedule = read_schedule(options.schedule);
  std::vector<Finding> findings = validate(schedule);
  const auto append = [&](const std::vector<Finding>& more) { findings.insert(findings.end(), more.begin(), more.end()); };
  if (network) append(check_network(schedule, *network, "topology"));
  if (!options.scenario.empty() && !has_errors(findings)) {
    const Scenario scenario = parse_scenario(read_scenario(options.scenario, options.settings));
    if (schedule.collective().type != scenario.collective.type)
      append({network_finding("network-collective", fmt::format("the schedule is for {}, and the scenario asks for {}",
                                                                to_string(schedule.collective().type), to_string(scenario.collective.type)))});
    append(check_network(schedule, scenario.network, "scenario"));
  }
  const Collective& collective = schedule.collective();
  return tell(options, findings, Json::object(),
              fmt::format("{}: {} ({} on {} ranks, {} transfers)\n", options.schedule,
                          has_errors(findings) ? "WRONG" : "right under every order that it allows", to_string(collective.type), collective.ranks,
                          schedule.size()));
}

std::function<int()> add_validate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  const auto names = [](std::span<const std::string_view> list) { return std::vector<std::string>(list.begin(), list.end()); };
  app.add_option("schedule", options->schedule, "Schedule file (schedules/README.md)")->required()->type_name("SCHEDULE");
  app.add_option("--scenario", options->scenario, "Also check that this scenario's network can carry it")->type_name("SCENARIO.json");
  app.add_option("--set", options->settings, "Change a value of the scenario; repeatable")->type_name("PATH=VALUE")->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--topology", options->topology, "Also check that this topology has the ranks and the paths")->type_name("FILE");
  app.add_option("--executor", options->executor, "MSCCL: of this executor only: msccl, azure or rccl")->check(CLI::IsMember(names(msccl_executor_names())));
  app.add_option("--dialect", options->dialect, "MSCCL: auto (default), executor, msccl or legacy-taccl")->check(CLI::IsMember(names(msccl_dialect_names())));
  app.add_option("--size", options->size, "MSCCL: will it be used for this message size, and does it hang?")->type_name("SIZE");
  app.add_option("--element", options->element, "MSCCL: of the message; default 4 B")->type_name("SIZE");
  app.add_option("--buffsize", options->buffer, "MSCCL: of a connection; default the executor's")->type_name("SIZE");
  app.add_option("--ranks-per-node", options->ranks_per_node, "MSCCL: ranks 0 to N-1 share a node, and so on; FIFOs between nodes hold twice as much")
      ->type_name("N")->check(CLI::Range(1, 1 << 20));
  app.add_option("--multiprocessors", options->multiprocessors, "MSCCL: of a GPU; default 108 (A100)")->type_name("N")->check(CLI::Range(1, 1 << 20));
  app.add_option("--format", options->format, "text (default), json or sarif")->check(CLI::IsMember({"text", "json", "sarif"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    if (options->scenario.empty() && !options->settings.empty()) throw Error(ErrorKind::usage, "--set needs --scenario");
    std::optional<Network> network;
    if (!options->topology.empty()) network = build_network(read_topology_file(options->topology).topology, {.gpus_per_server = 0, .gpus = {}, .where = options->topology});
    const std::string text = read_file(options->schedule);
    if (!looks_like_msccl_xml(text)) return validate_schedule(*options, network);
    if (!options->scenario.empty()) throw Error(ErrorKind::usage, "--scenario is not for MSCCL XML; use --topology, or convert it first");
    return validate_msccl(*options, text, network);
  };
}

}  // namespace

const Command validate_command = {"validate", "Prove a schedule right, or say what is wrong with it", add_validate};

}  // namespace slackline
