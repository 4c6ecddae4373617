#include "scenario/run.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/ring.hpp"
#include "fabric/simulate.hpp"
#include "schedule/list_timing.hpp"
#include "schedule/schedule_io.hpp"

namespace slackline {

namespace fs = std::filesystem;

namespace {

double busbw_factor(const Collective& collective) {
  const double ranks = collective.ranks;
  switch (collective.type) {
    case CollectiveType::allreduce: return 2 * (ranks - 1) / ranks;
    case CollectiveType::broadcast:
    case CollectiveType::reduce: return 1;
    default: return (ranks - 1) / ranks;
  }
}

// Whether no two transfers of a ring ever meet on a link, so that ListTiming is exact: every rank has one way
// out and one way in.
bool is_star(const Network& network) {
  for (int rank = 0; rank < network.ranks(); ++rank)
    if (network.out_links(rank).size() != 1 || network.in_links(rank).size() != 1) return false;
  return true;
}

std::optional<Duration> ring_time(const Scenario& scenario, const Network& network) {
  const Json options = {{"algorithm", "ring"}};
  const GenerateRequest request{network,          scenario.collective, scenario.size, scenario.element,
                                scenario.sharing, JsonCursor(options, "fault-free ring"), {}};
  const auto ring = std::find_if(algorithms().begin(), algorithms().end(),
                                 [](const Algorithm& algorithm) { return algorithm.name == "ring"; });
  if (ring->inapplicable(request)) return std::nullopt;
  const MessageLayout layout(scenario.size, scenario.element, network.ranks());
  if (!is_star(network)) return simulate(network, ring->generate(request).schedule, layout, {.sharing = scenario.sharing}).time;
  std::vector<Chunk> chunks;
  for (int64_t c = 0; c < network.ranks(); ++c) chunks.push_back({Buffer::data, c, 1});
  ListTiming timing(network, layout, chunks);
  emit_ring(scenario.collective, ring_orders(network, 1), timing);
  return timing.completion() - TimePoint();
}

std::string describe_topology(const Scenario& scenario) {
  const Topology& topology = scenario.topology;
  size_t gpus = 0, nics = 0;
  for (const TopologyServer& server : topology.servers) {
    gpus += server.gpus.size();
    nics += server.nics.size();
  }
  const auto count = [](size_t n, const std::string& word) { return std::to_string(n) + " " + word + (n == 1 ? "" : "s"); };
  std::string text = topology.name + ": " + count(topology.servers.size(), "server") + ", " + count(gpus, "GPU") + ", " + count(nics, "NIC");
  const Network& network = scenario.healthy;
  Bandwidth fastest;
  for (const NetworkLink& link : network.links())
    if (link.kind == LinkKind::network) fastest = std::max(fastest, link.capacity);
  if (fastest.count() > 0) text += "; " + to_string(fastest) + " of NIC a rank each way";
  return text;
}

std::vector<std::string> describe_failures(const Scenario& scenario) {
  std::vector<std::string> lines;
  for (const Failure& failure : scenario.failures) {
    std::string text = "server " + std::to_string(failure.server) + ": ";
    const size_t nics = scenario.topology.servers[static_cast<size_t>(failure.server)].nics.size();
    const size_t dead = static_cast<size_t>(failure.nic_count) + failure.nic_indices.size();
    std::vector<std::string> parts;
    if (dead > 0 || (failure.slowdown == Fraction(1) && failure.nvlink.empty()))
      parts.push_back(std::to_string(dead) + " of " + std::to_string(nics) + " NICs dead");
    if (failure.slowdown > Fraction(1)) parts.push_back("NICs slower by " + failure.slowdown.to_string());
    if (!failure.nvlink.empty()) {
      std::string ends = "NVLinks of GPU " + std::to_string(failure.nvlink[0]);
      if (failure.nvlink.size() == 2) ends += " to GPU " + std::to_string(failure.nvlink[1]);
      if (failure.nvlink_count > 0)
        parts.push_back(std::to_string(failure.nvlink_count) + " of the " + ends + " dead");
      else if (failure.nvlink_remaining == Fraction(0))
        parts.push_back(ends + " dead");
      else
        parts.push_back(ends + " at " + failure.nvlink_remaining.to_string() + " of their bandwidth");
    }
    for (size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? ", " : "") + parts[i];
    lines.push_back(text);
  }
  return lines;
}

}  // namespace

double RunResult::algbw_bytes_per_second() const {
  return time && time->count() > 0 ? static_cast<double>(size.count()) / (static_cast<double>(time->count()) * 1e-12) : 0;
}

double RunResult::busbw_bytes_per_second() const { return algbw_bytes_per_second() * busbw_factor(collective); }

std::optional<double> RunResult::slack() const {
  if (!time || bounds.empty() || bounds.front().time.count() <= 0) return std::nullopt;
  return static_cast<double>(time->count()) / static_cast<double>(bounds.front().time.count()) - 1;
}

std::optional<double> RunResult::overhead() const {
  if (!time || !fault_free || fault_free->count() <= 0) return std::nullopt;
  return static_cast<double>(time->count()) / static_cast<double>(fault_free->count()) - 1;
}

std::vector<Bound> scenario_bounds(const Scenario& scenario) {
  return lower_bounds({scenario.network, scenario.collective, scenario.size, scenario.element});
}

Generated make_schedule(const ScenarioDocument& document, const Scenario& scenario) {
  const JsonCursor options = JsonCursor(document.json, document.file).at("schedule");
  if (options.has("file") && options.has("algorithm")) options.fail("needs either \"algorithm\" or \"file\", not both");
  if (const auto file = options.find("file")) {
    options.expect_object({"file"});
    fs::path path = document.directory / file->string();
    if (!fs::exists(path) && fs::exists(file->string())) path = file->string();
    if (!fs::exists(path)) file->fail("there is no file \"" + path.string() + "\"");
    Generated result;
    result.schedule = read_schedule(path);
    const Collective& has = result.schedule.collective();
    if (has.type != scenario.collective.type)
      file->fail("the schedule is for " + std::string(to_string(has.type)) + ", not " + std::string(to_string(scenario.collective.type)));
    if (has.ranks != scenario.network.ranks())
      file->fail("the schedule is for " + std::to_string(has.ranks) + " ranks, and the scenario has " + std::to_string(scenario.network.ranks()));
    if (has_root(has.type) && has.root != scenario.collective.root)
      file->fail("the schedule's root is rank " + std::to_string(has.root) + ", the scenario's is rank " + std::to_string(scenario.collective.root));
    return result;
  }
  if (!options.has("algorithm")) options.fail("needs \"algorithm\" or \"file\"");
  const auto time = [&](const Schedule& schedule) {
    const MessageLayout layout(scenario.size, scenario.element, schedule.units());
    return simulate(scenario.network, schedule, layout, {.sharing = scenario.sharing}).time;
  };
  return generate({scenario.network, scenario.collective, scenario.size, scenario.element, scenario.sharing, options, time});
}

RunResult run_scenario(const ScenarioDocument& document, const RunOptions& run_options) {
  const Scenario scenario = parse_scenario(document);
  RunResult result;
  result.scenario = scenario.name;
  result.collective = scenario.collective;
  result.servers = scenario.network.servers();
  result.gpus_per_server = scenario.network.ranks_per_server();
  result.size = scenario.size;
  result.model = scenario.model;
  result.sharing = scenario.sharing;
  for (const int rank : scenario.network.stragglers()) result.slowdowns.emplace_back(rank, scenario.network.slowdown(rank));
  result.topology = describe_topology(scenario);
  result.failures = describe_failures(scenario);

  Generated generated = make_schedule(document, scenario);
  const Json& options = document.json.at("schedule");
  result.algorithm = options.contains("file") ? fs::path(options.at("file").get<std::string>()).filename().string()
                                              : options.at("algorithm").get<std::string>();
  result.segments = generated.segments;
  result.notes = generated.notes;
  result.transfers = generated.schedule.size();
  result.bounds = scenario_bounds(scenario);
  result.findings = validate(generated.schedule);
  if (!result.valid()) return result;
  const int64_t grain = scenario.element.count();
  if (moves_between_positions(generated.schedule) &&
      (scenario.size.count() % grain != 0 || scenario.size.count() / grain % generated.schedule.units() != 0))
    throw Error(ErrorKind::input,
                "this schedule moves data between positions of the message, and so needs a size that is a multiple of its " +
                    std::to_string(generated.schedule.units()) + " units of whole elements of " + to_string(scenario.element) + "; " +
                    to_string(scenario.size) + " is not",
                document.file + ": /collective/size");

  const MessageLayout layout(scenario.size, scenario.element, generated.schedule.units());
  SimulateOptions play_options{.sharing = scenario.sharing};
  play_options.record_times = run_options.record_times;
  play_options.record_loads = run_options.record_loads;
  SimulateResult played = simulate(scenario.network, generated.schedule, layout, play_options);
  result.time = played.time;
  result.events = played.events;
  if (run_options.record_times || run_options.record_loads) {
    PlayedRun run{scenario.network.clone(), {}, std::move(played)};
    std::vector<int> ranks(static_cast<size_t>(scenario.network.ranks()));
    std::iota(ranks.begin(), ranks.end(), 0);
    run.groups.push_back({result.algorithm, std::move(generated.schedule), result.segments, layout, std::move(ranks),
                          scenario.network.stragglers()});
    result.played = std::make_shared<const PlayedRun>(std::move(run));
  }
  // The ring on a sound network is its own standard.
  if (result.algorithm == "ring" && scenario.failures.empty())
    result.fault_free = result.time;
  else
    result.fault_free = ring_time(scenario, scenario.healthy);
  return result;
}

}  // namespace slackline
