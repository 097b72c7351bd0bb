// SPDX-License-Identifier: Apache-2.0
// moegen tune: a word of the product that this version does not have yet, and says so.
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

bool asks_for_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

int say_later(const Arguments& arguments, std::string_view fact, std::string_view instead) {
  if (!asks_for_help(arguments)) throw Error(ErrorCode::unsupported, fmt::format("{}; {}", fact, instead));
  print(fmt::format("{};\n{}\n", fact, instead));
  return kOk;
}

}  // namespace

int run_later_tune(const Arguments& arguments) {
  return say_later(arguments, "'tune' searches for the best plans and comes with a later version of moegen",
                   "'moegen plan --explain' shows the plans of now");
}

}  // namespace moegen::cli
