// Lower bounds on the completion time of a collective on a network, each with a certificate that a
// reader can check by hand: who must send how much through which capacity.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fraction.hpp"
#include "base/units.hpp"
#include "schedule/schedule.hpp"
#include "topology/network.hpp"

namespace slackline {

/// What is asked. `collective.ranks` must be the network's.
struct BoundRequest {
  const Network& network;
  Collective collective;
  Bytes size;  ///< the whole message, N
  /// Of the message; the parts of N/p are rounded to it as MessageLayout does.
  Bytes element = Bytes(1);
  /// The speed of one link where all are bundles of equal ones; 0: see common_link().
  Bandwidth link = Bandwidth(0);
};

/// No schedule that moves every unit in chunks of that unit's length ends earlier than `time`.
///
/// The proofs count bytes that must cross a set of links and divide by what the links can carry.
/// They hold for the timing model of architecture.md with any sharing, since latency and overheads
/// only add to it, and for relaying through other ranks; they would not hold for a schedule that
/// hides bytes from the clock by sending a unit from or into a chunk that the rounding of
/// MessageLayout left empty.
struct Bound {
  std::string name;
  Duration time;            ///< rounded down, so that it never exceeds the exact value
  std::string certificate;  ///< "limited by server 3: 8 GiB must enter it through 350 GB/s"
  std::string source;       ///< where the argument is published

  /// The certificate for programs: `amount` must pass through `capacity`.
  /// Of a cut the one set of ranks that it separates from the rest; of a volume bound the parts of
  /// the partition; of a latency {{from}, {to}} with amount and capacity 0.
  std::vector<std::vector<int>> parts;
  Bytes amount;
  Bandwidth capacity;
  /// N/time, exactly, in units of one link; only where all links are bundles of equal links.
  std::optional<Fraction> rate_in_links;
};

/// A kind of argument. Each is added by one file pair and one line in bound_families().
struct BoundFamily {
  std::string_view name;
  std::string_view summary;  ///< one line
  /// Appends the bounds of this family that apply to the request; it has been checked.
  void (*add)(const BoundRequest& request, std::vector<Bound>& bounds);
};

/// All families, in the order in which equal bounds are listed: the most special argument first.
const std::vector<BoundFamily>& bound_families();

/// Every bound that applies, the largest first; never empty. Throws Error{input}: ranks or root
/// that do not fit the network, a collective that no schedule can perform because there is no path
/// between ranks, a message beyond 64-bit arithmetic.
std::vector<Bound> lower_bounds(const BoundRequest& request);

/// "theorem 1: 91.227 ms; limited by ... [source]", one line.
std::string describe(const Bound& bound);

/// The greatest common divisor of all capacities where there is no switch, all links are NVLinks
/// and none exceeds 16 times that divisor, else 0. (A network of double links only passes for one
/// of single, faster links.)
Bandwidth common_link(const Network& network);

}  // namespace slackline
