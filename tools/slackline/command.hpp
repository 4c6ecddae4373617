// What a subcommand of slackline is, and what several of them share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace slackline {

/// A subcommand: one file, one line in commands() of main.cpp. `add` declares its options on a new subcommand and
/// returns what runs it; that returns the exit code and throws Error.
struct Command {
  std::string_view name;
  std::string_view summary;
  std::function<int()> (*add)(CLI::App& app);
};

extern const Command run_command, sweep_command, generate_command, validate_command, convert_command, bound_command,
    topology_command, compare_command, plot_command;

/// Options of every command that takes a scenario.
struct ScenarioOptions {
  std::string file;
  std::vector<std::string> settings;
};
void add_scenario_options(CLI::App& app, ScenarioOptions& options);

/// Throws Error{usage} if writing to `out` would replace one of the files that the command reads.
void keep_inputs(const std::string& out, std::initializer_list<std::string> inputs);

/// Writes `text` to `path`, whole or not at all; to standard output where `path` is empty.
void put(const std::string& path, const std::string& text);

}  // namespace slackline
