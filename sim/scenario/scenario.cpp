#include "scenario/scenario.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <random>
#include <span>

#include "scenario/failures.hpp"
#include "topology/builders.hpp"

namespace slackline {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::optional<size_t> index(const std::string& text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

RankSelection parse_ranks(const std::optional<JsonCursor>& ranks, const Topology& topology, const std::string& file) {
  RankSelection selection;
  selection.where = file + ": /ranks";
  if (!ranks) return selection;
  if (const auto groups = ranks->find("groups")) groups->fail("several groups are for `slackline run` and `sweep` only");
  ranks->expect_object({"gpus_per_server", "gpus"});
  if (ranks->has("gpus_per_server") == ranks->has("gpus"))
    ranks->fail("needs either \"gpus_per_server\" (a number) or \"gpus\" (a list of GPUs, or one list per server)");
  if (const auto count = ranks->find("gpus_per_server")) {
    size_t most = 0;
    for (const TopologyServer& server : topology.servers) most = std::max(most, server.gpus.size());
    selection.gpus_per_server = static_cast<int>(count->integer(1, static_cast<int64_t>(most)));
    selection.where = count->where();
  } else {
    const JsonCursor list = ranks->at("gpus");
    selection.where = list.where();
    const auto gpus = [](const JsonCursor& array) {
      std::vector<int> result;
      for (const JsonCursor& gpu : array.elements()) result.push_back(static_cast<int>(gpu.integer(0, INT32_MAX)));
      return result;
    };
    const std::vector<JsonCursor> entries = list.elements();
    if (!entries.empty() && entries.front().value().is_array()) {
      for (const JsonCursor& entry : entries) selection.gpus.push_back(gpus(entry));
    } else {
      selection.gpus.push_back(gpus(list));
    }
  }
  return selection;
}

constexpr std::array<std::string_view, 4> recovery_names = {"none", "reroute", "restart", "replan"};

void parse_network(const JsonCursor& root, Scenario& scenario) {
  static constexpr std::array<std::string_view, 1> models = {"flow"};
  static constexpr std::array<std::string_view, 2> sharings = {"fair", "exclusive"}, nics = {"share", "each"},
                                                   stripings = {"own", "all"}, rails = {"pxn", "switches"}, routings = {"ecmp", "spray"};
  const auto network = root.find("network");
  if (!network) return;
  network->expect_object({"model", "sharing", "nics", "striping", "cross_rail", "routing", "seed"});
  const auto is = [&](std::string_view key, std::span<const std::string_view> known, std::string_view what, std::string_view value) {
    const auto given = network->find(key);
    return given && given->one_of(known, what) == value;
  };
  if (const auto key = network->find("model")) scenario.model = key->one_of(models, "network model");
  if (is("sharing", sharings, "sharing", "exclusive")) scenario.sharing = Sharing::exclusive;
  scenario.every_nic = is("nics", nics, "view of NICs", "each");
  scenario.fabric.stripe = is("striping", stripings, "striping", "all");
  scenario.fabric.pxn = !is("cross_rail", rails, "way between rails", "switches");
  scenario.fabric.spray = is("routing", routings, "routing", "spray");
  if (const auto seed = network->find("seed")) scenario.fabric.seed = static_cast<uint64_t>(seed->integer(0, INT64_MAX));
}

void parse_collective(const JsonCursor& collective, Scenario& scenario) {
  collective.expect_object({"type", "size", "element", "root", "reduction"});
  const int ranks = scenario.network.ranks();
  Collective& wanted = scenario.collective;
  wanted.type = collective_type(collective.at("type").one_of(collective_type_names(), "collective"));
  wanted.ranks = ranks;
  if (const auto reduction_name = collective.find("reduction"))
    wanted.reduction = reduction(reduction_name->one_of(reduction_names(), "reduction"));
  if (has_root(wanted.type)) {
    wanted.root = 0;
    if (const auto given = collective.find("root")) wanted.root = static_cast<int>(given->integer(0, ranks - 1));
  } else if (const auto given = collective.find("root")) {
    given->fail("an " + std::string(to_string(wanted.type)) + " has no root");
  }
  scenario.size = collective.at("size").bytes();
  if (scenario.size.count() < 1) collective.at("size").fail("a message has at least 1 byte");
  if (scenario.size.count() > int64_t{1} << 50) collective.at("size").fail("a message has at most 1024 TiB");
  if (const auto given = collective.find("element")) {
    scenario.element = given->bytes();
    if (scenario.element.count() < 1 || scenario.element.count() > 1024) given->fail("an element has 1 to 1024 bytes");
  }
  if (has_parts(wanted.type) && scenario.size.count() % (scenario.element.count() * ranks) != 0)
    collective.at("size").fail("the message of an " + std::string(to_string(wanted.type)) + " consists of " + std::to_string(ranks) +
                               " equal parts of whole elements; " + to_string(scenario.size) + " is no multiple of " +
                               std::to_string(ranks) + " x " + to_string(scenario.element));
}

void parse_recovery(const JsonCursor& root, Scenario& scenario) {
  const auto recovery = root.find("recovery");
  if (!recovery) return;
  recovery->expect_object({"policy", "detection", "migration", "planning", "acknowledged_chunk", "schedule"});
  if (const auto schedule = recovery->find("schedule")) schedule->members();  // an object, which its algorithm checks
  Recovery& wanted = scenario.recovery;
  const std::string name = recovery->at("policy").one_of(recovery_names, "recovery policy");
  wanted.policy = static_cast<RecoveryPolicy>(std::find(recovery_names.begin(), recovery_names.end(), name) - recovery_names.begin());
  // A sweep over policies carries the times of all of them; each policy takes those that it has a use for.
  const auto time = [&](std::string_view key, bool needed) {
    const auto given = recovery->find(key);
    if (!given && needed) recovery->at(key);  // throws: it is missing
    return given ? given->duration() : Duration();
  };
  wanted.detection = time("detection", wanted.policy != RecoveryPolicy::none);
  wanted.migration = time("migration", false);
  wanted.planning = time("planning", wanted.policy == RecoveryPolicy::restart || wanted.policy == RecoveryPolicy::replan);
  if (const auto chunk = recovery->find("acknowledged_chunk")) {
    wanted.acknowledged_chunk = chunk->bytes();
    if (wanted.acknowledged_chunk.count() < 1) chunk->fail("a chunk has at least 1 byte");
  }
  if (wanted.policy == RecoveryPolicy::replan && scenario.collective.type != CollectiveType::allreduce &&
      scenario.collective.type != CollectiveType::broadcast && scenario.collective.type != CollectiveType::reduce)
    recovery->at("policy").fail("replan is for allreduce, broadcast and reduce, whose message can be continued from any point; " +
                                std::string(to_string(scenario.collective.type)) + " consists of one part a rank: use restart");
}

// A number in [0, 1) that depends on nothing but the seed and the GPU, whatever groups there are.
double draw(uint64_t seed, int server, int gpu, uint64_t which) {
  std::mt19937_64 generator(seed * 0x9e3779b97f4a7c15 ^ static_cast<uint64_t>(server) << 32 ^ static_cast<uint64_t>(gpu) << 8 ^ which);
  generator.discard(8);
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

void parse_arrivals(const JsonCursor& root, Scenario& scenario) {
  const auto arrivals = root.find("arrivals");
  if (!arrivals) return;
  arrivals->expect_object({"delays", "distribution", "mean", "deviation", "seed"});
  if (arrivals->has("delays") == arrivals->has("distribution"))
    arrivals->fail("needs either \"delays\" (an object from ranks to times) or \"distribution\" with \"mean\" and \"seed\"");
  const int ranks = scenario.network.ranks();
  scenario.arrivals.assign(static_cast<size_t>(ranks), Duration());
  if (const auto delays = arrivals->find("delays")) {
    for (const std::string_view key : {"mean", "deviation", "seed"})
      if (const auto stray = arrivals->find(key)) stray->fail("belongs to a \"distribution\", which is not given");
    for (const auto& [rank, delay] : delays->members()) {
      const auto number = index(rank);
      if (!number || *number >= static_cast<size_t>(ranks)) delay.fail("there is no rank \"" + rank + "\"; the ranks are 0 to " + std::to_string(ranks - 1));
      scenario.arrivals[*number] = delay.duration();
    }
    return;
  }
  static constexpr std::array<std::string_view, 3> distributions = {"uniform", "exponential", "normal"};
  const std::string distribution = arrivals->at("distribution").one_of(distributions, "distribution");
  const double mean = static_cast<double>(arrivals->at("mean").duration().count());
  const auto seed = static_cast<uint64_t>(arrivals->at("seed").integer(0, INT64_MAX));
  double deviation = 0;
  if (distribution == "normal")
    deviation = static_cast<double>(arrivals->at("deviation").duration().count());
  else if (const auto stray = arrivals->find("deviation"))
    stray->fail("is for the distribution \"normal\"");
  const std::vector<std::vector<int>> gpus = chosen_gpus(scenario.topology, scenario.selection);
  size_t rank = 0;
  for (size_t server = 0; server < gpus.size(); ++server) {
    for (const int gpu : gpus[server]) {
      const double u = draw(seed, static_cast<int>(server), gpu, 0), v = draw(seed, static_cast<int>(server), gpu, 1);
      double delay = 2 * mean * u;
      if (distribution == "exponential") delay = -mean * std::log1p(-u);
      if (distribution == "normal") delay = mean + deviation * std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * 3.14159265358979323846 * v);
      scenario.arrivals[rank++] = Duration(static_cast<int64_t>(std::clamp(delay, 0.0, 9e18)));
    }
  }
}

void parse_background(const JsonCursor& root, Scenario& scenario) {
  const auto list = root.find("background");
  if (!list) return;
  const auto end = [&](const JsonCursor& place, int& server, int& gpu) {
    place.expect_object({"server", "gpu"});
    const auto& servers = scenario.topology.servers;
    server = static_cast<int>(place.at("server").integer(0, static_cast<int64_t>(servers.size()) - 1));
    gpu = static_cast<int>(place.at("gpu").integer(0, static_cast<int64_t>(servers[static_cast<size_t>(server)].gpus.size()) - 1));
  };
  for (const JsonCursor& entry : list->elements()) {
    entry.expect_object({"from", "to", "rate", "at", "until"});
    BackgroundTraffic traffic;
    end(entry.at("from"), traffic.from_server, traffic.from_gpu);
    end(entry.at("to"), traffic.to_server, traffic.to_gpu);
    if (traffic.from_server == traffic.to_server && traffic.from_gpu == traffic.to_gpu) entry.at("to").fail("traffic goes to another GPU than it comes from");
    if (const auto rate = entry.find("rate")) traffic.rate = rate->bandwidth();
    if (const auto at = entry.find("at")) traffic.at = TimePoint() + at->duration();
    if (const auto until = entry.find("until")) {
      traffic.until = TimePoint() + until->duration();
      if (traffic.until <= traffic.at) until->fail("must be after the traffic's beginning");
    }
    scenario.background.push_back(traffic);
  }
}

}  // namespace

void set_path(Json& document, const std::string& path, const Json& value, const std::string& what) {
  const auto fail = [&](const std::string& message) { throw Error(ErrorKind::usage, what + ": " + message); };
  Json* place = &document;
  std::string walked;
  for (const std::string& step : split(path, '.')) {
    if (step.empty()) fail("\"" + path + "\" is not a path of keys joined by dots");
    if (place->is_array()) {
      const auto position = index(step);
      if (!position || *position > place->size())
        fail("\"" + walked + "\" is an array of " + std::to_string(place->size()) + "; \"" + step + "\" is no index into it");
      if (*position == place->size()) place->push_back(nullptr);
      place = &(*place)[*position];
    } else if (place->is_object() || place->is_null()) {
      if (place->is_null() && index(step) == size_t{0}) {
        *place = Json::array({nullptr});
        place = &(*place)[0];
      } else {
        place = &(*place)[step];
      }
    } else {
      fail("\"" + walked + "\" is a plain value, so that there is no \"" + step + "\" in it");
    }
    walked += (walked.empty() ? "" : ".") + step;
  }
  *place = value;
}

ScenarioDocument read_scenario(const fs::path& path, std::span<const std::string> settings) {
  ScenarioDocument document{read_json_file(path), path.string(), path.parent_path()};
  if (!document.json.is_object()) throw Error(ErrorKind::input, "a scenario must be an object", path.string() + ": /");
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::usage, "--set " + setting + ": write PATH=VALUE, such as collective.size=64MiB");
    const std::string text = setting.substr(equals + 1);
    Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded()) value = text;
    set_path(document.json, setting.substr(0, equals), value, "--set " + setting);
  }
  return document;
}

std::vector<SweepPoint> sweep_points(const ScenarioDocument& document) {
  ScenarioDocument base = document;
  base.json.erase("sweep");
  std::vector<SweepPoint> points{{base, ""}};
  if (!document.json.contains("sweep")) return points;
  const JsonCursor sweep = JsonCursor(document.json, document.file).at("sweep");
  for (const auto& [path, axis] : sweep.members()) {
    const std::vector<JsonCursor> values = axis.elements();
    if (values.empty()) axis.fail("an axis needs at least one value");
    if (points.size() * values.size() > 1'000'000) axis.fail("the sweep has more than a million points");
    std::vector<SweepPoint> finer;
    for (const SweepPoint& point : points) {
      for (const JsonCursor& value : values) {
        SweepPoint next = point;
        set_path(next.document.json, path, value.value(), axis.where());
        const Json& shown = value.value();
        next.label += (next.label.empty() ? "" : " ") + path + "=" + (shown.is_string() ? shown.get<std::string>() : shown.dump());
        finer.push_back(std::move(next));
      }
    }
    points = std::move(finer);
  }
  return points;
}

std::string_view to_string(RecoveryPolicy policy) { return recovery_names[static_cast<size_t>(policy)]; }

std::vector<ScenarioDocument> group_documents(const ScenarioDocument& document) {
  const JsonCursor root(document.json, document.file);
  std::vector<ScenarioDocument> jobs;
  const auto jobs_list = root.find("jobs");
  if (jobs_list) {
    const std::vector<JsonCursor> entries = jobs_list->elements();
    if (entries.empty()) jobs_list->fail("needs at least one job");
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i].expect_object({"name", "ranks", "collective", "schedule", "arrivals"});
      ScenarioDocument job = document;
      job.json.erase("jobs");
      for (const std::string_view key : {"ranks", "collective", "schedule", "arrivals"})
        if (const auto own = entries[i].find(key)) job.json[std::string(key)] = own->value();
      if (entries.size() > 1 || entries[i].has("name"))
        job.json["group"] = entries[i].has("name") ? entries[i].at("name").string() : "job " + std::to_string(i);
      for (const ScenarioDocument& other : jobs)
        if (other.json.contains("group") && other.json["group"] == job.json["group"]) entries[i].fail("another job is called \"" + job.json["group"].get<std::string>() + "\", too");
      jobs.push_back(std::move(job));
    }
  } else {
    jobs.push_back(document);
  }
  std::vector<ScenarioDocument> groups;
  for (ScenarioDocument& job : jobs) {
    const JsonCursor top(job.json, job.file);
    const auto ranks = top.find("ranks");
    if (!ranks || !ranks->has("groups")) {
      groups.push_back(std::move(job));
      continue;
    }
    ranks->expect_object({"gpus_per_server", "groups"});
    const Topology topology = build_topology(top.at("topology"), job.directory);
    size_t most = 0;
    for (const TopologyServer& server : topology.servers) most = std::max(most, server.gpus.size());
    const int64_t each = ranks->at("gpus_per_server").integer(1, static_cast<int64_t>(most));
    const auto possible = static_cast<int64_t>(most) / each;
    const JsonCursor wanted = ranks->at("groups");
    const int64_t count = wanted.value() == "all" ? possible : wanted.integer(1, possible);
    const std::string prefix = job.json.contains("group") ? job.json["group"].get<std::string>() + "/" : "";
    for (int64_t g = 0; g < count; ++g) {
      ScenarioDocument group = job;
      Json gpus = Json::array();
      for (int64_t i = 0; i < each; ++i) gpus.push_back(g * each + i);
      group.json["ranks"] = {{"gpus", std::move(gpus)}};
      if (count > 1) group.json["group"] = prefix + "group " + std::to_string(g);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

Scenario parse_scenario(const ScenarioDocument& document) {
  const JsonCursor root(document.json, document.file);
  root.expect_object({"name", "description", "topology", "ranks", "collective", "failures", "schedule", "network", "sweep", "recovery",
                      "arrivals", "background", "jobs", "group"});
  if (const auto jobs = root.find("jobs")) jobs->fail("several jobs are for `slackline run` and `sweep` only");
  Scenario scenario;
  scenario.name = root.at("name").string();
  if (const auto group = root.find("group")) scenario.group = group->string();
  scenario.healthy_topology = build_topology(root.at("topology"), document.directory);
  if (const auto list = root.find("failures")) scenario.failures = parse_failures(*list, scenario.healthy_topology);
  scenario.topology = scenario.healthy_topology;
  apply_failures(scenario.topology, active_failures(scenario.failures, TimePoint()));
  // What fails later must exist, too.
  Topology worst = scenario.healthy_topology;
  if (has_timed(scenario.failures)) apply_failures(worst, scenario.failures);
  scenario.selection = parse_ranks(root.find("ranks"), scenario.topology, document.file);
  scenario.healthy = build_network(scenario.healthy_topology, scenario.selection);
  try {
    scenario.network = scenario.failures.empty() ? scenario.healthy.clone() : build_network(scenario.topology, scenario.selection);
  } catch (const Error&) {
    // What cuts a server off for a while is no reason to have no schedule.
    if (!has_timed(scenario.failures)) throw;
    Topology lasting = scenario.healthy_topology;
    apply_failures(lasting, lasting_failures(scenario.failures));
    scenario.network = build_network(lasting, scenario.selection);
  }

  parse_network(root, scenario);
  parse_collective(root.at("collective"), scenario);
  parse_recovery(root, scenario);
  parse_arrivals(root, scenario);
  parse_background(root, scenario);
  const bool moves = has_timed(scenario.failures) || !scenario.background.empty() || scenario.recovery.policy != RecoveryPolicy::none;
  if (moves || !scenario.group.empty()) {
    const auto network = root.find("network");
    if (network && network->has("nics") && !scenario.every_nic)
      network->at("nics").fail("failures at a time, recovery, background traffic and several groups are played with \"nics\": \"each\"");
    scenario.every_nic = true;
  }
  for (const Failure& failure : scenario.failures) scenario.fabric.reductions = scenario.fabric.reductions || failure.gpu >= 0;
  root.at("schedule").members();  // must be there, and an object
  return scenario;
}

}  // namespace slackline
