// Plays schedules in tests: proves them right, and times them.
#pragma once

#include "fabric/simulate.hpp"
#include "schedule/list_timing.hpp"
#include "schedule/validate.hpp"

namespace slackline::test {

/// What validate() finds, or "".
inline std::string findings(const Schedule& schedule) {
  std::string text;
  for (const Finding& finding : validate(schedule))
    text += std::string(finding.rule) + " " + finding.where + ": " + finding.message + "\n";
  return text;
}

/// Completion time in seconds where links serve transfers in list order.
inline double list_seconds(const Network& network, const Schedule& schedule, Bytes size = Bytes(int64_t{8} << 30)) {
  const MessageLayout layout(size, Bytes(4), schedule.units());
  ListTiming timing(network, layout, schedule.chunks());
  for (size_t i = 0; i < schedule.size(); ++i) timing.add(schedule.transfer(i));
  return static_cast<double>(timing.completion().count()) * 1e-12;
}

/// Completion time in seconds in the simulator.
inline double seconds(const Network& network, const Schedule& schedule, Sharing sharing,
                      Bytes size = Bytes(int64_t{8} << 30)) {
  SimulateOptions options;
  options.sharing = sharing;
  return static_cast<double>(
             simulate(network, schedule, MessageLayout(size, Bytes(4), schedule.units()), options).time.count()) *
         1e-12;
}

}  // namespace slackline::test
