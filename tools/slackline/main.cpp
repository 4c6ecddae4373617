// The command line: picks the subcommand, turns errors into one line and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/error.hpp"
#include "base/files.hpp"
#include "command.hpp"

namespace slackline {

void add_scenario_options(CLI::App& app, ScenarioOptions& options) {
  app.add_option("scenario", options.file, "Scenario file (scenarios/README.md)")->required()->type_name("SCENARIO.json");
  app.add_option("--set", options.settings, "Change a value of the scenario, e.g. collective.size=64MiB; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void keep_inputs(const std::string& out, std::initializer_list<std::string> inputs) {
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (!out.empty() && !input.empty() && std::filesystem::equivalent(out, input, ignored))
      throw Error(ErrorKind::usage, "is what the command reads; write to another file", out);
  }
}

void put(const std::string& path, const std::string& text) {
  if (path.empty()) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw Error(ErrorKind::io, "cannot be written", "standard output");
  } else {
    write_file_atomically(path, [&](std::ostream& stream) { stream << text; });
  }
}

}  // namespace slackline

int main(int argc, char** argv) {
  using namespace slackline;
  CLI::App app{
      "slackline: how close to optimal is this collective schedule on this (damaged) network, and is it correct?\n"
      "Exit codes: 0 fine, 1 findings or a missed expectation, 2 bad input or usage, 3 internal."};
  app.require_subcommand(1);
  app.set_version_flag("--version", SLACKLINE_VERSION);
  const std::array<const Command*, 9> commands = {&run_command,     &sweep_command, &generate_command, &validate_command, &convert_command,
                                                  &bound_command,   &topology_command, &compare_command, &plot_command};
  std::function<int()> selected;
  for (const Command* command : commands) {
    CLI::App* sub = app.add_subcommand(std::string(command->name), std::string(command->summary));
    auto action = command->add(*sub);
    sub->callback([&selected, action] { selected = action; });
  }
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string_view> names;
    for (const Command* command : commands) names.push_back(command->name);
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      fmt::print(stderr, "slackline: unknown command \"{}\"{}\n", argv[1], suggest_name(argv[1], names));
      return 2;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "slackline: {} (slackline --help says more)\n", error.what());
    return 2;
  }
  try {
    return selected();
  } catch (const Error& error) {
    fmt::print(stderr, "slackline: {}\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "slackline: out of memory\n");
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "slackline: internal error: {}\n", error.what());
    return 3;
  }
}
