// Arithmetic that the bounds share: amounts over capacities compared and divided in 128 bits, and
// the sentences of certificates.
#pragma once

#include <string>
#include <vector>

#include "bounds/bounds.hpp"

namespace slackline {

using Wide = __int128;

/// `bytes` that must pass through `capacity` (b/s). Loads are ordered by the time that this takes.
/// Both are below 2^63, so products stay in 128 bits.
struct Load {
  Wide bytes = 0;
  Wide capacity = 1;
  bool operator>(const Load& other) const {
    return bytes * other.capacity > other.bytes * capacity;
  }
};

/// The bound that follows from `load`. Throws Error{input} if it takes longer than 2^63 ps.
Bound load_bound(const BoundRequest& request, std::string name, const Load& load,
                 std::vector<std::vector<int>> parts, std::string certificate, std::string source);

/// "240 GiB", "1.875 GB/s": exact where three decimals do, else rounded to nine significant digits.
std::string show(Bytes bytes);
std::string show(Bandwidth bandwidth);

/// "rank 3 (server0/gpu3)", "ranks 0, 1, 5", "12 ranks 0, 1, 2, .. 31".
std::string name_ranks(const Network& network, const std::vector<int>& ranks);

/// Throws Error{input}: no data can get to where the collective needs it. `ranks` are cut off from
/// the rest.
[[noreturn]] void fail_unreachable(const BoundRequest& request, const std::vector<int>& ranks);

}  // namespace slackline
