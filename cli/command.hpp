// SPDX-License-Identifier: Apache-2.0
// The commands of moegen: a word, what it does, and the function that does it.
#pragma once

#include <span>
#include <string_view>

#include "support/options.hpp"

namespace moegen::cli {

/// Runs a command on the words that follow it and returns the exit code. Throws whatever main() turns into one.
using Run = int (*)(const Arguments&);

struct Command {
  std::string_view name;
  std::string_view summary;  ///< for the list of commands
  Run run = nullptr;         ///< null for a group
  std::span<const Command> children = {};
};

/// Every command, in the order of the usage text.
std::span<const Command> all_commands() noexcept;

/// Finds the command that `arguments` starts with and runs it on the rest; without one, or with --help or --version,
/// prints what was asked for. Throws: config for an unknown command.
int run_command_line(const Arguments& arguments);

// One file each: <name>.cpp.
int run_list(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_emit(const Arguments& arguments);
int run_build(const Arguments& arguments);
int run_verify(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_import(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_run(const Arguments& arguments);
int run_later_tune(const Arguments& arguments);

/// The commands of "moegen cache", in cache.cpp.
std::span<const Command> cache_commands() noexcept;

}  // namespace moegen::cli
