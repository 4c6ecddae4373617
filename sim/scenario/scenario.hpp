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
#include "topology/fabric_network.hpp"
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

/// What is done about parts that fail while a collective runs.
enum class RecoveryPolicy : uint8_t {
  none,     ///< nothing: what is on dead parts waits until they come back
  reroute,  ///< flows move to the parts that are left and send again what was not acknowledged
  restart,  ///< the collective starts again from nothing, with a schedule for what is left
  replan    ///< what is finished is kept, and the rest gets a schedule for what is left
};
std::string_view to_string(RecoveryPolicy policy);

struct Recovery {
  RecoveryPolicy policy = RecoveryPolicy::none;
  Duration detection;                            ///< from a failure until it is known everywhere
  Duration migration;                            ///< of reroute: from then until flows move
  Duration planning;                             ///< of restart and replan: from then until the new schedule starts
  Bytes acknowledged_chunk = Bytes(512 * 1024);  ///< of reroute
};

/// Traffic beside the collective.
struct BackgroundTraffic {
  int from_server = 0, from_gpu = 0, to_server = 0, to_gpu = 0;
  Bandwidth rate;  ///< at most; 0: as fast as the network lets it
  TimePoint at, until = TimePoint::never();
};

/// A scenario of one group, checked and made into what the libraries take.
struct Scenario {
  std::string name;
  std::string group;                ///< where there are several; see group_documents()
  Topology healthy_topology;
  Topology topology;                ///< with the failures that are there at the start
  std::vector<Failure> failures;    ///< all, also those to come
  RankSelection selection;
  Network network;                  ///< of `topology`: what schedules are made for
  Network healthy;                  ///< of `healthy_topology`
  Collective collective;
  Bytes size;
  Bytes element = Bytes(4);
  std::string model = "flow";       ///< of the network
  Sharing sharing = Sharing::fair;
  bool every_nic = false;           ///< played on build_fabric_network(), not on `network`
  FabricOptions fabric;
  Recovery recovery;
  std::vector<Duration> arrivals;   ///< by rank; empty: all are there at the start
  std::vector<BackgroundTraffic> background;
};

/// The scenario taken apart into one document a group: the entries of `jobs`, which replace `ranks`, `collective`, `schedule`
/// and `arrivals`, and of each the groups that its `ranks.groups` asks for. Each has the key `group`, its name, where there
/// are several. Throws Error{input}.
std::vector<ScenarioDocument> group_documents(const ScenarioDocument& document);

/// Checks everything but the `schedule` object, which its algorithm checks. Throws Error{input} at the file and JSON
/// pointer of the first mistake; a scenario of several groups is one.
Scenario parse_scenario(const ScenarioDocument& document);

}  // namespace slackline
