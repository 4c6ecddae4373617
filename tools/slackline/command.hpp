// What a subcommand of slackline is, and what several of them share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "topology/readers.hpp"

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

/// Options of every command that reads a topology of another tool.
struct TopologyOptions {
  std::string nvlinks, nic_bandwidth, pcie_bandwidth;
  int capability = 0, servers = 1;
  /// Throws Error{usage} for rates that are none.
  TopologyReadOptions reading() const;
  bool any() const { return !nvlinks.empty() || !nic_bandwidth.empty() || !pcie_bandwidth.empty() || capability > 0 || servers > 1; }
};
void add_topology_options(CLI::App& app, TopologyOptions& options);

/// Throws Error{usage} if writing to `out` would replace one of the files that the command reads.
void keep_inputs(const std::string& out, std::initializer_list<std::string> inputs);

/// Writes `text` to `path`, whole or not at all; to standard output where `path` is empty.
void put(const std::string& path, const std::string& text);

}  // namespace slackline
