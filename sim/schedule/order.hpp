// Decides exactly which phases of which transfers a schedule orders, over the whole schedule, by vector clocks
// on its send and receive queues (the happens-before model of schedule/validate.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

/// What two transfers do to one place, the one that stands earlier in the list first.
enum class Conflict : uint8_t { write_read, read_write, write_write };

/// Must `earlier` be through with its part of the conflict before `later` begins its own?
struct OrderQuery {
  uint32_t earlier = 0, later = 0;
  Conflict conflict = Conflict::write_read;
  auto operator<=>(const OrderQuery&) const = default;
};

/// Those of `queries` to which the answer is no, by (later, earlier, conflict), each once. Gives up after about
/// `enough` of them. Takes time proportional to the transfers between the first and the last that are
/// asked about, times the queues that are asked about; memory linear in the transfers.
std::vector<OrderQuery> unordered_pairs(const Schedule& schedule, std::vector<OrderQuery> queries,
                                        size_t enough);

}  // namespace slackline
