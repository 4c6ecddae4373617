#include "scenario/run.hpp"

#include <algorithm>
#include <deque>

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
  const MessageLayout layout(scenario.size, scenario.element, network.ranks());
  const auto time = [&](const Schedule& schedule) {
    return simulate(network, schedule, MessageLayout(scenario.size, scenario.element, schedule.units()), {.sharing = scenario.sharing}).time;
  };
  const GenerateRequest request{network,          scenario.collective, scenario.size, scenario.element,
                                scenario.sharing, JsonCursor(options, "fault-free ring"), time};
  const auto ring = std::find_if(algorithms().begin(), algorithms().end(),
                                 [](const Algorithm& algorithm) { return algorithm.name == "ring"; });
  if (ring->inapplicable(request)) return std::nullopt;
  if (!is_star(network)) return time(ring->generate(request).schedule);
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
  constexpr size_t most = 12;
  std::vector<std::string> lines;
  for (const Failure& failure : scenario.failures) {
    if (lines.size() == most) {
      lines.push_back("and " + std::to_string(scenario.failures.size() - most) + " more");
      break;
    }
    lines.push_back(describe(failure, scenario.healthy_topology));
  }
  if (!scenario.background.empty()) lines.push_back("other traffic: " + std::to_string(scenario.background.size()) + (scenario.background.size() == 1 ? " flow" : " flows"));
  Duration latest;
  for (const Duration arrival : scenario.arrivals) latest = std::max(latest, arrival);
  if (latest.count() > 0) lines.push_back("ranks are late, the last of them by " + std::to_string(static_cast<double>(latest.count()) * 1e-9) + " ms");
  return lines;
}

bool disturbed(const Scenario& scenario) {
  return has_timed(scenario.failures) || !scenario.arrivals.empty() || !scenario.background.empty();
}

// Whether schedules for one group are right for the other: they ask for the same on networks that look the same.
bool alike(const PlayGroup& a, const PlayGroup& b) {
  for (const char* key : {"collective", "schedule"})
    if (a.document.json.at(key) != b.document.json.at(key)) return false;
  const Network& x = a.scenario.network;
  const Network& y = b.scenario.network;
  if (x.ranks() != y.ranks() || x.links().size() != y.links().size() || x.vertices().size() != y.vertices().size()) return false;
  for (int rank = 0; rank < x.ranks(); ++rank)
    if (x.slowdown(rank) != y.slowdown(rank)) return false;
  return std::equal(x.links().begin(), x.links().end(), y.links().begin(), [](const NetworkLink& p, const NetworkLink& q) {
    return p.from == q.from && p.to == q.to && p.capacity == q.capacity && p.latency == q.latency && p.kind == q.kind && p.count == q.count;
  });
}

// The whole of the servers that any group uses, in groups that are alike: then a rank's share of the NICs is what all groups
// together leave to each on average, and the bounds of one group on shares hold for the last group to end.
bool cover_servers(const std::vector<PlayGroup>& groups) {
  const Scenario& first = groups.front().scenario;
  std::vector<size_t> used(first.topology.servers.size(), 0);
  for (const PlayGroup& group : groups) {
    if (group.scenario.size != first.size || group.scenario.collective != first.collective) return false;
    const auto chosen = chosen_gpus(group.scenario.topology, group.scenario.selection);
    const auto of_first = chosen_gpus(first.topology, first.selection);
    for (size_t s = 0; s < chosen.size(); ++s) {
      if (chosen[s].size() != of_first[s].size()) return false;
      used[s] += chosen[s].size();
    }
  }
  for (size_t s = 0; s < used.size(); ++s)
    if (used[s] != 0 && used[s] != first.topology.servers[s].gpus.size()) return false;
  return true;
}

// Of a network whose every NIC counts; what breaks later or is mended counts as whole.
std::vector<Bound> fabric_bounds(const Scenario& scenario) {
  Topology best = scenario.healthy_topology;
  apply_failures(best, lasting_failures(scenario.failures));
  FabricOptions options = scenario.fabric;
  options.reductions = false;
  return lower_bounds({build_fabric_network(best, scenario.selection, options), scenario.collective, scenario.size, scenario.element});
}

void check_grain(const ScenarioDocument& document, const Scenario& scenario, const Schedule& schedule) {
  const int64_t grain = scenario.element.count();
  if (moves_between_positions(schedule) &&
      (scenario.size.count() % grain != 0 || scenario.size.count() / grain % schedule.units() != 0))
    throw Error(ErrorKind::input,
                "this schedule moves data between positions of the message, and so needs a size that is a multiple of its " +
                    std::to_string(schedule.units()) + " units of whole elements of " + to_string(scenario.element) + "; " +
                    to_string(scenario.size) + " is not",
                document.file + ": /collective/size");
}

// All groups at once with the schedules given, on the network at the start or a sound one, undisturbed.
std::optional<Duration> play_quietly(const std::vector<PlayGroup>& groups, bool healthy) {
  std::vector<const Scenario*> scenarios;
  for (const PlayGroup& group : groups) scenarios.push_back(&group.scenario);
  std::vector<MessageLayout> layouts;
  for (const PlayGroup& group : groups) layouts.emplace_back(group.scenario.size, group.scenario.element, group.generated->schedule.units());
  std::vector<PlayedJob> jobs;
  for (size_t i = 0; i < groups.size(); ++i)
    jobs.push_back({groups[i].generated->schedule, layouts[i], shared_ranks(scenarios, groups[i].scenario), {}});
  SimulateOptions options;
  options.sharing = groups.front().scenario.sharing;
  return simulate(shared_network(scenarios, TimePoint(), healthy), jobs, options).time;
}

// The ring of every group on the sound network, all at once.
std::optional<Duration> rings_time(const std::vector<PlayGroup>& groups) {
  if (!groups.front().scenario.every_nic) return ring_time(groups.front().scenario, groups.front().scenario.healthy);
  const auto ring = std::find_if(algorithms().begin(), algorithms().end(), [](const Algorithm& algorithm) { return algorithm.name == "ring"; });
  const Json options = {{"algorithm", "ring"}};
  std::vector<PlayGroup> rings;
  for (const PlayGroup& group : groups) {
    const Scenario& scenario = group.scenario;
    const GenerateRequest request{scenario.healthy, scenario.collective, scenario.size, scenario.element, scenario.sharing, JsonCursor(options, "fault-free ring"), {}};
    if (ring->inapplicable(request)) return std::nullopt;
    rings.push_back({group.document, scenario, std::make_shared<const Generated>(ring->generate(request))});
  }
  return play_quietly(rings, true);
}

// What is known of a group before it is played.
RunResult describe_group(const PlayGroup& group) {
  const Scenario& scenario = group.scenario;
  RunResult result;
  result.scenario = scenario.name;
  result.group = scenario.group;
  result.collective = scenario.collective;
  result.servers = scenario.network.servers();
  result.gpus_per_server = scenario.network.ranks_per_server();
  result.size = scenario.size;
  result.model = scenario.model;
  result.every_nic = scenario.every_nic;
  result.sharing = scenario.sharing;
  for (const int rank : scenario.network.stragglers()) result.slowdowns.emplace_back(rank, scenario.network.slowdown(rank));
  const Json& options = group.document.json.at("schedule");
  result.algorithm = options.contains("file") ? fs::path(options.at("file").get<std::string>()).filename().string()
                                              : options.at("algorithm").get<std::string>();
  result.recovery = std::string(to_string(scenario.recovery.policy));
  for (const Duration arrival : scenario.arrivals) result.latest_arrival = std::max(result.latest_arrival, arrival);
  return result;
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

RunResult run_scenario(const ScenarioDocument& document, const PlayOptions& options) {
  const std::vector<ScenarioDocument> documents = group_documents(document);
  std::deque<Scenario> scenarios;  // whose networks cannot be copied
  for (const ScenarioDocument& group : documents) scenarios.push_back(parse_scenario(group));
  std::vector<PlayGroup> groups;
  for (size_t i = 0; i < documents.size(); ++i) groups.push_back({documents[i], scenarios[i]});

  std::vector<RunResult> results;
  for (size_t i = 0; i < groups.size(); ++i) {
    RunResult result = describe_group(groups[i]);
    size_t like = 0;
    while (like < i && !alike(groups[like], groups[i])) ++like;
    if (like < i) {
      groups[i].generated = groups[like].generated;
      result.findings = results[like].findings;
    } else {
      groups[i].generated = std::make_shared<const Generated>(make_schedule(documents[i], scenarios[i]));
      result.findings = validate(groups[i].generated->schedule);
    }
    result.segments = groups[i].generated->segments;
    result.notes = groups[i].generated->notes;
    result.transfers = groups[i].generated->schedule.size();
    results.push_back(std::move(result));
  }

  const Scenario& first = scenarios.front();
  RunResult total = results.front();
  if (results.size() > 1) {
    total.group = "all";
    total.notes.clear();
    for (size_t i = 1; i < results.size(); ++i) {
      total.transfers += results[i].transfers;
      total.latest_arrival = std::max(total.latest_arrival, results[i].latest_arrival);
      if (total.valid()) total.findings = results[i].findings;
    }
  }
  total.topology = describe_topology(first);
  total.failures = describe_failures(first);
  if (first.every_nic && (results.size() == 1 || !cover_servers(groups))) {
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].bounds = fabric_bounds(scenarios[i]);
      if (total.bounds.empty() || results[i].bounds.front().time > total.bounds.front().time) total.bounds = results[i].bounds;
    }
  } else {
    total.bounds = scenario_bounds(first);
  }
  if (!total.valid()) return total;
  for (const PlayGroup& group : groups) check_grain(group.document, group.scenario, group.generated->schedule);

  PlayOutcome outcome = play(groups, options);
  const SimulateResult& played = outcome.run.result;
  total.status = played.status;
  if (played.status == PlayStatus::finished) total.time = played.time;
  total.stopped = played.time;
  total.events = played.events;
  total.detection = played.detection;
  total.resending = played.resending;
  total.lost = played.lost;
  total.planning = outcome.planning;
  total.discarded = outcome.discarded;
  total.attempts = outcome.attempts;
  total.waiting = played.waiting;
  for (size_t i = 0; i < results.size(); ++i) {
    if (played.finished[i] && played.status == PlayStatus::finished) results[i].time = played.jobs[i];
    results[i].status = total.status;
  }
  if (results.size() > 1) total.groups = std::move(results);
  if (options.record_times || options.record_loads) total.played = std::make_shared<const PlayedRun>(std::move(outcome.run));
  if (played.status == PlayStatus::interrupted) return total;
  if (total.disturbed = disturbed(first); total.disturbed) total.undisturbed = play_quietly(groups, false);
  // The ring on a sound network is its own standard.
  if (total.algorithm == "ring" && first.failures.empty() && !total.disturbed && total.groups.empty())
    total.fault_free = total.time;
  else
    total.fault_free = rings_time(groups);
  return total;
}

}  // namespace slackline
