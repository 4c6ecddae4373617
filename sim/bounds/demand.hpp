// What a collective makes sets of ranks send, whatever the schedule: the numerators of the cut
// bounds.
#pragma once

#include <vector>

#include "bounds/exact.hpp"

namespace slackline {

/// Per unit of the message every argument is the same: contributions are only ever copied and
/// added, never taken apart, so a unit's bytes must cross from a set of ranks to the others once
/// for every time that something in the set is needed outside and could not have been merged with
/// what else crosses.
class Demand {
public:
  explicit Demand(const BoundRequest& request);

  /// As much of a set of ranks as the amounts depend on.
  struct Set {
    int ranks = 0;
    Wide parts = 0;  ///< bytes of the parts of its ranks
    bool root = false;
  };
  Set set_of(const std::vector<int>& ranks) const;
  Set without(const Set& set) const { return {ranks_ - set.ranks, size_ - set.parts, !set.root}; }

  /// Bytes that ranks in the set must send to ranks outside it.
  Wide leaving(const Set& set) const;
  Wide entering(const Set& set) const { return leaving(without(set)); }

  /// Bytes of rank q's part: N/p rounded as MessageLayout does.
  Wide part(int q) const { return parts_[static_cast<size_t>(q)]; }
  /// Whether something that `from` contributes must come to `to`.
  bool must_reach(int from, int to) const;

private:
  CollectiveType type_;
  int ranks_, root_;
  Wide size_;
  Wide least_part_;
  std::vector<Wide> parts_;
};

}  // namespace slackline
