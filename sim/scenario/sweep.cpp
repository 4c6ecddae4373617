#include "scenario/sweep.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>

#include "base/error.hpp"
#include "base/files.hpp"

namespace slackline {

namespace fs = std::filesystem;

namespace {

std::atomic<bool> stop_requested{false};

/// Notes SIGINT and SIGTERM for as long as it lives.
class SignalGuard {
 public:
  SignalGuard() {
    stop_requested = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { stop_requested = true; };
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~SignalGuard() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

struct Child {
  pid_t pid;
  int pipe;
  std::string output;
};

// The journal: a line with the fingerprint, then "POINT<tab>ok|failed<tab>LINE" for each finished point.
std::map<size_t, SweepRow> read_journal(const SweepJob& job, const fs::path& path) {
  std::map<size_t, SweepRow> rows;
  std::ifstream stream(path);
  std::string line;
  if (!std::getline(stream, line)) return rows;
  if (line != job.fingerprint)
    throw Error(ErrorKind::usage, "holds the rows of another scenario; run without --resume to start anew", path.string());
  while (std::getline(stream, line)) {
    if (stream.eof()) break;  // no line end: the write was cut short
    size_t point = 0;
    const char* const end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data(), end, point);
    const std::string_view tail(rest, static_cast<size_t>(end - rest));
    if (error != std::errc() || point >= job.labels.size()) continue;
    for (const std::string_view mark : {"\tok\t", "\tfailed\t"})
      if (tail.starts_with(mark)) rows[point] = {std::string(tail.substr(mark.size())), mark == "\tfailed\t"};
  }
  return rows;
}

Child start(const SweepJob& job, size_t point) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(ErrorKind::internal, std::string("pipe: ") + std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) throw Error(ErrorKind::internal, std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    // Ctrl-C reaches the whole process group; the parent decides, and a point that dies of it must not count as failed.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    int status = 3;
    try {
      const SweepRow row = job.run(point);
      size_t written = 0;
      while (written < row.line.size()) {
        const ssize_t count = write(ends[1], row.line.data() + written, row.line.size() - written);
        if (count <= 0) _exit(3);
        written += static_cast<size_t>(count);
      }
      status = row.failed ? 1 : 0;
    } catch (...) {
      // run() reports what goes wrong in its row; whatever else there is counts as a crash.
    }
    _exit(status);
  }
  close(ends[1]);
  return {pid, ends[0], {}};
}

}  // namespace

SweepOutcome run_sweep(const SweepJob& job) {
  const fs::path journal_path = job.out.string() + ".partial";
  SweepOutcome outcome;
  outcome.points = job.labels.size();
  std::map<size_t, SweepRow> rows;
  if (job.resume && fs::exists(journal_path)) rows = read_journal(job, journal_path);
  outcome.resumed = rows.size();

  std::ofstream journal(journal_path, std::ios::trunc);
  if (!journal) throw Error(ErrorKind::io, std::string("cannot be written: ") + std::strerror(errno), journal_path.string());
  const auto note = [&](size_t point, const SweepRow& row) {
    journal << point << (row.failed ? "\tfailed\t" : "\tok\t") << row.line << "\n" << std::flush;
    if (!journal) throw Error(ErrorKind::io, "writing failed", journal_path.string());
  };
  journal << job.fingerprint << "\n";
  for (const auto& [point, row] : rows) note(point, row);

  const SignalGuard guard;
  std::map<size_t, Child> running;
  const auto stop_all = [&] {
    for (auto& [point, child] : running) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
      close(child.pipe);
    }
    running.clear();
  };
  try {
    size_t next = 0;
    while (true) {
      while (!stop_requested && running.size() < static_cast<size_t>(job.jobs) && next < outcome.points) {
        if (!rows.contains(next)) running.emplace(next, start(job, next));
        ++next;
      }
      if (running.empty() || stop_requested) break;
      std::vector<pollfd> waiting;
      for (const auto& [point, child] : running) waiting.push_back({child.pipe, POLLIN, 0});
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;  // a signal
      size_t position = 0;
      for (auto entry = running.begin(); entry != running.end();) {
        auto& [point, child] = *entry;
        if (!waiting[position++].revents) {
          ++entry;
          continue;
        }
        char buffer[4096];
        const ssize_t count = read(child.pipe, buffer, sizeof buffer);
        if (count > 0) {
          child.output.append(buffer, static_cast<size_t>(count));
          ++entry;
          continue;
        }
        close(child.pipe);
        int status = 0;
        waitpid(child.pid, &status, 0);
        SweepRow row{child.output, true};
        if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
          row.failed = WEXITSTATUS(status) == 1;
        else
          row.line = job.crashed(point, WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) +
                                                                 " (" + strsignal(WTERMSIG(status)) + ")"
                                                           : "ended with status " + std::to_string(WEXITSTATUS(status)));
        note(point, row);
        rows[point] = row;
        if (job.progress)
          job.progress("[" + std::to_string(rows.size()) + "/" + std::to_string(outcome.points) + "] " +
                       (row.failed ? "FAILED " : "") + job.labels[point]);
        entry = running.erase(entry);
      }
    }
  } catch (...) {
    stop_all();
    throw;
  }
  stop_all();
  for (const auto& [point, row] : rows) outcome.failed += row.failed ? 1 : 0;
  if (rows.size() < outcome.points) {
    outcome.interrupted = true;
    return outcome;
  }
  write_file_atomically(job.out, [&](std::ostream& stream) {
    stream << job.header << "\n";
    for (const auto& [point, row] : rows) stream << row.line << "\n";
  });
  journal.close();
  fs::remove(journal_path);
  return outcome;
}

}  // namespace slackline
