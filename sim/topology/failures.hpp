// Failures of a topology's parts: what breaks, when, and what is left of it. Pure functions from a list of failures and
// a time to the failures at that time, and from those to the damaged topology.
#pragma once

#include <string>
#include <vector>

#include "base/fraction.hpp"
#include "base/units.hpp"
#include "topology/topology.hpp"

namespace slackline {

/// What one entry of a scenario's `failures` breaks, at the times when it does. NICs, a slowdown and an NVLink can stand
/// together; a port, a cable, a switch and a GPU each alone.
struct Failure {
  int server = 0;                ///< of NICs, ports, NVLinks, GPUs and slowdowns
  int nic_count = 0;             ///< this many NICs, the lowest-numbered living ones first; see resolve()
  std::vector<int> nic_indices;  ///< these NICs
  int port = -1;                 ///< only this port of the single NIC in nic_indices; -1: the whole NIC
  Fraction slowdown{1};          ///< >= 1: divides the bandwidth of all NICs of the server
  /// The NVLinks between two GPUs of the server, or, where one GPU is named, from it to the NVSwitches; both
  /// directions fail alike. Empty: no NVLink fails.
  std::vector<int> nvlink;
  int nvlink_count = 0;            ///< this many of them die; 0: see `nvlink_remaining`
  Fraction nvlink_remaining{0};    ///< what is left of their bandwidth where no count is given, 0..1
  std::vector<std::string> cable;  ///< all network links between the two vertices of these names
  std::string net_switch;          ///< all links of the switch of this name; "": none
  int gpu = -1;                    ///< this GPU reduces at most at `reduction`; -1: none
  Bandwidth reduction;
  Fraction remaining{0};  ///< what is left of the bandwidth of the NICs, port, cable or switch, 0..1

  TimePoint at;                          ///< breaks here
  TimePoint until = TimePoint::never();  ///< is whole again from here on
  Duration flap_period;                  ///< 0: broken all the time between; else only for
  Duration flap_down;                    ///< so long from the start of each period, the first of which starts at `at`
  std::string where;                     ///< where it was read, for messages
};

/// Whether the failure is not simply there from the start to the end.
bool is_timed(const Failure& failure);
bool has_timed(const std::vector<Failure>& failures);
/// Those that are not timed.
std::vector<Failure> lasting_failures(std::vector<Failure> failures);

/// The failures that are in effect at `t`; each is from `at`, inclusive, to `until`, exclusive.
std::vector<Failure> active_failures(const std::vector<Failure>& failures, TimePoint t);

/// The first time after `after` at which active_failures() differs from what it was just before; never() if there is none.
TimePoint next_change(const std::vector<Failure>& failures, TimePoint after);

/// The failures with counts of NICs replaced by the NICs' numbers, so that each keeps its NICs whatever else is broken at
/// a time. In the order of the list, a count takes the lowest-numbered NICs that no earlier failure kills while it lasts
/// itself. Throws Error{input} at the failure's `where`: servers and NICs that do not exist, more NICs than are left;
/// NICs and other parts
/// of the network that are dead already, where both failures last from the start to the end.
std::vector<Failure> resolve(const Topology& topology, const std::vector<Failure>& failures);

/// Damages `topology` by all the failures, whatever their times. Effects compose: what is dead stays dead, fractions
/// multiply, the lowest reduction rate counts. Throws Error{input} at the failure's `where`: as resolve(); for what does
/// not exist; fractions out of range; slowdowns of servers without a living NIC and counts of NVLinks beyond the
/// living ones, unless the failure is timed.
void apply_failures(Topology& topology, const std::vector<Failure>& failures);

/// The failure in words: "NIC 3 of server 0", "switch rail3 at 1/2 of its bandwidth from 12 ms until 20 ms".
std::string describe(const Failure& failure, const Topology& topology);

}  // namespace slackline
