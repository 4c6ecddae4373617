// slackline validate: proves a schedule right, or says what is wrong with it; of MSCCL XML also what executors make of it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "base/files.hpp"
#include "command.hpp"
#include "report/report.hpp"
#include "schedule/message_program.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/msccl_lower.hpp"
#include "schedule/mscclpp_check.hpp"
#include "schedule/schedule_io.hpp"
#include "schedule/traffic.hpp"
#include "topology/readers.hpp"

namespace slackline {

namespace {

struct Options {
  std::string schedule, scenario, topology, format = "text", out;
  std::vector<std::string> settings;
  TopologyOptions reading;
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

// A pair of ranks that exchange something, and where.
struct Pair {
  uint32_t src = 0, dst = 0;
  std::string where;
  int64_t transfer = -1;
};

// The worst kind of link on the way.
LinkKind worst(const Network& network, const Route& route) {
  LinkKind kind = LinkKind::nvlink;  // the kinds are in the order of their speeds
  for (const uint32_t link : route.links) kind = std::max(kind, network.links()[link].kind);
  return kind;
}

// What the pairs need and the network lacks: a path at all, or a link that others of the server have between them. `healthy`
// is the network before its failures, where it is known.
std::vector<Finding> check_pairs(int ranks, const std::vector<Pair>& pairs, const Network& network, const Network* healthy, std::string_view whose, const std::string& where) {
  std::vector<Finding> findings;
  if (ranks != network.ranks()) {
    findings.push_back(network_finding("network-ranks", fmt::format("the schedule is for {} ranks, and the {} has {}", ranks, whose, network.ranks())));
    findings.back().where = where;
    return findings;
  }
  const bool has_nvlinks = std::any_of(network.links().begin(), network.links().end(), [](const NetworkLink& link) { return link.kind == LinkKind::nvlink; });
  constexpr size_t most = 20;
  size_t more = 0;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const Pair& pair : pairs) {
    const auto src = static_cast<int>(pair.src), dst = static_cast<int>(pair.dst);
    if (src == dst || src >= ranks || dst >= ranks || !seen.emplace(pair.src, pair.dst).second) continue;
    const bool now = network.has_route(src, dst), before = healthy && healthy->has_route(src, dst);
    std::optional<Finding> found;
    if (!now) {
      found = before ? network_finding("network-failed", fmt::format("sends from rank {} to rank {}, between which the {}'s failures left no path", src, dst, whose))
                     : network_finding("network-route", fmt::format("sends from rank {} to rank {}, between which the {} has no path", src, dst, whose));
    } else {
      const LinkKind kind = worst(network, network.route(src, dst));
      if (before && worst(*healthy, healthy->route(src, dst)) != kind) {
        found = network_finding("network-failed", fmt::format("sends from rank {} to rank {} over a link that failed; the way left goes over {}", src, dst, to_string(kind)));
        found->severity = Severity::warning;
      } else if (has_nvlinks && network.server_of(src) == network.server_of(dst) && kind != LinkKind::nvlink) {
        found = network_finding("network-detour", fmt::format("sends from rank {} to rank {} of the same server, between which there is no NVLink; it goes over {}", src, dst, to_string(kind)));
        found->severity = Severity::warning;
      }
    }
    if (!found) continue;
    if (findings.size() == most) {
      ++more;
      continue;
    }
    found->where = pair.where;
    found->transfer = pair.transfer;
    findings.push_back(std::move(*found));
  }
  if (more > 0) findings.back().message += fmt::format(" (and {} more pairs)", more);
  return findings;
}

std::vector<Pair> pairs_of(const Schedule& schedule) {
  std::vector<Pair> pairs;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (size_t i = 0; i < schedule.size(); ++i)
    if (seen.emplace(schedule.src(i), schedule.dst(i)).second)
      pairs.push_back({schedule.src(i), schedule.dst(i), "transfer " + std::to_string(i), static_cast<int64_t>(i)});
  return pairs;
}

std::vector<Pair> pairs_of(const MscclProgram& program) {
  std::vector<Pair> pairs;
  for (const MscclGpu& gpu : program.gpus)
    for (const MscclBlock& block : gpu.blocks)
      if (block.send >= 0 && gpu.id >= 0 && std::any_of(block.steps.begin(), block.steps.end(), [](const MscclStep& step) { return sends(step.op); }))
        pairs.push_back({static_cast<uint32_t>(gpu.id), static_cast<uint32_t>(block.send), fmt::format("{}:{} gpu {} tb {}", program.file, block.line, gpu.id, block.id), -1});
  return pairs;
}

std::vector<Pair> pairs_of(const MessageProgram& program) {
  std::vector<Pair> pairs;
  for (uint32_t r = 0; r < program.ranks.size(); ++r)
    for (const MessageOp& op : program.ranks[r])
      if (op.kind == MessageOp::Kind::send) pairs.push_back({r, static_cast<uint32_t>(op.peer), op.where, -1});
  return pairs;
}

// What the topology and the scenario say about a schedule of `ranks` ranks.
struct Surroundings {
  std::optional<Network> topology;
  std::optional<Scenario> scenario;

  int ranks_per_node() const {
    return topology ? topology->ranks_per_server() : scenario ? scenario->network.ranks_per_server() : 0;
  }
  std::vector<Finding> check(int ranks, const std::vector<Pair>& pairs, std::optional<CollectiveType> type, const std::string& where) const {
    std::vector<Finding> findings;
    const auto append = [&](std::vector<Finding> more) { findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end())); };
    if (topology) append(check_pairs(ranks, pairs, *topology, nullptr, "topology", where));
    if (scenario) {
      if (type && *type != scenario->collective.type) {
        findings.push_back(network_finding("network-collective", fmt::format("the schedule is for {}, and the scenario asks for {}", to_string(*type), to_string(scenario->collective.type))));
        findings.back().where = where;
      }
      append(check_pairs(ranks, pairs, scenario->network, &scenario->healthy, "scenario's network", where));
    }
    return findings;
  }
};

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

int validate_msccl(const Options& options, std::string_view text, const Surroundings& around) {
  if (options.executor == "mscclpp") throw Error(ErrorKind::usage, "the executor mscclpp is for MSCCL++ plans, and this is MSCCL XML", options.schedule);
  MscclCheckOptions check;
  if (!options.executor.empty()) check.executor = &msccl_executor(options.executor);
  if (!options.size.empty()) check.size = parse_bytes(options.size, "--size");
  if (!options.element.empty()) check.element = parse_bytes(options.element, "--element");
  if (!options.buffer.empty()) check.buffer = parse_bytes(options.buffer, "--buffsize");
  if (check.element.count() < 1) throw Error(ErrorKind::usage, "--element must be at least 1 B");
  if (options.multiprocessors > 0) check.multiprocessors = options.multiprocessors;
  check.ranks_per_node = options.ranks_per_node;
  if (check.ranks_per_node == 0) check.ranks_per_node = around.ranks_per_node();

  std::vector<Finding> reading;
  const MscclProgram program =
      read_msccl_xml(text, options.schedule, options.dialect.empty() ? MscclDialect::any : msccl_dialect(options.dialect), reading);
  MscclReport report = check_msccl(program, check, std::move(reading));
  const std::vector<Finding> more = around.check(program.ranks, pairs_of(program), msccl_collective(program.collective), fmt::format("{}:{}", program.file, program.line));
  report.findings.insert(report.findings.end(), more.begin(), more.end());
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

int validate_mscclpp(const Options& options, std::string_view text, const Surroundings& around) {
  if (!options.dialect.empty() || !options.element.empty() || !options.buffer.empty() || options.ranks_per_node > 0)
    throw Error(ErrorKind::usage, "--dialect, --element, --buffsize and --ranks-per-node are for MSCCL XML, and this is an MSCCL++ plan", options.schedule);
  if (!options.executor.empty() && options.executor != "mscclpp") throw Error(ErrorKind::usage, "an MSCCL++ plan is for the executor mscclpp only", options.schedule);
  MscclppCheckOptions check;
  check.executor = !options.executor.empty();
  if (!options.size.empty()) check.size = parse_bytes(options.size, "--size");
  if (options.multiprocessors > 0) check.multiprocessors = options.multiprocessors;
  std::vector<Finding> reading;
  const MscclppPlan plan = read_mscclpp_plan(text, options.schedule, reading);
  MscclppReport report = check_mscclpp(plan, check, std::move(reading));
  if (report.schedule) {
    const std::vector<Finding> more = around.check(static_cast<int>(plan.gpus.size()), pairs_of(*report.schedule), msccl_collective(plan.collective), options.schedule);
    report.findings.insert(report.findings.end(), more.begin(), more.end());
  }
  const std::string placement = plan.in_place ? "in place" : "out of place";
  const Json verdict = {{"collective", plan.collective}, {"ranks", plan.gpus.size()}, {"operations", plan.ops()}, {"structure_ok", report.structure_ok},
                        {"executors", {{"mscclpp", report.verdict()}}}, {"placement", placement}, {"contents", report.contents()}};
  std::string summary = fmt::format("{}: {} on {} ranks, {} operations\n", options.schedule, plan.collective, plan.gpus.size(), plan.ops());
  summary += fmt::format("  {:<22}{}\n  {:<22}{}\n", placement, report.contents(), "executor mscclpp", report.verdict());
  return tell(options, report.findings, verdict, summary);
}

int validate_messages(const Options& options, const MessageProgram& program, const Surroundings& around) {
  MessageReport report = check_messages(program);
  const std::vector<Finding> more = around.check(static_cast<int>(program.ranks.size()), pairs_of(program), std::nullopt, options.schedule);
  report.findings.insert(report.findings.end(), more.begin(), more.end());
  const Json verdict = {{"format", program.format}, {"ranks", program.ranks.size()}, {"operations", program.ops()}, {"messages", report.messages}, {"message_bytes", report.bytes},
                        {"longest_chain", report.longest_chain}, {"ends", report.ends}, {"ends_unbuffered", report.ends_unbuffered}, {"contents", "unknown"}};
  const std::string ends = !report.ends ? "never" : report.ends_unbuffered ? "with any buffering" : "only if sends are buffered";
  return tell(options, report.findings, verdict,
              fmt::format("{}: {} on {} ranks, {} messages of {} bytes, at most {} one after the other\n  {:<22}{}\n  {:<22}{}\n", options.schedule, program.format, program.ranks.size(), report.messages,
                          report.bytes, report.longest_chain, "ends", ends, "contents", "cannot be checked: the format does not tell them"));
}

int validate_schedule(const Options& options, const Surroundings& around) {
  const Schedule schedule = read_schedule(options.schedule);
  std::vector<Finding> findings = validate(schedule);
  const auto append = [&](const std::vector<Finding>& more) { findings.insert(findings.end(), more.begin(), more.end()); };
  const Collective& collective = schedule.collective();
  if (!has_errors(findings)) {
    append(around.check(collective.ranks, pairs_of(schedule), collective.type, options.schedule));
    append(traffic_notes(schedule));
  }
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
  std::vector<std::string> executors = names(msccl_executor_names());
  executors.push_back("mscclpp");
  add_topology_options(app, options->reading);
  app.add_option("--executor", options->executor, "MSCCL: of this executor only: msccl, azure or rccl; MSCCL++: what mscclpp would not load is an error")->check(CLI::IsMember(executors));
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
    if (options->topology.empty() && options->reading.any()) throw Error(ErrorKind::usage, "--nvlinks, --compute-capability, --nic-bandwidth, --pcie-bandwidth and --servers say how --topology is read, which is not given");
    const FileContents file(options->schedule);
    const std::string_view text = file.view();
    Surroundings around;
    if (!options->topology.empty()) around.topology = build_network(read_topology_file(options->topology, options->reading.reading()).topology, {.gpus_per_server = 0, .gpus = {}, .where = options->topology});
    if (!options->scenario.empty()) around.scenario = parse_scenario(read_scenario(options->scenario, options->settings));
    if (looks_like_msccl_xml(text)) return validate_msccl(*options, text, around);
    if (looks_like_mscclpp_plan(text)) return validate_mscclpp(*options, text, around);
    if (options->any_msccl())
      throw Error(ErrorKind::usage, "--executor, --dialect, --size, --element, --buffsize, --ranks-per-node and --multiprocessors are for MSCCL XML and MSCCL++ plans, which this is not", options->schedule);
    if (looks_like_goal(text)) return validate_messages(*options, read_goal(text, options->schedule), around);
    if (looks_like_chakra(text)) return validate_messages(*options, read_chakra(options->schedule, options->schedule), around);
    const bool is_schedule = std::any_of(schedule_readers().begin(), schedule_readers().end(), [&](const ScheduleReader& reader) { return reader.recognizes(text); });
    for (const TopologyReader& reader : topology_readers())
      if (!is_schedule && reader.recognizes(text))
        throw Error(ErrorKind::input, fmt::format("is a topology ({}) and no schedule; it goes with --topology, and \"slackline topology show\" shows it", reader.name), options->schedule);
    return validate_schedule(*options, around);
  };
}

}  // namespace

const Command validate_command = {"validate", "Prove a schedule right, or say what is wrong with it", add_validate};

}  // namespace slackline
