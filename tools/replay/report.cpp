#include "replay/report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace slackline {

namespace {

// nccl-tests' doc/PERFORMANCE.md.
double busbw_factor(const Collective& collective) {
  const double ranks = collective.ranks;
  switch (collective.type) {
    case CollectiveType::allreduce: return 2 * (ranks - 1) / ranks;
    case CollectiveType::broadcast:
    case CollectiveType::reduce: return 1;
    default: return (ranks - 1) / ranks;
  }
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

double ReplayResult::median() const {
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
double ReplayResult::fastest() const { return *std::min_element(times.begin(), times.end()); }
double ReplayResult::slowest() const { return *std::max_element(times.begin(), times.end()); }
double ReplayResult::algbw() const { return static_cast<double>(bytes) / median(); }
double ReplayResult::busbw() const { return algbw() * busbw_factor(collective); }

std::string replay_table(std::span<const ReplayResult> results) {
  std::string text = fmt::format("#{:>11} {:>12} {:>9} {:>6} {:>6} {:>12} {:>8} {:>8} {:>8}\n", "size", "count", "type",
                                 "redop", "root", "time", "algbw", "busbw", "#wrong");
  text += fmt::format("#{:>11} {:>12} {:>9} {:>6} {:>6} {:>12} {:>8} {:>8} {:>8}\n", "(B)", "(elements)", "", "", "",
                      "(us)", "(GB/s)", "(GB/s)", "");
  for (const ReplayResult& result : results) {
    if (&result != &results.front()) text += "# " + result.algorithm + ":\n";
    text += fmt::format("{:>12} {:>12} {:>9} {:>6} {:>6} {:>12.2f} {:>8.3f} {:>8.3f} {:>8}\n", result.bytes,
                        result.bytes / element_bytes(result.element), to_string(result.element),
                        reduces(result.collective.type) ? to_string(result.collective.reduction) : "none", result.collective.root,
                        result.median() * 1e6, result.algbw() * 1e-9, result.busbw() * 1e-9, result.wrong);
  }
  return text;
}

namespace {

std::vector<std::pair<std::string_view, std::string>> csv_fields(const ReplayResult& result) {
  std::string slowdowns;
  if (result.shaped)
    for (const auto& [rank, l] : result.shaped->slowdowns)
      slowdowns += fmt::format("{}{}:{}", slowdowns.empty() ? "" : ";", rank, l.to_string());
  const auto of_scenario = [&](const auto& value) { return result.shaped ? fmt::format("{}", value) : std::string(); };
  const ShapedBy shaped = result.shaped.value_or(ShapedBy());
  return {
      {"scenario", csv_text(shaped.scenario)},
      {"collective", std::string(to_string(result.collective.type))},
      {"algorithm", csv_text(result.algorithm)},
      {"ranks", fmt::format("{}", result.collective.ranks)},
      {"servers", of_scenario(shaped.servers)},
      {"gpus_per_server", shaped.gpus_per_server > 0 ? of_scenario(shaped.gpus_per_server) : ""},
      {"bytes", fmt::format("{}", result.bytes)},
      {"slowdowns", slowdowns},
      {"network", result.backend},
      {"sharing", of_scenario(shaped.sharing == Sharing::fair ? "fair" : "exclusive")},
      {"time_us", fmt::format("{:.6f}", result.median() * 1e6)},
      {"algbw_GBps", fmt::format("{:.9g}", result.algbw() * 1e-9)},
      {"busbw_GBps", fmt::format("{:.9g}", result.busbw() * 1e-9)},
      {"transfers", result.transfers > 0 ? fmt::format("{}", result.transfers) : ""},
      {"status", result.wrong == 0 ? "ok" : fmt::format("{} elements wrong", result.wrong)},
      {"element", std::string(to_string(result.element))},
      {"iterations", fmt::format("{}", result.times.size())},
      {"time_min_us", fmt::format("{:.6f}", result.fastest() * 1e6)},
      {"time_max_us", fmt::format("{:.6f}", result.slowest() * 1e6)},
      {"shape_factor", result.shaped ? fmt::format("{:.9g}", shaped.factor) : ""},
      {"wrong", fmt::format("{}", result.wrong)}};
}

}  // namespace

std::string replay_csv(std::span<const ReplayResult> results) {
  std::string header, rows;
  for (const ReplayResult& result : results) {
    std::string row;
    header.clear();
    for (const auto& [name, value] : csv_fields(result)) {
      if (!header.empty()) {
        header += ',';
        row += ',';
      }
      header += name;
      row += value;
    }
    rows += row + "\n";
  }
  return header + "\n" + rows;
}

std::string replay_trace(const Plan& plan, const std::vector<StepTimes>& times) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto event = [&](const std::string& fields) {
    text += separator + ("{" + fields + "}");
    separator = ",\n";
  };
  uint32_t named = Step::none;
  for (const Plan::Program& program : plan.programs()) {
    if (program.rank != named)
      event(fmt::format(R"("ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}})", program.rank));
    named = program.rank;
    event(fmt::format(R"("ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":"channel {1}"}})", program.rank, program.channel));
  }
  for (const StepTimes& time : times) {
    const Step& step = plan.steps()[time.step];
    event(fmt::format(R"("ph":"X","name":"{} from rank {}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"transfer":{},"bytes":{}}})",
                      step.reduces() ? "reduce" : "copy", step.peer, step.rank, step.channel, static_cast<double>(time.begin_ns) * 1e-3,
                      static_cast<double>(time.end_ns - time.begin_ns) * 1e-3, step.transfer, plan.bytes(time.step)));
  }
  return text + "\n]}\n";
}

}  // namespace slackline
