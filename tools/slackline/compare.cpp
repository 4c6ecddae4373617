// slackline compare: lines up what was simulated with what slackline-replay measured.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "command.hpp"
#include "report/report.hpp"

namespace slackline {

namespace {

using Row = std::map<std::string, std::string>;

// A CSV file (RFC 4180) by column names.
std::vector<Row> read_csv(const std::string& path) {
  const std::string text = read_file(path, uint64_t{1} << 30);
  std::vector<std::vector<std::string>> lines(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& field = lines.back().back();
    const char c = text[i];
    if (quoted) {
      if (c != '"')
        field += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        field += text[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      lines.back().emplace_back();
    } else if (c == '\n') {
      lines.push_back({""});
    } else if (c != '\r') {
      field += c;
    }
  }
  if (quoted) throw Error(ErrorKind::input, "ends within a quoted field", path);
  if (lines.back() == std::vector<std::string>{""}) lines.pop_back();
  if (lines.empty()) throw Error(ErrorKind::input, "is empty", path);
  const std::vector<std::string>& header = lines.front();
  for (const char* column : {"collective", "algorithm", "ranks", "bytes", "slowdowns", "time_us"})
    if (std::find(header.begin(), header.end(), column) == header.end())
      throw Error(ErrorKind::input, fmt::format("has no column \"{}\"; it must come from slackline run, sweep or slackline-replay", column), path + ":1");
  std::vector<Row> rows;
  for (size_t line = 1; line < lines.size(); ++line) {
    if (lines[line].size() != header.size())
      throw Error(ErrorKind::input, fmt::format("has {} fields, and the header {}", lines[line].size(), header.size()), fmt::format("{}: row {}", path, line));
    Row row;
    for (size_t column = 0; column < header.size(); ++column) row[header[column]] = lines[line][column];
    row[""] = fmt::format("{}: row {}", path, line);  // for messages
    rows.push_back(row);
  }
  return rows;
}

double time_of(const Row& row) {
  const std::string& text = row.at("time_us");
  double time = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  if (error != std::errc() || end != text.data() + text.size() || !(time > 0))
    throw Error(ErrorKind::input, "time_us is \"" + text + "\", not a time above 0", row.at(""));
  return time;
}

// A schedule read from a file goes by the file's name, which says nothing about its algorithm.
bool same_algorithm(const std::string& a, const std::string& b) {
  const auto is_file = [](const std::string& name) { return std::filesystem::path(name).has_extension(); };
  return a == b || is_file(a) || is_file(b);
}

bool same_run(const Row& a, const Row& b) {
  for (const char* column : {"collective", "ranks", "bytes", "slowdowns"})
    if (a.at(column) != b.at(column)) return false;
  const auto scenario_a = a.find("scenario"), scenario_b = b.find("scenario");
  const bool both_named = scenario_a != a.end() && scenario_b != b.end() && !scenario_a->second.empty() && !scenario_b->second.empty();
  return same_algorithm(a.at("algorithm"), b.at("algorithm")) && (!both_named || scenario_a->second == scenario_b->second);
}

std::string name_of(const Row& row) {
  if (row.at("time_us").empty()) return "a run without a time (" + row.at("") + ")";
  const auto scenario = row.find("scenario");
  return fmt::format("{}{} {}, {} ranks, {} B{}{}", scenario == row.end() || scenario->second.empty() ? "" : scenario->second + ": ", row.at("algorithm"), row.at("collective"), row.at("ranks"), row.at("bytes"),
                     row.at("slowdowns").empty() ? "" : ", slowdowns ", row.at("slowdowns"));
}

std::function<int()> add_compare(CLI::App& app) {
  struct Options {
    std::string simulated, replayed, format = "table", out;
    double within = 0;
  };
  auto options = std::make_shared<Options>();
  app.add_option("simulated", options->simulated, "Written by slackline run --format csv, or sweep")->required()->type_name("SIM.csv");
  app.add_option("replayed", options->replayed, "Written by slackline-replay --out")->required()->type_name("REPLAY.csv");
  app.add_option("--within", options->within, "Exit with 1 where a ratio is off by more than this, e.g. 0.05")->check(CLI::Range(1e-9, 1e9))->type_name("FRACTION");
  app.add_option("--format", options->format, "table (default) or csv")->check(CLI::IsMember({"table", "csv"}));
  app.add_option("--out", options->out, "Write to this file instead of standard output")->type_name("FILE");
  return [options] {
    const std::vector<Row> simulated = read_csv(options->simulated), replayed = read_csv(options->replayed);
    const bool csv = options->format == "csv";
    std::string text = csv ? "collective,algorithm,ranks,bytes,slowdowns,simulated_us,replayed_us,ratio\n"
                           : fmt::format("{:>14} {:>12} {:>6} {:>12} {:>14} {:>14} {:>14} {:>8}\n", "collective", "algorithm", "ranks",
                                         "bytes", "slowdowns", "simulated us", "replayed us", "ratio");
    bool missed = false;
    std::vector<bool> used(simulated.size(), false);
    std::string lonely;
    for (const Row& replay : replayed) {
      std::vector<size_t> partners;
      for (size_t i = 0; i < simulated.size(); ++i)
        if (same_run(simulated[i], replay)) partners.push_back(i);
      if (partners.empty()) {
        lonely += "only replayed: " + name_of(replay) + "\n";
        continue;
      }
      if (partners.size() > 1)
        throw Error(ErrorKind::input, fmt::format("matches both {} and {}", simulated[partners[0]].at(""), simulated[partners[1]].at("")), replay.at(""));
      used[partners[0]] = true;
      const Row& simulation = simulated[partners[0]];
      const double before = time_of(simulation), after = time_of(replay), ratio = after / before;
      missed = missed || (options->within > 0 && std::abs(ratio - 1) > options->within);
      const std::string& algorithm = replay.at("algorithm");
      text += csv ? fmt::format("{},{},{},{},{},{},{},{:.6f}\n", replay.at("collective"), csv_field(algorithm), replay.at("ranks"), replay.at("bytes"),
                                csv_field(replay.at("slowdowns")), simulation.at("time_us"), replay.at("time_us"), ratio)
                  : fmt::format("{:>14} {:>12} {:>6} {:>12} {:>14} {:>14.3f} {:>14.3f} {:>8.4f}\n", replay.at("collective"), algorithm,
                                replay.at("ranks"), replay.at("bytes"), replay.at("slowdowns"), before, after, ratio);
    }
    for (size_t i = 0; i < simulated.size(); ++i)
      if (!used[i]) lonely += "only simulated: " + name_of(simulated[i]) + "\n";
    if (!csv) text += lonely;
    if (std::find(used.begin(), used.end(), true) == used.end()) {
      put(options->out, text);
      throw Error(ErrorKind::input, "no run of " + options->simulated + " matches one of " + options->replayed +
                                        "; scenario, collective, algorithm, ranks, bytes and slowdowns must agree");
    }
    put(options->out, text);
    return missed ? 1 : 0;
  };
}

}  // namespace

const Command compare_command = {"compare", "Line up simulated times with replayed ones", add_compare};

}  // namespace slackline
