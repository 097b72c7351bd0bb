// SPDX-License-Identifier: Apache-2.0
#include "support/engine_options.hpp"

#include <string>

#include <fmt/core.h>

#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::off:
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "debug";
}

}  // namespace

EngineOptions engine_options(Progress& progress) {
  EngineOptions options = EngineOptions::from_environment();
  options.log = [&progress](LogLevel level, const std::string& message) {
    progress.clear();
    note(fmt::format("{}: {}", name_of(level), message));
  };
  return options;
}

}  // namespace moegen::cli
