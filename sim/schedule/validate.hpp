// Proves that a schedule computes its collective under every order of execution that it allows, or says
// which transfer, chunk and rank are at fault.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

enum class Severity : uint8_t { error, warning, info };

/// One thing that is wrong with, or worth knowing about, a schedule.
struct Finding {
  std::string_view rule;  ///< stable id, a string literal; schedules/README.md documents each
  Severity severity = Severity::error;
  std::string message;               ///< one sentence: what goes wrong
  std::string where = {};            ///< "transfer 17", "file.xml:12 gpu 3 tb 1 step 4"; may be empty
  /// The steps that lead there, in order; may be empty. validate() starts each with "transfer N: ".
  std::vector<std::string> witness = {};
  int64_t transfer = -1;             ///< index in the schedule, or -1
  int rank = -1;
  int64_t chunk = -1;  ///< index into Schedule::chunks(), or -1
};

struct ValidateOptions {
  size_t max_findings = 20;  ///< stop looking after so many
  /// False: the schedule computes something that Collective has no word for. What it brings is as Collective says;
  /// what it leaves is not looked at.
  bool check_result = true;
  /// False: transfers may write to `input`, which is the caller's.
  bool input_is_constant = true;
};

/// The findings, the most fundamental first: what makes the lists themselves meaningless (ranks, chunks or
/// dependencies out of range) ends the validation, since nothing further can be said; then reads of undefined
/// data, races, wrong results. Empty means: proven right.
///
/// Which orders are allowed. A transfer reads its source (phase A) and writes its destination (phase B;
/// a reduction also reads it). A begins no later than B and ends no later than B. Guaranteed is only:
///   - a transfer in `after` has ended both phases before this transfer's A begins;
///   - of two transfers that one rank sends on one channel, the first has ended A before the second's A begins;
///   - of two transfers that one rank receives on one channel, the first has ended B before the second's B begins
///     (a local copy counts as a send and a receive of its rank);
///   - what follows from these.
/// Two accesses to the same unit of the same buffer of a rank, at least one of them writing, that these do not
/// order are a race. Without races every allowed order gives what the list order gives, which is checked: every
/// result holds exactly the contributions that the collective asks for, each once (sums of 128-bit random weights
/// stand for sets of contributions; a wrong result passes with a probability below 2^-100).
///
/// Needs memory linear in transfers and chunks.
std::vector<Finding> validate(const Schedule& schedule, const ValidateOptions& options = {});

std::string_view to_string(Severity severity);
bool has_errors(const std::vector<Finding>& findings);

}  // namespace slackline
