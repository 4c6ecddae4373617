// The `failures` of a scenario: parts named one by one, and a random process that draws them (scenarios/README.md).
#pragma once

#include <vector>

#include "base/json.hpp"
#include "topology/failures.hpp"

namespace slackline {

/// Reads the array `list`, with every random process expanded to the NIC failures that it draws for `topology`, and
/// counts of NICs resolved to their numbers. Throws Error{input} at the place of what is malformed, or names NICs that do
/// not exist; apply_failures() checks the rest.
std::vector<Failure> parse_failures(const JsonCursor& list, const Topology& topology);

}  // namespace slackline
