// Results for people and programs: the CSV row that every command shares, the table, JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "scenario/run.hpp"

namespace slackline {

/// The columns of `slackline run --format csv` and of `slackline sweep`, without line end.
const std::string& csv_header();
/// The row of a result, without line end. `status` is "ok" or says what went wrong; fields that have no value are
/// empty. Times in microseconds are exact to the picosecond; slack and overhead are fractions, not percent.
std::string csv_row(const RunResult& result, const std::string& status);
/// The row of a result and those of its groups, each with its own status and line end.
std::string csv_rows(const RunResult& result);
/// The row of a run that came to nothing: what is not given is empty.
std::string csv_failure_row(const std::string& scenario, const std::string& collective, const std::string& algorithm, const std::string& status);
/// One field, quoted where it must be (RFC 4180).
std::string csv_field(const std::string& text);
/// "ok", "invalid: RULE: MESSAGE" of the first error, "stalled: ..", "interrupted ..".
std::string status_of(const RunResult& result);

/// What a person reads at a glance; ends in a line end.
std::string result_table(const RunResult& result);
Json result_json(const RunResult& result);
/// Several results of one scenario side by side, in the order given, each with its `status`, which stands in place of the
/// time where there is none; ends in a line end.
std::string comparison_table(const std::vector<RunResult>& results, const std::vector<std::string>& status);

std::string bounds_table(const std::vector<Bound>& bounds);
Json bounds_json(const std::vector<Bound>& bounds);

/// One line a finding, its witness indented below it; ends in a line end unless there is none.
std::string findings_text(const std::vector<Finding>& findings);
Json findings_json(const std::vector<Finding>& findings);

/// "84.213 ms", with five significant digits; for tables, not for files.
std::string show_time(Duration time);

}  // namespace slackline
