// Verdicts on every schedule and topology of the corpus, against the tables in results/. To write the tables anew:
//   SLACKLINE_WRITE_TABLES=1 build/bin/corpus_tests
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schedule/message_program.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/mscclpp_check.hpp"
#include "schedule/schedule_io.hpp"
#include "topology/readers.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

const fs::path corpus = fs::path(SLACKLINE_SHARED_DIR) / "corpus";

std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with("manifest")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The corpus keeps its largest files compressed.
std::string contents(const fs::path& path) {
  if (path.extension() != ".xz") return read_file(path);
  FILE* pipe = popen(("xz -dc '" + path.string() + "'").c_str(), "r");
  std::string text;
  char buffer[1 << 16];
  for (size_t n; pipe && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  if (!pipe || pclose(pipe) != 0) throw Error(ErrorKind::io, "cannot be unpacked with xz", path.string());
  return text;
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c == '\n' ? ' ' : c);
  return result + "\"";
}

// Messages name the path as it was given; tables must not depend on where the corpus lies.
std::string relative(std::string text) {
  const std::string prefix = corpus.string() + "/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
  return text;
}

std::string rules_of(const std::vector<Finding>& findings, Severity severity) {
  std::set<std::string> rules;
  for (const Finding& finding : findings)
    if (finding.severity == severity) rules.insert(std::string(finding.rule));
  std::string text;
  for (const std::string& rule : rules) text += (text.empty() ? "" : " ") + rule;
  return text;
}

std::string safe_size(const MscclFifoVerdict& verdict) {
  switch (verdict.progress) {
    case MscclProgress::completes: return "any";
    case MscclProgress::completes_small: return std::to_string(verdict.largest_safe_size->count());
    case MscclProgress::needs_capacity: return "none (needs " + std::to_string(verdict.needed_calls) + " calls)";
    case MscclProgress::never: return "none";
    case MscclProgress::unknown: break;
  }
  return "";
}

std::string verdict_table() {
  std::ostringstream out;
  out << "file,format,collective,ranks,steps,msccl,azure,rccl,mscclpp,in_place,out_of_place,largest_safe_bytes_one_node,"
         "largest_safe_bytes_8_per_node,largest_safe_bytes_all_nodes,errors,warnings,reason\n";
  for (const fs::path& path : files_under(corpus / "schedules")) {
    const std::string name = fs::relative(path, corpus / "schedules").string();
    std::vector<std::string> row;
    try {
      const std::string text = contents(path);
      if (looks_like_msccl_xml(text)) {
        std::vector<Finding> reading;
        const MscclProgram program = read_msccl_xml(text, name, MscclDialect::any, reading);
        const MscclReport report = check_msccl(program, {}, reading);
        MscclCheckOptions eight;
        eight.ranks_per_node = 8;
        const MscclReport by_eight = check_msccl(program, eight);
        row = {name, "MSCCL XML", program.collective, std::to_string(program.ranks), std::to_string(program.steps()), report.verdict(0), report.verdict(1), report.verdict(2), "",
               std::string(to_string(report.in_place)), std::string(to_string(report.out_of_place)), safe_size(report.one_node), safe_size(by_eight.one_node),
               safe_size(report.all_nodes), rules_of(report.findings, Severity::error), rules_of(report.findings, Severity::warning), ""};
      } else if (looks_like_mscclpp_plan(text)) {
        std::vector<Finding> reading;
        const MscclppPlan plan = read_mscclpp_plan(text, name, reading);
        const MscclppReport report = check_mscclpp(plan, {}, reading);
        row = {name, "MSCCL++ plan", plan.collective, std::to_string(plan.gpus.size()), std::to_string(plan.ops()), "", "", "", report.verdict(),
               plan.in_place ? report.contents() : "", plan.in_place ? "" : report.contents(), "", "", "", rules_of(report.findings, Severity::error), rules_of(report.findings, Severity::warning), ""};
      } else if (looks_like_goal(text) || looks_like_chakra(text)) {
        const MessageProgram program = looks_like_goal(text) ? read_goal(text, name) : read_chakra(path, name);
        const MessageReport report = check_messages(program);
        const std::string ends = !report.ends ? "never ends" : report.ends_unbuffered ? "ends with any buffering" : "ends only if sends are buffered";
        row = {name, program.format, "", std::to_string(program.ranks.size()), std::to_string(program.ops()), "", "", "", "", "", "", "", "", "", rules_of(report.findings, Severity::error), rules_of(report.findings, Severity::warning),
               ends + "; contents cannot be checked"};
      } else {
        const Schedule schedule = read_schedule(path);
        const std::vector<Finding> findings = validate(schedule);
        row = {name, schedule.algorithm(), std::string(to_string(schedule.collective().type)), std::to_string(schedule.collective().ranks), std::to_string(schedule.size()), "", "", "", "",
               schedule.collective().in_place ? (has_errors(findings) ? "wrong" : "right") : "", schedule.collective().in_place ? "" : has_errors(findings) ? "wrong" : "right",
               "", "", "", rules_of(findings, Severity::error), rules_of(findings, Severity::warning), ""};
      }
    } catch (const Error& error) {
      row = {name, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", relative(error.what())};
    }
    for (size_t i = 0; i < row.size(); ++i) out << (i ? "," : "") << csv_text(row[i]);
    out << '\n';
  }
  return out.str();
}

std::string topology_table() {
  std::ostringstream out;
  out << "file,format,servers,gpus,nics,nvlink_GBps_of_gpu0,notes,reason\n";
  for (const fs::path& path : files_under(corpus / "topologies")) {
    const std::string name = fs::relative(path, corpus / "topologies").string();
    std::vector<std::string> row;
    try {
      const TopologyFile file = read_topology_file(path);
      size_t gpus = 0, nics = 0;
      for (const TopologyServer& server : file.topology.servers) {
        gpus += server.gpus.size();
        nics += server.nics.size();
      }
      int64_t nvlink = 0;
      const TopologyVertexId first = file.topology.servers.at(0).gpus.at(0);
      for (auto [edge, end] = boost::out_edges(first, file.topology.graph); edge != end; ++edge)
        if (file.topology.graph[*edge].kind == LinkKind::nvlink) nvlink += file.topology.graph[*edge].bandwidth.count();
      std::string notes;
      for (const std::string& note : file.notes) notes += (notes.empty() ? "" : "; ") + note;
      row = {name, file.format, std::to_string(file.topology.servers.size()), std::to_string(gpus), std::to_string(nics), std::to_string(nvlink / 8'000'000'000), notes, ""};
    } catch (const Error& error) {
      row = {name, "", "", "", "", "", "", relative(error.what())};
    }
    for (size_t i = 0; i < row.size(); ++i) out << (i ? "," : "") << csv_text(row[i]);
    out << '\n';
  }
  return out.str();
}

// Line by line, so that a difference is shown and not the whole table.
void compare(const std::string& made, const std::string& table) {
  if (!fs::exists(corpus)) GTEST_SKIP() << "there is no corpus at " << corpus;
  const fs::path path = fs::path(SLACKLINE_SOURCE_DIR) / "results" / table;
  if (std::getenv("SLACKLINE_WRITE_TABLES")) write_file_atomically(path, [&](std::ostream& stream) { stream << made; });
  std::istringstream left(read_file(path)), right(made);
  std::string expected, actual;
  while (true) {
    const bool more = static_cast<bool>(std::getline(left, expected)), also = static_cast<bool>(std::getline(right, actual));
    ASSERT_EQ(more, also) << "the tables have different lengths";
    if (!more) break;
    EXPECT_EQ(actual, expected);
  }
}

TEST(CorpusTables, VerdictsAreThoseOfTheTable) {
  if (!fs::exists(corpus)) GTEST_SKIP() << "there is no corpus at " << corpus;
  compare(verdict_table(), "corpus_verdicts.csv");
}

TEST(CorpusTables, TopologiesAreThoseOfTheTable) {
  if (!fs::exists(corpus)) GTEST_SKIP() << "there is no corpus at " << corpus;
  compare(topology_table(), "corpus_topologies.csv");
}

}  // namespace
}  // namespace slackline
