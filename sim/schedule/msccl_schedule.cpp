#include <algorithm>
#include <ostream>

#include "base/error.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/msccl_export.hpp"
#include "schedule/msccl_lower.hpp"
#include "schedule/msccl_machine.hpp"

namespace slackline {

Schedule schedule_from_msccl(const MscclProgram& program) {
  MscclProgram sorted = program;
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::stable_sort(sorted.gpus.begin(), sorted.gpus.end(), by_id);
  for (MscclGpu& gpu : sorted.gpus) std::stable_sort(gpu.blocks.begin(), gpu.blocks.end(), by_id);
  const MscclReport report = check_msccl(sorted, {});
  const bool ends = report.one_node.progress != MscclProgress::never && report.one_node.progress != MscclProgress::unknown;
  if (!report.structure_ok || !ends) {
    for (const Finding& finding : report.findings)
      if (finding.severity == Severity::error)
        throw Error(ErrorKind::input, std::string(finding.rule) + ": " + finding.message, finding.where);
    throw Error(ErrorKind::input, "cannot be executed", program.file);
  }
  const std::optional<CollectiveType> type = msccl_collective(program.collective);
  if (!type)
    throw Error(ErrorKind::input, "coll=\"" + program.collective.substr(0, 40) + "\" has no rule for what it computes, so it is no schedule of a collective",
                program.file + ":" + std::to_string(program.line));
  if (program.ranks < 2) throw Error(ErrorKind::input, "a schedule has at least 2 ranks", program.file + ":" + std::to_string(program.line));
  const MscclMachine machine(sorted);
  MscclLowerOptions options;
  options.in_place = program.in_place.value_or(true);
  options.root = has_root(*type) ? std::max(report.root, 0) : -1;
  // Without FIFOs a racing program could look ordered, so only what is proven right comes back that way.
  if ((options.in_place ? report.in_place : report.out_of_place) == MscclResult::right)
    if (std::optional<Schedule> direct = lower_msccl_directly(machine, options)) return std::move(*direct);
  return lower_msccl(machine, options).schedule;
}

Schedule parse_schedule_msccl(std::string_view text, const std::string& file) {
  std::vector<Finding> oddities;  // about the text; `slackline validate` tells them
  return schedule_from_msccl(read_msccl_xml(text, file, MscclDialect::any, oddities));
}

void write_schedule_msccl(const Schedule& schedule, std::ostream& stream) { write_msccl_xml(export_msccl(schedule, {}), stream); }

}  // namespace slackline
