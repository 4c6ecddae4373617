// Scenarios: the JSON file that says which collective runs on which (damaged) network with which schedule,
// the changes made to it on the command line, and the grid that its `sweep` spans.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "schedule/schedule.hpp"
#include "topology/failures.hpp"
#include "topology/network.hpp"

namespace slackline {

/// A scenario's text, as read and changed; scenarios/README.md is the reference of its keys.
struct ScenarioDocument {
  Json json;
  std::string file;                 ///< for messages
  std::filesystem::path directory;  ///< what the paths in it are relative to
};

/// Reads `path` and applies `settings`, each "PATH=VALUE": PATH is made of keys and array indices joined by dots
/// ("failures.0.nics"); the index one past the end appends; keys that are missing are made. VALUE is JSON where it
/// parses as JSON, else a string. Throws Error{usage} for malformed settings, Error{input, io} otherwise.
ScenarioDocument read_scenario(const std::filesystem::path& path, std::span<const std::string> settings = {});

/// Sets the value at a dotted path, as read_scenario does. `what` names the setting in messages.
void set_path(Json& document, const std::string& path, const Json& value, const std::string& what);

/// One point of the sweep: the document without its `sweep` key and with the point's values set.
struct SweepPoint {
  ScenarioDocument document;
  std::string label;  ///< "failures.0.nics=1 topology.servers=16", for progress and messages
};

/// All points of the grid, the first axis slowest; the document itself where it has no `sweep`. Throws
/// Error{input} for axes that are no arrays, empty axes, more than a million points.
std::vector<SweepPoint> sweep_points(const ScenarioDocument& document);

/// A scenario, checked and made into what the libraries take.
struct Scenario {
  std::string name;
  Topology topology;                ///< with its failures
  std::vector<Failure> failures;
  Network network;                  ///< of `topology`
  Network healthy;                  ///< the same without the failures
  Collective collective;
  Bytes size;
  Bytes element;
  std::string model;                ///< of the network: "flow"
  Sharing sharing = Sharing::fair;
};

/// Checks everything but the `schedule` object, which its algorithm checks. Throws Error{input} at the file and JSON
/// pointer of the first mistake.
Scenario parse_scenario(const ScenarioDocument& document);

}  // namespace slackline
