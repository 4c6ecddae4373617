// slackline convert: reads a schedule in any format and writes it in the one that the extension names.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/files.hpp"
#include "base/error.hpp"
#include "command.hpp"
#include "schedule/msccl_export.hpp"
#include "schedule/schedule_io.hpp"
#include "schedule/validate.hpp"

namespace slackline {

namespace {

std::function<int()> add_convert(CLI::App& app) {
  struct Options {
    std::string from, to, executor = "azure", protocol = "Simple", least, most;
  };
  auto options = std::make_shared<Options>();
  app.add_option("from", options->from, "Schedule in any format (schedules/README.md)")->required()->type_name("SCHEDULE");
  app.add_option("to", options->to, "File to write: .json, .cbor or .xml (MSCCL)")->required()->type_name("FILE");
  CLI::Option* executor = app.add_option("--executor", options->executor, "MSCCL: for this executor: azure (default), msccl or rccl")->check(CLI::IsMember({"msccl", "azure", "rccl"}));
  CLI::Option* protocol = app.add_option("--protocol", options->protocol, "MSCCL: Simple (default), LL or LL128")->check(CLI::IsMember({"Simple", "LL", "LL128"}));
  CLI::Option* least = app.add_option("--min-size", options->least, "MSCCL: the smallest message for which the executor shall use it; default 0 B")->type_name("SIZE");
  CLI::Option* most = app.add_option("--max-size", options->most, "MSCCL: the largest; default no limit")->type_name("SIZE");
  return [=] {
    keep_inputs(options->to, {options->from});
    const bool msccl = std::filesystem::path(options->to).extension() == ".xml";
    schedule_writer(options->to);  // complains about other extensions
    for (const CLI::Option* option : {executor, protocol, least, most})
      if (!msccl && option->count() > 0) throw Error(ErrorKind::usage, option->get_name() + " is for MSCCL XML, which is not what is written", options->to);
    const Schedule schedule = read_schedule(options->from);
    // A wrong schedule can be worth looking at in another format, but nobody should take it for a right one.
    const std::vector<Finding> findings = validate(schedule, {.max_findings = 1});
    if (has_errors(findings))
      fmt::print(stderr, "slackline: warning: {}: the schedule is wrong, and is written as it is: {}: {} (\"slackline validate\" tells all)\n", options->from, findings.front().rule, findings.front().message);
    if (!msccl) {
      write_schedule(schedule, options->to);
      return 0;
    }
    MscclExportOptions settings;
    settings.executor = &msccl_executor(options->executor);
    settings.protocol = options->protocol == "LL" ? MscclProtocol::ll : options->protocol == "LL128" ? MscclProtocol::ll128 : MscclProtocol::simple;
    if (!options->least.empty()) settings.min_bytes = parse_bytes(options->least, "--min-size").count();
    if (!options->most.empty()) settings.max_bytes = parse_bytes(options->most, "--max-size").count();
    if (settings.max_bytes > 0 && settings.min_bytes > settings.max_bytes)
      throw Error(ErrorKind::usage, "--min-size " + options->least + " is above --max-size " + options->most + ", so that no size would be left");
    const MscclProgram program = export_msccl(schedule, settings);
    write_file_atomically(options->to, [&](std::ostream& stream) { write_msccl_xml(program, stream); });
    return 0;
  };
}

}  // namespace

const Command convert_command = {"convert", "Write a schedule in another format", add_convert};

}  // namespace slackline
