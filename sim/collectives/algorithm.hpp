// What a schedule generator is, and the registry of all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// What a schedule is wanted for.
struct GenerateRequest {
  const Network& network;
  Collective collective;
  Bytes size;     ///< the whole message
  Bytes element;  ///< of the message
  Sharing sharing = Sharing::fair;
  /// The scenario's `schedule` object. An algorithm sees `algorithm` and the keys that it lists as its options.
  JsonCursor options;
  /// Completion time of a schedule on this network with this message and sharing; given by the caller, who has
  /// a simulator. May be empty, which an algorithm that needs it must say in inapplicable().
  std::function<Duration(const Schedule&)> simulate;
};

struct Generated {
  Schedule schedule;
  int64_t segments = 1;  ///< pipelined segments, for reports
  /// Lines for people: what was decided, and why (trees and their weights, the k that "auto" chose).
  std::vector<std::string> notes;
};

/// A generator. Each is added by one file pair and one line in algorithms().
struct Algorithm {
  std::string_view name;
  std::string_view summary;  ///< one line
  /// Why the algorithm does not apply to the request, or nothing. Must be cheap.
  std::optional<std::string> (*inapplicable)(const GenerateRequest& request);
  /// Throws Error{input} for options that are wrong. Called only where inapplicable() says nothing.
  Generated (*generate)(const GenerateRequest& request);
  /// The keys of `GenerateRequest::options` that it knows, besides `algorithm`.
  std::vector<std::string_view> options = {};
};

/// All algorithms, sorted by name.
const std::vector<Algorithm>& algorithms();

/// Generates with the algorithm that `request.options` names; `options/algorithm` is where unknown and
/// inapplicable algorithms are reported. Options of other algorithms are left aside, so that a sweep over algorithms
/// can carry the options of all of them; a key that no algorithm knows is an error.
Generated generate(const GenerateRequest& request);

}  // namespace slackline
