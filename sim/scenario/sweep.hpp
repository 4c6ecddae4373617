// Runs many points in parallel processes, keeps what is finished when interrupted, and goes on from there.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace slackline {

/// What one point came to: a line for the table, and whether the point failed.
struct SweepRow {
  std::string line;  ///< without line end
  bool failed = false;
};

struct SweepJob {
  std::string header;                          ///< the table's first line, without line end
  std::vector<std::string> labels;             ///< by point, for progress
  std::string fingerprint;                     ///< of what is swept; a journal with another one is not resumed
  std::function<SweepRow(size_t)> run;         ///< called in a child process, once a point
  std::function<std::string(size_t, const std::string&)> crashed;  ///< the line of a point whose process died
  std::filesystem::path out;
  int jobs = 1;
  bool resume = false;
  std::function<void(const std::string&)> progress;  ///< called with one line at a time; may be empty
};

struct SweepOutcome {
  size_t points = 0;
  size_t failed = 0;
  size_t resumed = 0;        ///< taken from the journal
  bool interrupted = false;  ///< by SIGINT or SIGTERM; the finished rows are in `out`.partial
};

/// Runs all points, `jobs` at a time, each in a process of its own (the simulator is global to a process, and a point
/// that crashes takes no other with it), and writes `out` in the order of the points once all are done.
/// Finished rows go to the journal `out`.partial as they come, which a run with `resume` starts from. Throws Error.
SweepOutcome run_sweep(const SweepJob& job);

}  // namespace slackline
