// Reading and writing schedules. schedules/README.md is the reference of the format; it exists as JSON for
// people (one chunk and one transfer a line) and as CBOR of the same model for size.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace slackline {

/// Reads a schedule in whichever of schedule_readers()' formats its contents are. What is read fits the columns
/// of a Schedule, nothing more: ranks, chunks and dependencies may not exist, which is for validate() to say.
/// Throws Error{io}; and Error{input} at `file:line` for what is not well-formed, else at `file: /pointer`.
Schedule read_schedule(const std::filesystem::path& path);

/// Writes in the format that the extension of `path` names, whole or not at all. Throws Error{usage} for other
/// extensions, Error{io} when writing fails.
void write_schedule(const Schedule& schedule, const std::filesystem::path& path);

/// `file` names the text in errors.
Schedule parse_schedule_json(std::string_view text, const std::string& file);
Schedule parse_schedule_cbor(std::string_view bytes, const std::string& file);

/// The canonical form: writing what was read from it gives the same bytes.
void write_schedule_json(const Schedule& schedule, std::ostream& stream);
void write_schedule_cbor(const Schedule& schedule, std::ostream& stream);

/// A format that schedules are read from. Each is added by its own file and one line in schedule_readers().
struct ScheduleReader {
  std::string_view name;
  /// Whether these are the contents of a file of this format, right or wrong. Looks at the beginning only.
  bool (*recognizes)(std::string_view contents);
  Schedule (*parse)(std::string_view contents, const std::string& file);
};

/// A format that schedules are written in.
struct ScheduleWriter {
  std::string_view extension;  ///< with the dot
  void (*write)(const Schedule& schedule, std::ostream& stream);
};

/// All formats; the first that recognizes a file reads it.
const std::vector<ScheduleReader>& schedule_readers();
const std::vector<ScheduleWriter>& schedule_writers();
/// The writer for the extension of `path`; throws Error{usage} when there is none. Call it early: making a schedule
/// can take a while.
const ScheduleWriter& schedule_writer(const std::filesystem::path& path);

}  // namespace slackline
