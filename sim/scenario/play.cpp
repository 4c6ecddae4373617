#include "scenario/play.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "scenario/run.hpp"

namespace slackline {

namespace {

constexpr int most_attempts = 16;

// The GPUs that any group or background traffic uses, server by server.
RankSelection all_gpus(const std::vector<const Scenario*>& groups) {
  const Scenario& first = *groups.front();
  std::vector<std::set<int>> used(first.topology.servers.size());
  for (const Scenario* group : groups) {
    const auto chosen = chosen_gpus(group->topology, group->selection);
    for (size_t s = 0; s < chosen.size(); ++s) used[s].insert(chosen[s].begin(), chosen[s].end());
  }
  for (const BackgroundTraffic& traffic : first.background) {
    used[static_cast<size_t>(traffic.from_server)].insert(traffic.from_gpu);
    used[static_cast<size_t>(traffic.to_server)].insert(traffic.to_gpu);
  }
  RankSelection all;
  all.where = first.selection.where;
  for (const std::set<int>& gpus : used) all.gpus.emplace_back(gpus.begin(), gpus.end());
  return all;
}

std::map<std::pair<int, int>, int> rank_numbers(const Scenario& scenario, const RankSelection& all) {
  std::map<std::pair<int, int>, int> numbers;
  const auto chosen = chosen_gpus(scenario.topology, all);
  for (size_t s = 0; s < chosen.size(); ++s)
    for (const int gpu : chosen[s]) numbers.emplace(std::pair(static_cast<int>(s), gpu), static_cast<int>(numbers.size()));
  return numbers;
}

Topology damaged(const Scenario& scenario, TimePoint time) {
  Topology topology = scenario.healthy_topology;
  apply_failures(topology, active_failures(scenario.failures, time));
  return topology;
}

std::string plain_name(Failure failure, const Topology& topology) {
  failure.at = TimePoint();
  failure.until = TimePoint::never();
  failure.flap_period = Duration();
  return describe(failure, topology);
}

// What begins and ends at `time`.
std::string what_happens(const Scenario& scenario, TimePoint time) {
  std::string text;
  for (const Failure& failure : scenario.failures) {
    const auto is_active = [&](TimePoint t) { return !active_failures({failure}, t).empty(); };
    const bool now = is_active(time), before = time.count() > 0 && is_active(TimePoint(time.count() - 1));
    if (now == before) continue;
    text += (text.empty() ? "" : ", ") + plain_name(failure, scenario.healthy_topology) + (now ? " failed" : " came back");
  }
  return text;
}

class Player {
 public:
  Player(const std::vector<PlayGroup>& groups, const PlayOptions& options) : groups_(groups), options_(options) {
    for (const PlayGroup& group : groups) scenarios_.push_back(&group.scenario);
    for (const PlayGroup& group : groups) ranks_.push_back(shared_ranks(scenarios_, group.scenario));
  }

  PlayOutcome run() {
    PlayOutcome outcome{{network_at(TimePoint())->clone(), {}, {}}, {}, {}, 1};
    const RecoveryPolicy policy = recovery().policy;
    for (const PlayGroup& group : groups_)
      add_group(outcome, group.scenario, group.generated->schedule, group.generated->segments, group.scenario.size);
    if (policy == RecoveryPolicy::none || policy == RecoveryPolicy::reroute) {
      merge(outcome, play_from(outcome, 0, TimePoint(), TimePoint::never()), TimePoint());
      return outcome;
    }
    TimePoint start;
    size_t first = 0;  // of the present attempt's groups
    std::vector<Bytes> sizes;
    for (const PlayGroup& group : groups_) sizes.push_back(group.scenario.size);
    while (true) {
      const TimePoint failure = next_failure(outcome, first, start);
      const TimePoint known = failure == TimePoint::never() ? failure : failure + recovery().detection;
      const SimulateResult result = play_from(outcome, first, start, known);
      const std::vector<Bytes> rest = rests(outcome, first, result, sizes);
      merge(outcome, result, start);
      if (result.status != PlayStatus::cut) return outcome;
      outcome.run.result.detection = outcome.run.result.detection + recovery().detection;
      if (policy == RecoveryPolicy::restart)
        outcome.discarded = outcome.discarded + (failure - start);
      else
        sizes = rest;
      start = known + recovery().planning;
      outcome.planning = outcome.planning + recovery().planning;
      if (outcome.attempts == most_attempts) {
        outcome.run.result.status = PlayStatus::stalled;
        outcome.run.result.waiting = {"given up after " + std::to_string(most_attempts) + " attempts: something fails again before any of them ends, last " +
                                      what_happens(scenario(), failure) + " at " + to_string(failure - TimePoint())};
        return outcome;
      }
      ++outcome.attempts;
      outcome.run.result.recording.instants.push_back({start, "attempt " + std::to_string(outcome.attempts) + " starts"});
      first = outcome.run.groups.size();
      std::string reason;
      if (!plan(outcome, start, sizes, reason)) {
        outcome.run.result.status = PlayStatus::stalled;
        outcome.run.result.waiting = {what_happens(scenario(), failure) + " at " + to_string(failure - TimePoint()) +
                                      "; no schedule can be made for what is left: " + reason};
        outcome.run.result.time = start - TimePoint();
        return outcome;
      }
    }
  }

 private:
  const Scenario& scenario() const { return *scenarios_.front(); }
  const Recovery& recovery() const { return scenario().recovery; }

  void add_group(PlayOutcome& outcome, const Scenario& of, Schedule schedule, int64_t segments, Bytes size) const {
    const size_t index = outcome.run.groups.size() % groups_.size();
    PlayedGroup played;
    played.name = of.group;
    if (outcome.attempts > 1) played.name += (played.name.empty() ? "" : ", ") + ("attempt " + std::to_string(outcome.attempts));
    played.layout = MessageLayout(size, of.element, schedule.units());
    played.schedule = std::move(schedule);
    played.segments = segments;
    played.ranks = ranks_[index];
    played.stragglers = of.network.stragglers();
    outcome.run.groups.push_back(std::move(played));
  }

  // Plays the groups from `first` on, which begin at `start`, and stops at `stop`.
  SimulateResult play_from(const PlayOutcome& outcome, size_t first, TimePoint start, TimePoint stop) {
    std::vector<PlayedJob> jobs;
    for (size_t i = first; i < outcome.run.groups.size(); ++i) {
      const PlayedGroup& group = outcome.run.groups[i];
      jobs.push_back({group.schedule, group.layout, group.ranks, start == TimePoint() ? scenarios_[i - first]->arrivals : std::vector<Duration>()});
    }
    SimulateOptions options;
    options.sharing = scenario().sharing;
    const bool replans = recovery().policy == RecoveryPolicy::replan;
    options.record_times = options_.record_times || replans;
    options.record_loads = options_.record_loads;
    options.interrupted = options_.interrupted;
    if (stop != TimePoint::never()) options.stop_at = TimePoint() + (stop - start);
    if (scenario().every_nic && has_timed(scenario().failures))
      options.changes = [this, start](TimePoint after) -> std::optional<NetworkState> {
        const TimePoint change = next_change(scenario().failures, start + (after - TimePoint()));
        if (change == TimePoint::never()) return std::nullopt;
        return NetworkState{TimePoint() + (change - start), network_at(change), what_happens(scenario(), change)};
      };
    options.reroute = recovery().policy == RecoveryPolicy::reroute;
    options.detection = recovery().detection;
    options.migration = recovery().migration;
    options.acknowledged_chunk = recovery().acknowledged_chunk;
    if (!scenario().background.empty()) {
      const auto numbers = rank_numbers(scenario(), all_gpus(scenarios_));
      for (const BackgroundTraffic& traffic : scenario().background) {
        if (traffic.until <= start) continue;
        options.background.push_back({numbers.at({traffic.from_server, traffic.from_gpu}), numbers.at({traffic.to_server, traffic.to_gpu}),
                                      traffic.rate, traffic.at <= start ? TimePoint() : TimePoint() + (traffic.at - start),
                                      traffic.until == TimePoint::never() ? traffic.until : TimePoint() + (traffic.until - start)});
      }
    }
    return simulate(*network_at(start), jobs, options);
  }

  // The network at a time. What flaps has few states, and many changes between them.
  std::shared_ptr<const Network> network_at(TimePoint time) {
    std::vector<char> active;
    for (const Failure& failure : scenario().failures) active.push_back(active_failures({failure}, time).empty() ? 0 : 1);
    if (states_.size() > 64) states_.clear();
    std::shared_ptr<const Network>& state = states_[active];
    if (!state) state = std::make_shared<const Network>(shared_network(scenarios_, time));
    return state;
  }

  // Adds what was played from `start` on.
  void merge(PlayOutcome& outcome, SimulateResult result, TimePoint start) const {
    SimulateResult& all = outcome.run.result;
    const Duration shift = start - TimePoint();
    const auto append = [&](std::vector<TimePoint>& to, const std::vector<TimePoint>& from) {
      for (const TimePoint time : from) to.push_back(time == TimePoint::never() ? time : time + shift);
    };
    Recording& recording = all.recording;
    if (options_.record_times) {
      append(recording.started, result.recording.started);
      append(recording.released, result.recording.released);
      append(recording.ended, result.recording.ended);
      recording.limited_by.insert(recording.limited_by.end(), result.recording.limited_by.begin(), result.recording.limited_by.end());
      for (const Recording::Instant& instant : result.recording.instants) recording.instants.push_back({instant.time + shift, instant.what});
    }
    for (const Recording::Load& load : result.recording.loads) recording.loads.push_back({load.time + shift, load.link, load.load});
    if (all.links.empty()) all.links.resize(result.links.size());
    for (size_t i = 0; i < result.links.size(); ++i) {
      all.links[i].bytes = Bytes(all.links[i].bytes.count() + result.links[i].bytes.count());
      all.links[i].busy = all.links[i].busy + result.links[i].busy;
    }
    all.status = result.status;
    all.time = result.time + shift;
    all.jobs = std::move(result.jobs);
    for (Duration& job : all.jobs) job = job + shift;
    all.finished = std::move(result.finished);
    all.events += result.events;
    all.lost = Bytes(all.lost.count() + result.lost.count());
    all.detection = all.detection + result.detection;
    all.resending = all.resending + result.resending;
    all.waiting = std::move(result.waiting);
  }

  // The first time after `start` at which a link that the attempt uses has less than at its start, and still has when that is
  // known.
  TimePoint next_failure(const PlayOutcome& outcome, size_t first, TimePoint start) {
    if (!has_timed(scenario().failures)) return TimePoint::never();
    const std::shared_ptr<const Network> before = network_at(start);
    std::set<uint32_t> used;
    std::set<std::pair<int, int>> pairs;
    for (size_t i = first; i < outcome.run.groups.size(); ++i) {
      const PlayedGroup& group = outcome.run.groups[i];
      for (size_t t = 0; t < group.schedule.size(); ++t)
        pairs.emplace(group.ranks[group.schedule.src(t)], group.ranks[group.schedule.dst(t)]);
    }
    for (const auto& [from, to] : pairs) {
      if (from == to) continue;
      const Route& route = before->route(from, to);
      used.insert(route.links.begin(), route.links.end());
      if (before->reduction_link(to) >= 0) used.insert(static_cast<uint32_t>(before->reduction_link(to)));
    }
    TimePoint time = start;
    for (int change = 0; change < 100'000; ++change) {
      time = next_change(scenario().failures, time);
      if (time == TimePoint::never()) return time;
      const auto worse = [&](const Network& after) {
        return std::any_of(used.begin(), used.end(), [&](uint32_t link) { return after.links()[link].capacity < before->links()[link].capacity; });
      };
      if (worse(*network_at(time)) && worse(*network_at(time + recovery().detection))) return time;
    }
    return TimePoint::never();
  }

  // What of each group's message some rank has not got yet: the units that a transfer touches that has not ended.
  std::vector<Bytes> rests(const PlayOutcome& outcome, size_t first, const SimulateResult& result, const std::vector<Bytes>& sizes) const {
    std::vector<Bytes> rest = sizes;
    if (recovery().policy != RecoveryPolicy::replan || result.status != PlayStatus::cut) return rest;
    size_t flow = 0;
    for (size_t i = first; i < outcome.run.groups.size(); ++i) {
      const PlayedGroup& group = outcome.run.groups[i];
      const Schedule& schedule = group.schedule;
      if (moves_between_positions(schedule)) {
        flow += schedule.size();
        continue;  // what lies where cannot be told from the transfers: all is done again
      }
      std::vector<char> open(static_cast<size_t>(schedule.units()), 0);
      for (size_t t = 0; t < schedule.size(); ++t, ++flow) {
        if (result.recording.ended[flow] != TimePoint::never()) continue;
        const Chunk& chunk = schedule.chunks()[schedule.dst_chunk(t)];
        std::fill_n(open.begin() + chunk.offset, chunk.length, 1);
      }
      int64_t bytes = 0;
      for (int64_t unit = 0; unit < schedule.units(); ++unit)
        if (open[static_cast<size_t>(unit)]) bytes += group.layout.offset(unit + 1) - group.layout.offset(unit);
      rest[i - first] = Bytes(bytes);
    }
    return rest;
  }

  // Schedules for what the failures leave at `start`.
  bool plan(PlayOutcome& outcome, TimePoint start, const std::vector<Bytes>& sizes, std::string& reason) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      Scenario now = copy_at(*scenarios_[i], start, reason);
      if (now.network.ranks() == 0) return false;
      if (sizes[i].count() == 0) {
        Schedule nothing(now.collective, 1);
        add_group(outcome, now, std::move(nothing), 1, Bytes(0));
        continue;
      }
      now.size = sizes[i];
      try {
        ScenarioDocument document = groups_[i].document;
        if (const Json& recovery = document.json.at("recovery"); recovery.contains("schedule")) {
          const Json schedule = recovery.at("schedule");
          document.json["schedule"] = schedule;
        }
        Generated made = make_schedule(document, now);
        add_group(outcome, now, std::move(made.schedule), made.segments, sizes[i]);
      } catch (const Error& error) {
        reason = error.what();
        return false;
      }
    }
    return true;
  }

  static Scenario copy_at(const Scenario& from, TimePoint time, std::string& reason) {
    Scenario now;
    now.name = from.name;
    now.group = from.group;
    now.topology = damaged(from, time);
    now.selection = from.selection;
    now.collective = from.collective;
    now.size = from.size;
    now.element = from.element;
    now.model = from.model;
    now.sharing = from.sharing;
    now.fabric = from.fabric;
    try {
      now.network = build_network(now.topology, now.selection);
    } catch (const Error& error) {
      reason = error.message();
    }
    return now;
  }

  const std::vector<PlayGroup>& groups_;
  PlayOptions options_;
  std::vector<const Scenario*> scenarios_;
  std::vector<std::vector<int>> ranks_;
  std::map<std::vector<char>, std::shared_ptr<const Network>> states_;  // by which failures are in effect
};

}  // namespace

Network shared_network(const std::vector<const Scenario*>& groups, TimePoint time, bool healthy) {
  const Scenario& first = *groups.front();
  if (!first.every_nic) return healthy ? first.healthy.clone() : first.network.clone();
  return build_fabric_network(healthy ? first.healthy_topology : damaged(first, time), all_gpus(groups), first.fabric);
}

std::vector<int> shared_ranks(const std::vector<const Scenario*>& groups, const Scenario& group) {
  std::vector<int> ranks;
  if (!group.every_nic) {
    for (int rank = 0; rank < group.network.ranks(); ++rank) ranks.push_back(rank);
    return ranks;
  }
  const auto numbers = rank_numbers(group, all_gpus(groups));
  const auto chosen = chosen_gpus(group.topology, group.selection);
  for (size_t s = 0; s < chosen.size(); ++s)
    for (const int gpu : chosen[s]) ranks.push_back(numbers.at({static_cast<int>(s), gpu}));
  return ranks;
}

PlayOutcome play(const std::vector<PlayGroup>& groups, const PlayOptions& options) { return Player(groups, options).run(); }

}  // namespace slackline
