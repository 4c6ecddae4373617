// What a schedule moves and keeps beyond what its collective needs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/validate.hpp"

namespace slackline {

/// The least that `ranks` ranks together must send each other, in units of a message of `units`, when every rank sends and
/// reduces whole units: 2 (p-1) N for an AllReduce, (p-1) N/p for gather and scatter, (p-1) N for the others.
int64_t least_traffic(CollectiveType type, int64_t ranks, int64_t units);

/// `excess-bytes` (info), with the factor, where the transfers between ranks move more than that.
std::optional<Finding> excess_traffic(const Schedule& schedule);

/// excess_traffic(), and `unused-scratch` (info) for every rank that receives into scratch what nobody reads. The schedule
/// must be free of errors.
std::vector<Finding> traffic_notes(const Schedule& schedule);

}  // namespace slackline
