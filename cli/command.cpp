// SPDX-License-Identifier: Apache-2.0
// Which word runs which function, and the usage text.
#include "command.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "did_you_mean.hpp"
#include "exit_code.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

std::string command_lines(std::span<const Command> commands) {
  std::string text;
  for (const Command& command : commands) text += fmt::format("  {:<8}  {}\n", command.name, command.summary);
  return text;
}

std::string usage() {
  return "usage: moegen COMMAND [options]\n\n"
         "GPU kernels of Mixture-of-Experts layers, written for one layer shape each.\n\n" +
         command_lines(all_commands()) +
         "\n'moegen COMMAND --help' explains a command; 'moegen --version' prints the version.\n"
         "exit codes: 0 ok, 1 a check failed, 2 bad usage or config, 3 not supported here,\n"
         "            70 a bug in moegen, 130 interrupted\n";
}

std::string group_usage(const Command& group) {
  return fmt::format("usage: moegen {} COMMAND [options]\n\n{}\n\n{}", group.name, group.summary,
                     command_lines(group.children));
}

/// `place` starts the message: "" or "cache: ".
const Command& find_command(std::span<const Command> commands, std::string_view word, std::string_view place) {
  for (const Command& command : commands) {
    if (command.name == word) return command;
  }
  std::vector<std::string_view> names;
  for (const Command& command : commands) names.push_back(command.name);
  std::string allowed;
  for (const std::string_view name : names) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name);
  throw Error(ErrorCode::config,
              fmt::format("{}unknown {} '{}'; allowed {}{}", place, word.starts_with('-') ? "option" : "command", word,
                          allowed, did_you_mean(word, names)));
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h" || word == "help"; }

int show(std::string_view text) {
  print(text);
  return kOk;
}

Arguments rest_of(const Arguments& arguments) { return {arguments.begin() + 1, arguments.end()}; }

int run_in_group(const Command& group, const Arguments& arguments) {
  if (arguments.empty()) {
    throw Error(ErrorCode::config, fmt::format("{0}: COMMAND is missing; see 'moegen {0} --help'", group.name));
  }
  if (asks_for_help(arguments.front())) return show(group_usage(group));
  return find_command(group.children, arguments.front(), fmt::format("{}: ", group.name)).run(rest_of(arguments));
}

int run_one(const Command& command, const Arguments& arguments) {
  return command.run == nullptr ? run_in_group(command, arguments) : command.run(arguments);
}

/// "moegen help build" and "moegen help cache gc" are "moegen build --help" and "moegen cache gc --help".
Arguments help_last(const Arguments& arguments) {
  if (arguments.size() < 2 || arguments.front() != "help") return arguments;
  Arguments moved = rest_of(arguments);
  moved.emplace_back("--help");
  return moved;
}

}  // namespace

std::span<const Command> all_commands() noexcept {
  static const Command commands[] = {
      {"list", "kernel families, GPU architectures, and the kernels that a config needs", run_list},
      {"plan", "every decision that turns a config into a kernel, and where it came from", run_plan},
      {"emit", "the CUDA source of a kernel", run_emit},
      {"build", "compile kernels into the cache, or into one relocatable pack file", run_build},
      {"verify", "run kernels on ordinary and hostile inputs against an fp64 reference", run_verify},
      {"run", "run the layer once, each kernel on what the one before wrote, and check it", run_run},
      {"bench", "time kernels beside the copy bandwidth measured in the same run", run_bench},
      {"inspect", "what a compiled kernel contains: registers, memory, parameters, barriers", run_inspect},
      {"import", "make a config from a model's Hugging Face config.json", run_import},
      {"cache", "look into the cubin cache, check it and trim it", nullptr, cache_commands()},
      {"doctor", "what this machine has and lacks: driver, NVRTC, cache, and how to get it", run_doctor},
      {"tune", "search for the best plans (comes with a later version)", run_later_tune},
  };
  return commands;
}

int run_command_line(const Arguments& given) {
  const Arguments arguments = help_last(given);
  if (arguments.empty()) throw Error(ErrorCode::config, "COMMAND is missing; see 'moegen --help'");
  const std::string& word = arguments.front();
  if (word == "--version") return show("moegen " MOEGEN_VERSION "\n");
  if (asks_for_help(word)) return show(usage());
  return run_one(find_command(all_commands(), word, ""), rest_of(arguments));
}

}  // namespace moegen::cli
