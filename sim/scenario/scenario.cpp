#include "scenario/scenario.hpp"

#include <algorithm>
#include <array>
#include <charconv>

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

Scenario parse_scenario(const ScenarioDocument& document) {
  const JsonCursor root(document.json, document.file);
  root.expect_object({"name", "description", "topology", "ranks", "collective", "failures", "schedule", "network", "sweep"});
  const std::string name = root.at("name").string();

  Topology healthy_topology = build_topology(root.at("topology"), document.directory);
  std::vector<Failure> failures;
  if (const auto list = root.find("failures")) failures = parse_failures(*list, healthy_topology);
  for (const Failure& failure : failures)
    if (is_timed(failure) || failure.gpu >= 0)
      throw Error(ErrorKind::input, "failures at a time (\"at\", \"until\", \"flap\", \"random\") and of a \"gpu\" are not played yet", failure.where);
  Topology topology = healthy_topology;
  apply_failures(topology, failures);
  const RankSelection selection = parse_ranks(root.find("ranks"), topology, document.file);
  Network healthy = build_network(healthy_topology, selection);
  Network network = failures.empty() ? healthy.clone() : build_network(topology, selection);

  const JsonCursor collective = root.at("collective");
  collective.expect_object({"type", "size", "element", "root", "reduction"});
  Collective wanted;
  wanted.type = collective_type(collective.at("type").one_of(collective_type_names(), "collective"));
  wanted.ranks = network.ranks();
  if (const auto reduction_name = collective.find("reduction"))
    wanted.reduction = reduction(reduction_name->one_of(reduction_names(), "reduction"));
  if (has_root(wanted.type)) {
    wanted.root = 0;
    if (const auto given = collective.find("root")) wanted.root = static_cast<int>(given->integer(0, network.ranks() - 1));
  } else if (const auto given = collective.find("root")) {
    given->fail("an " + std::string(to_string(wanted.type)) + " has no root");
  }
  const Bytes size = collective.at("size").bytes();
  if (size.count() < 1) collective.at("size").fail("a message has at least 1 byte");
  if (size.count() > int64_t{1} << 50) collective.at("size").fail("a message has at most 1024 TiB");
  Bytes element(4);
  if (const auto given = collective.find("element")) {
    element = given->bytes();
    if (element.count() < 1 || element.count() > 1024) given->fail("an element has 1 to 1024 bytes");
  }
  if (has_parts(wanted.type) && size.count() % (element.count() * network.ranks()) != 0)
    collective.at("size").fail("the message of an " + std::string(to_string(wanted.type)) + " consists of " +
                               std::to_string(network.ranks()) + " equal parts of whole elements; " + to_string(size) +
                               " is no multiple of " + std::to_string(network.ranks()) + " x " + to_string(element));

  static constexpr std::array<std::string_view, 1> models = {"flow"};
  static constexpr std::array<std::string_view, 2> sharings = {"fair", "exclusive"};
  std::string model = "flow", sharing = "fair";
  if (const auto given = root.find("network")) {
    given->expect_object({"model", "sharing"});
    if (const auto key = given->find("model")) model = key->one_of(models, "network model");
    if (const auto key = given->find("sharing")) sharing = key->one_of(sharings, "sharing");
  }
  root.at("schedule").members();  // must be there, and an object
  return {name,       std::move(topology), std::move(failures), std::move(network), std::move(healthy),
          wanted,     size,                element,             model,              sharing == "fair" ? Sharing::fair : Sharing::exclusive};
}

}  // namespace slackline
