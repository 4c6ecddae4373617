// Decides exactly which phases of which transfers a schedule orders, over the whole schedule, by
// vector clocks on its send and receive queues (the happens-before model of schedule/validate.hpp).
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

/// A cheap proof of order: things, added one after the other, are strung on chains in which each is
/// ordered after the one before; the first of a chain may follow something on another.
class ChainForest {
public:
  static constexpr uint32_t none = UINT32_MAX;

  void clear() {
    chain_.clear();
    chains_.clear();
  }
  uint32_t size() const { return static_cast<uint32_t>(chain_.size()); }
  /// Adds the next thing, which is ordered after `before`, or after none.
  void add(uint32_t before) {
    const uint32_t self = size();
    if (before != none && chains_[chain_[before]].last == before) {
      chain_.push_back(chain_[before]);
      chains_[chain_[before]].last = self;
    } else {
      chain_.push_back(static_cast<uint32_t>(chains_.size()));
      chains_.push_back({before, self});
    }
  }
  /// True only if `earlier` is `later` or ordered before it. False may mean that it would take long
  /// to see.
  bool reaches(uint32_t earlier, uint32_t later) const {
    constexpr int patience = 16;
    for (int i = 0; i < patience && later != none && earlier <= later; ++i) {
      if (chain_[earlier] == chain_[later]) return true;
      later = chains_[chain_[later]].follows;
    }
    return false;
  }

private:
  struct Chain {
    uint32_t follows, last;
  };
  std::vector<uint32_t> chain_;  // by thing
  std::vector<Chain> chains_;
};

/// Those of `queries` to which the answer is no, by (later, earlier, conflict), each once; if there
/// are more than `enough` of them, not all. Takes time proportional to the transfers between the
/// first and the last that are asked about, times the queues that are asked about; memory linear in
/// the transfers.
std::vector<OrderQuery> unordered_pairs(const Schedule& schedule, std::vector<OrderQuery> queries,
                                        size_t enough);

}  // namespace slackline
