#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace slackline {

namespace {

// Picoseconds as microseconds, exactly.
std::string microseconds(Duration time) {
  return fmt::format("{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000);
}

std::string optional_microseconds(const std::optional<Duration>& time) { return time ? microseconds(*time) : ""; }

std::string optional_number(const std::optional<double>& number) { return number ? fmt::format("{:.9g}", *number) : ""; }

std::string slowdown_list(const RunResult& result) {
  std::string text;
  for (const auto& [rank, l] : result.slowdowns) text += fmt::format("{}{}:{}", text.empty() ? "" : ";", rank, l.to_string());
  return text;
}

std::string_view sharing_name(Sharing sharing) { return sharing == Sharing::fair ? "fair" : "exclusive"; }

std::string join_csv(const std::vector<std::string>& fields) {
  std::string row;
  for (size_t i = 0; i < fields.size(); ++i) row += (i ? "," : "") + csv_field(fields[i]);
  return row;
}

// In the order of csv_header().
std::vector<std::pair<std::string, std::string>> fields_of(const RunResult& result, const std::string& status) {
  const bool bounded = !result.bounds.empty();
  return {{"scenario", result.scenario},
          {"collective", std::string(to_string(result.collective.type))},
          {"algorithm", result.algorithm},
          {"ranks", std::to_string(result.collective.ranks)},
          {"servers", std::to_string(result.servers)},
          {"gpus_per_server", result.gpus_per_server ? std::to_string(result.gpus_per_server) : ""},
          {"bytes", std::to_string(result.size.count())},
          {"segments", std::to_string(result.segments)},
          {"slowdowns", slowdown_list(result)},
          {"network", result.model + (result.every_nic ? "/nics" : "")},
          {"sharing", std::string(sharing_name(result.sharing))},
          {"time_us", optional_microseconds(result.time)},
          {"algbw_GBps", result.time ? fmt::format("{:.9g}", result.algbw_bytes_per_second() * 1e-9) : ""},
          {"busbw_GBps", result.time ? fmt::format("{:.9g}", result.busbw_bytes_per_second() * 1e-9) : ""},
          {"bound_us", bounded ? microseconds(result.bounds.front().time) : ""},
          {"bound", bounded ? result.bounds.front().name : ""},
          {"slack", optional_number(result.slack())},
          {"fault_free_us", optional_microseconds(result.fault_free)},
          {"overhead", optional_number(result.overhead())},
          {"transfers", std::to_string(result.transfers)},
          {"events", std::to_string(result.events)},
          {"group", result.group},
          {"recovery", result.disturbed ? result.recovery : ""},
          {"undisturbed_us", optional_microseconds(result.undisturbed)},
          {"detection_us", result.disturbed ? microseconds(result.detection) : ""},
          {"resending_us", result.disturbed ? microseconds(result.resending) : ""},
          {"planning_us", result.disturbed ? microseconds(result.planning) : ""},
          {"discarded_us", result.disturbed ? microseconds(result.discarded) : ""},
          {"lost_bytes", result.disturbed ? std::to_string(result.lost.count()) : ""},
          {"attempts", result.disturbed ? std::to_string(result.attempts) : ""},
          {"status", status}};
}

std::string percent(double fraction) { return fmt::format("{:.2f} %", fraction * 100); }

std::string wrap(const std::string& text, size_t indent, size_t width) {
  std::string result;
  size_t column = indent;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const size_t length = end - begin;
    if (column > indent && column + 1 + length > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  return result;
}

constexpr size_t label_width = 17;
constexpr size_t line_width = 100;

std::string line(const std::string& label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, label_width, wrap(text, label_width + 2, line_width));
}

// Where the time went that the run lost against the same schedules on a network that nothing happens to.
std::string disturbance_lines(const RunResult& result) {
  std::string text;
  if (!result.undisturbed) return text;
  text += line("undisturbed", show_time(*result.undisturbed));
  if (result.time) {
    const Duration loss = *result.time - *result.undisturbed;
    std::vector<std::string> parts;
    Duration known;
    const auto part = [&](Duration time, const std::string& what) {
      if (time.count() <= 0) return;
      parts.push_back(show_time(time) + " " + what);
      known = known + time;
    };
    part(result.detection, "until failures were known and flows moved");
    part(result.planning, "for new schedules");
    part(result.discarded, "of work begun anew");
    if (result.resending.count() > 0)
      part(result.resending, fmt::format("for {} sent again", to_string(result.lost)));
    const Duration slow = loss - known;
    if (slow.count() > 0) parts.push_back(show_time(slow) + " of slower running");
    std::string how;
    for (size_t i = 0; i < parts.size(); ++i) how += (i ? ", " : "") + parts[i];
    text += line("lost", loss.count() <= 0 ? "nothing" : show_time(loss) + " (" + percent(static_cast<double>(loss.count()) / static_cast<double>(result.undisturbed->count())) + "): " + how);
    if (result.latest_arrival.count() > 0) text += line("", fmt::format("the latest rank arrived after {}", show_time(result.latest_arrival)));
  }
  if (result.attempts > 1) text += line("attempts", std::to_string(result.attempts));
  return text;
}

std::string groups_table(const std::vector<RunResult>& groups) {
  size_t widest = 5;
  for (const RunResult& group : groups) widest = std::max(widest, group.group.size());
  std::string text = fmt::format("  {:<{}}  {:<20}  {:>6}  {:>10}  {:>12}  {:>12}\n", "group", widest, "algorithm", "ranks", "size", "time", "busbw GB/s");
  for (const RunResult& group : groups)
    text += fmt::format("  {:<{}}  {:<20}  {:>6}  {:>10}  {:>12}  {:>12}\n", group.group, widest, group.algorithm, group.collective.ranks,
                        to_string(group.size), group.time ? show_time(*group.time) : "-",
                        group.time ? fmt::format("{:.2f}", group.busbw_bytes_per_second() * 1e-9) : "-");
  return text;
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c == '\n' || c == '\r' ? ' ' : c;  // a row stays one line
  }
  return quoted + "\"";
}

const std::string& csv_header() {
  static const std::string header = [] {
    std::vector<std::string> names;
    for (const auto& [name, value] : fields_of({}, "")) names.push_back(name);
    return join_csv(names);
  }();
  return header;
}

std::string csv_rows(const RunResult& result) {
  std::string text = csv_row(result, status_of(result)) + "\n";
  for (const RunResult& group : result.groups) text += csv_row(group, status_of(group)) + "\n";
  return text;
}

std::string csv_row(const RunResult& result, const std::string& status) {
  std::vector<std::string> values;
  for (const auto& [name, value] : fields_of(result, status)) values.push_back(value);
  return join_csv(values);
}

std::string csv_failure_row(const std::string& scenario, const std::string& collective, const std::string& algorithm, const std::string& status) {
  std::vector<std::string> values(fields_of({}, "").size());
  values[0] = scenario;
  values[1] = collective;
  values[2] = algorithm;
  values.back() = status;
  return join_csv(values);
}

std::string status_of(const RunResult& result) {
  for (const Finding& finding : result.findings)
    if (finding.severity == Severity::error) return "invalid: " + std::string(finding.rule) + ": " + finding.message;
  switch (result.status) {
    case PlayStatus::finished: return "ok";
    case PlayStatus::stalled: return "stalled: " + (result.waiting.empty() ? std::string("nothing moves") : result.waiting.front());
    case PlayStatus::cut:
    case PlayStatus::interrupted: return "interrupted at " + show_time(result.stopped) + " of simulated time";
  }
  return "ok";
}

std::string show_time(Duration time) {
  struct Scale {
    double picoseconds;
    const char* unit;
  };
  static constexpr std::array<Scale, 4> scales = {Scale{1e12, "s"}, {1e9, "ms"}, {1e6, "us"}, {1e3, "ns"}};
  const double count = static_cast<double>(time.count());
  for (const Scale& scale : scales) {
    if (count < scale.picoseconds) continue;
    const double value = count / scale.picoseconds;
    const int decimals = value >= 100 ? 2 : value >= 10 ? 3 : 4;
    return fmt::format("{:.{}f} {}", value, decimals, scale.unit);
  }
  return fmt::format("{} ps", time.count());
}

std::string comparison_table(const std::vector<RunResult>& results, const std::vector<std::string>& status) {
  size_t widest = 9;
  for (const RunResult& result : results) widest = std::max(widest, result.algorithm.size());
  std::string text;
  // What all have in common is taken from the first that came to something.
  for (const RunResult& result : results) {
    if (!result.time) continue;
    text += fmt::format("{}: {} of {} on {} ranks", result.scenario, to_string(result.collective.type), to_string(result.size),
                        result.collective.ranks);
    if (!result.bounds.empty()) text += fmt::format("; lower bound {}", show_time(result.bounds.front().time));
    if (result.fault_free) text += fmt::format("; fault-free ring {}", show_time(*result.fault_free));
    text += "\n";
    break;
  }
  text += fmt::format("  {:<{}}  {:>12}  {:>12}  {:>10}  {:>10}  {:>9}  {:>11}\n", "algorithm", widest, "time", "busbw GB/s", "above bnd",
                      "overhead", "segments", "transfers");
  for (size_t i = 0; i < results.size(); ++i) {
    const RunResult& result = results[i];
    if (!result.time) {
      text += fmt::format("  {:<{}}  {}\n", result.algorithm, widest, status[i]);
      continue;
    }
    text += fmt::format("  {:<{}}  {:>12}  {:>12.2f}  {:>10}  {:>10}  {:>9}  {:>11}\n", result.algorithm, widest, show_time(*result.time),
                        result.busbw_bytes_per_second() * 1e-9, result.slack() ? percent(*result.slack()) : "-",
                        result.overhead() ? percent(*result.overhead()) : "-", result.segments, result.transfers);
  }
  return text;
}

std::string result_table(const RunResult& result) {
  const Collective& collective = result.collective;
  std::string text = fmt::format("{}: {} of {} on {} ranks", result.scenario, to_string(collective.type),
                                 to_string(result.size), collective.ranks);
  if (has_root(collective.type)) text += fmt::format(", root {}", collective.root);
  text += "\n";
  std::string layout = result.gpus_per_server ? fmt::format("{} of its GPUs a server in the group", result.gpus_per_server)
                                              : "servers with different numbers of ranks";
  text += line("network", fmt::format("{}; {} ({} model, {} sharing{})", result.topology, layout, result.model,
                                      sharing_name(result.sharing), result.every_nic ? ", every NIC" : ""));
  for (size_t i = 0; i < result.failures.size(); ++i) text += line(i ? "" : "broken", result.failures[i]);
  if (result.failures.empty()) text += line("broken", "nothing");
  if (!result.slowdowns.empty()) {
    // Neighbours that are equally slow, as the ranks of a server are, in one.
    std::string slow;
    size_t shown = 0;
    for (size_t i = 0; i < result.slowdowns.size();) {
      size_t end = i + 1;
      while (end < result.slowdowns.size() && result.slowdowns[end].second == result.slowdowns[i].second &&
             result.slowdowns[end].first == result.slowdowns[end - 1].first + 1)
        ++end;
      if (++shown > 8) {
        slow += fmt::format(" and {} more ranks", result.slowdowns.size() - i);
        break;
      }
      const std::string who = end == i + 1 ? fmt::format("rank {}", result.slowdowns[i].first)
                                           : fmt::format("ranks {} to {}", result.slowdowns[i].first, result.slowdowns[end - 1].first);
      slow += fmt::format("{}{} by {}", i ? ", " : "", who, result.slowdowns[i].second.to_string());
      i = end;
    }
    text += line("slower", slow);
  }
  text += line("algorithm", fmt::format("{}, {} segment{}, {} transfers", result.algorithm, result.segments,
                                        result.segments == 1 ? "" : "s", result.transfers));
  for (const std::string& note : result.notes) text += line("", note);
  if (!result.valid()) {
    text += line("schedule", "INVALID, not played:");
    text += findings_text(result.findings);
    return text;
  }
  text += line("schedule", "proven right");
  if (!result.ok()) {
    text += line("status", result.status == PlayStatus::stalled
                               ? fmt::format("STALLED: nothing has arrived after {}, and nothing more will", show_time(result.stopped))
                               : fmt::format("INTERRUPTED: until then transfers had arrived up to {}", show_time(result.stopped)));
    for (const std::string& waiting : result.waiting) text += line("", waiting);
  }
  if (result.time)
    text += line("time", fmt::format("{}   algbw {:.4g} GB/s   busbw {:.4g} GB/s", show_time(*result.time),
                                     result.algbw_bytes_per_second() * 1e-9, result.busbw_bytes_per_second() * 1e-9));
  if (!result.bounds.empty()) {
    const Bound& bound = result.bounds.front();
    text += line("lower bound", fmt::format("{} ({}): {}", show_time(bound.time), bound.name, bound.certificate));
    if (const auto slack = result.slack()) text += line("slack", percent(*slack) + " above the bound");
  }
  if (result.fault_free) {
    text += line("fault-free ring", show_time(*result.fault_free));
    if (const auto overhead = result.overhead()) text += line("overhead", percent(*overhead) + " over the fault-free ring");
  }
  if (result.disturbed) text += disturbance_lines(result);
  if (!result.groups.empty()) text += groups_table(result.groups);
  return text;
}

Json result_json(const RunResult& result) {
  Json json = Json::object();
  for (const auto& [name, value] : fields_of(result, status_of(result))) {
    // Numbers as numbers, but for those that a double would round.
    static constexpr std::array<std::string_view, 10> words = {"scenario", "collective", "algorithm", "slowdowns", "network",
                                                               "sharing", "bound", "group", "recovery", "status"};
    if (std::find(words.begin(), words.end(), name) != words.end())
      json[name] = value;
    else if (value.empty())
      json[name] = nullptr;
    else
      json[name] = Json::parse(value);
  }
  json["topology"] = result.topology;
  json["failures"] = result.failures;
  json["notes"] = result.notes;
  json["bounds"] = bounds_json(result.bounds);
  json["findings"] = findings_json(result.findings);
  json["waiting"] = result.waiting;
  if (!result.groups.empty()) {
    json["groups"] = Json::array();
    for (const RunResult& group : result.groups) json["groups"].push_back(result_json(group));
  }
  return json;
}

std::string bounds_table(const std::vector<Bound>& bounds) {
  size_t width = 0;
  for (const Bound& bound : bounds) width = std::max(width, bound.name.size());
  std::string text;
  for (const Bound& bound : bounds) {
    std::string detail = bound.certificate + " [" + bound.source + "]";
    text += fmt::format("{:>12}  {:<{}}  {}\n", show_time(bound.time), bound.name, width, wrap(detail, 16 + width, line_width));
  }
  return text;
}

Json bounds_json(const std::vector<Bound>& bounds) {
  Json list = Json::array();
  for (const Bound& bound : bounds) {
    Json entry = {{"name", bound.name},
                  {"time_us", Json::parse(microseconds(bound.time))},
                  {"certificate", bound.certificate},
                  {"source", bound.source},
                  {"amount_bytes", bound.amount.count()},
                  {"capacity_bps", bound.capacity.count()},
                  {"parts", bound.parts}};
    if (bound.rate_in_links) entry["rate_in_links"] = bound.rate_in_links->to_string();
    list.push_back(std::move(entry));
  }
  return list;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}{}{}: {}: {}\n", finding.where, finding.where.empty() ? "" : ": ", to_string(finding.severity),
                        finding.rule, finding.message);
    for (const std::string& step : finding.witness) text += "    " + step + "\n";
  }
  return text;
}

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json entry = {{"rule", finding.rule},
                  {"severity", to_string(finding.severity)},
                  {"message", finding.message},
                  {"where", finding.where},
                  {"witness", finding.witness}};
    if (finding.transfer >= 0) entry["transfer"] = finding.transfer;
    if (finding.rank >= 0) entry["rank"] = finding.rank;
    if (finding.chunk >= 0) entry["chunk"] = finding.chunk;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace slackline
