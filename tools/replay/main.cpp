// slackline-replay: executes a schedule on real memory, checks what comes out, and measures how long it took.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <thread>

#include "base/error.hpp"
#include "base/files.hpp"
#include "replay/registry.hpp"
#include "replay/report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule_io.hpp"
#include "schedule/validate.hpp"

namespace slackline {
namespace {

struct Options {
  std::string schedule, size, element, backend = "cpu", shape, out, trace;
  std::vector<std::string> settings;
  int iterations = 20, warmup = 5, ranks_per_gpu = 0;
  double timeout = 30, factor = 0;
  bool force = false;
};

void declare(CLI::App& app, Options& options) {
  std::string backends, elements;
  for (const BackendEntry& entry : replay_backends()) backends += (backends.empty() ? "" : ", ") + std::string(entry.name);
  for (const std::string_view name : element_type_names()) elements += (elements.empty() ? "" : ", ") + std::string(name);
  app.add_option("schedule", options.schedule, "Schedule file (schedules/README.md)")->required()->type_name("SCHEDULE");
  app.add_option("--size", options.size, "The message, e.g. 64MiB; default 256MiB, or the scenario's size")->type_name("BYTES");
  app.add_option("--element", options.element, "One of " + elements + "; default float32")->type_name("TYPE");
  app.add_option("--backend", options.backend, "One of " + backends)->capture_default_str()->type_name("NAME");
  app.add_option("--iterations", options.iterations, "Timed and checked runs")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  app.add_option("--warmup", options.warmup, "Runs before those")->capture_default_str()->check(CLI::Range(0, 1'000'000));
  app.add_option("--ranks-per-gpu", options.ranks_per_gpu, "cuda: at most so many ranks share a GPU; default: as many as must")
      ->check(CLI::Range(1, 1'000'000))->type_name("N");
  app.add_option("--shape", options.shape, "cpu: pace ports to this scenario's network")->type_name("SCENARIO.json");
  app.add_option("--set", options.settings, "Change a value of the scenario; repeatable")->type_name("PATH=VALUE")
      ->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--shape-factor", options.factor, "Pace this much slower than the scenario; default: such that pacing dominates")
      ->check(CLI::Range(1.0, 1e12))->type_name("FACTOR");
  app.add_option("--timeout", options.timeout, "Give up after so many seconds without progress (cpu), or of one run (nccl)")->capture_default_str()
      ->check(CLI::Range(0.1, 1e6))->type_name("SECONDS");
  app.add_option("--out", options.out, "Write a CSV table")->type_name("FILE.csv");
  app.add_option("--trace", options.trace, "cpu: write the last run for chrome://tracing")->type_name("FILE.json");
  app.add_flag("--force", options.force, "Execute a schedule that is wrong");
}

const BackendEntry& find_backend(const std::string& name) {
  std::vector<std::string_view> names;
  for (const BackendEntry& entry : replay_backends()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw Error(ErrorKind::usage, "--backend: there is no backend \"" + name + "\"" + suggest_name(name, names));
}

ElementType choose_element(const Options& options, const Scenario* scenario) {
  if (options.element.empty() && scenario == nullptr) return ElementType::float32;
  if (options.element.empty()) {
    if (scenario->element == Bytes(4)) return ElementType::float32;
    if (scenario->element == Bytes(2)) return ElementType::float16;
    throw Error(ErrorKind::input, "elements of " + to_string(scenario->element) + " cannot be executed, only 2 B and 4 B",
                options.shape + ": /collective/element");
  }
  try {
    const ElementType type = element_type(options.element);
    if (scenario != nullptr && scenario->element != element_size(type))
      throw Error(ErrorKind::usage, "--element " + options.element + " has " + to_string(element_size(type)) +
                                        ", and the scenario's elements have " + to_string(scenario->element));
    return type;
  } catch (const std::out_of_range&) {
    throw Error(ErrorKind::usage, "--element: there is no type \"" + options.element + "\"" +
                                      suggest_name(options.element, element_type_names()));
  }
}

// The buffers must fit; being killed for memory after a while helps nobody.
void check_memory(const Plan& plan) {
  double needed = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (int b = 0; b < 4; ++b) needed += static_cast<double>(plan.buffer_bytes(rank, static_cast<Buffer>(b)));
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > 0.9 * there)
    throw Error(ErrorKind::input, fmt::format("the buffers of {} ranks need {:.1f} GiB, and this machine has {:.1f} GiB; use a smaller --size",
                                              plan.ranks(), needed / (1 << 30), there / (1 << 30)));
}

// Prints what is wrong with the schedule; true if it must not be executed.
bool refused(const Schedule& schedule, const Options& options) {
  const std::vector<Finding> findings = validate(schedule);
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::error) continue;
    fmt::print(stderr, "slackline-replay: {}: {}{}{}: {}\n", options.schedule, finding.where, finding.where.empty() ? "" : ": ",
               finding.rule, finding.message);
  }
  if (!has_errors(findings)) return false;
  fmt::print(stderr, "slackline-replay: {} is wrong; {}\n", options.schedule,
             options.force ? "executing it all the same" : "--force executes it all the same");
  return !options.force;
}

int replay(const Options& options) {
  const BackendEntry& entry = find_backend(options.backend);
  entry.require();
  if (options.shape.empty() && (!options.settings.empty() || options.factor > 0))
    throw Error(ErrorKind::usage, "--set and --shape-factor need --shape");
  std::optional<Scenario> scenario;
  if (!options.shape.empty()) scenario.emplace(parse_scenario(read_scenario(options.shape, options.settings)));
  const Schedule schedule = read_schedule(options.schedule);
  if (scenario && (scenario->collective.type != schedule.collective().type || scenario->network.ranks() != schedule.collective().ranks))
    throw Error(ErrorKind::input,
                fmt::format("the schedule is for {} on {} ranks, and the scenario is for {} on {}", to_string(schedule.collective().type),
                            schedule.collective().ranks, to_string(scenario->collective.type), scenario->network.ranks()),
                options.schedule);
  if (refused(schedule, options)) return 1;

  const ElementType element = choose_element(options, scenario ? &*scenario : nullptr);
  Bytes size(int64_t{256} << 20);
  if (!options.size.empty())
    size = parse_bytes(options.size, "--size");
  else if (scenario)
    size = scenario->size;
  const auto plan = std::make_shared<const Plan>(build_plan(schedule, size, element_size(element)));
  BackendOptions wanted;
  wanted.record_times = !options.trace.empty();
  wanted.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000));
  wanted.ranks_per_gpu = options.ranks_per_gpu;
  ReplayResult result;
  if (scenario) {
    const double factor = options.factor > 0 ? options.factor
                                             : shape_factor(scenario->network, *plan, std::max(1u, std::thread::hardware_concurrency()));
    wanted.shape = Shape{&scenario->network, scenario->sharing, factor};
    result.shaped = ShapedBy{scenario->name, scenario->network.servers(), scenario->network.ranks_per_server(), {}, scenario->sharing, factor};
    for (const int rank : scenario->network.stragglers())
      result.shaped->slowdowns.emplace_back(rank, scenario->network.slowdown(rank));
  }
  if (options.backend == "cpu") check_memory(*plan);
  const std::unique_ptr<ReplayBackend> backend = entry.make({plan, element}, wanted);

  result.backend = options.backend;
  result.collective = schedule.collective();
  result.algorithm = schedule.algorithm().empty() ? std::filesystem::path(options.schedule).filename().string() : schedule.algorithm();
  result.element = element;
  result.bytes = plan->layout().message().size();
  result.transfers = schedule.size();
  if (backend->reports()) {
    fmt::print("# slackline-replay {}: {}, {} on {} ranks, {} transfers\n", SLACKLINE_VERSION, result.algorithm,
               to_string(result.collective.type), result.collective.ranks, result.transfers);
    if (result.bytes != size.count())
      fmt::print("# {} B were asked for; this schedule needs whole elements{}\n", size.count(),
                 result.bytes - size.count() >= element_bytes(element) ? " in equal units" : "");
    if (result.shaped)
      fmt::print("# paced {:g} times slower than scenario \"{}\"; the times are divided by that\n", result.shaped->factor, result.shaped->scenario);
    std::fflush(stdout);
  }

  uint32_t seed = 0;
  const auto measure = [&](ReplayResult& measured, double (ReplayBackend::*run)(uint32_t)) {
    for (int i = 0; i < options.warmup; ++i) (*backend.*run)(seed++);
    for (int i = 0; i < options.iterations; ++i) {
      measured.times.push_back((*backend.*run)(seed++) / (result.shaped ? result.shaped->factor : 1));
      measured.wrong += backend->wrong();
    }
  };
  std::vector<ReplayResult> results = {result};
  measure(results.front(), &ReplayBackend::run);
  if (!backend->reference().empty()) {
    results.push_back(result);
    results.back().algorithm = backend->reference();
    results.back().transfers = 0;
    measure(results.back(), &ReplayBackend::run_reference);
  }
  const int code = std::any_of(results.begin(), results.end(), [](const ReplayResult& each) { return each.wrong > 0; }) ? 1 : 0;
  if (!backend->reports()) return code;
  for (const std::string& note : backend->notes()) fmt::print("# {}: {}\n", options.backend, note);
  fmt::print("{}# time: the median of {}; fastest {:.2f} us, slowest {:.2f} us\n", replay_table(results), options.iterations,
             results.front().fastest() * 1e6, results.front().slowest() * 1e6);
  if (!options.out.empty()) write_file_atomically(options.out, [&](std::ostream& stream) { stream << replay_csv(results); });
  if (!options.trace.empty())
    write_file_atomically(options.trace, [&](std::ostream& stream) { stream << replay_trace(*plan, backend->times()); });
  return code;
}

}  // namespace
}  // namespace slackline

int main(int argc, char** argv) {
  using namespace slackline;
  CLI::App app{
      "slackline-replay: executes a schedule on real memory, checks the result and measures the time.\n"
      "Exit codes: 0 fine, 1 wrong schedule or results, 2 bad input or usage, 3 device or internal."};
  app.set_version_flag("--version", SLACKLINE_VERSION);
  Options options;
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "slackline-replay: {} (slackline-replay --help says more)\n", error.what());
    return 2;
  }
  int code = 3;
  try {
    code = replay(options);
  } catch (const Error& error) {
    fmt::print(stderr, "slackline-replay: {}\n", error.what());
    code = error.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "slackline-replay: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "slackline-replay: internal error: {}\n", error.what());
  }
  // Not by return: a rank's thread that hangs would go on using what that destroys; and after an error under MPI this is what
  // tells mpirun to end the other processes.
  std::fflush(stdout);
  std::_Exit(code);
}
