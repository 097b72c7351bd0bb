// SPDX-License-Identifier: Apache-2.0
// EngineOptions from the environment, read strictly: a variable that cannot be meant is refused, never ignored.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "did_you_mean.hpp"

extern "C" char** environ;

namespace moegen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "MOEGEN_";
constexpr std::array<std::string_view, 6> kVariables = {
    "MOEGEN_CACHE_DIR", "MOEGEN_JIT", "MOEGEN_LOG", "MOEGEN_PACKS", "MOEGEN_REQUIRE_GPU", "MOEGEN_TEMPLATE_DIR"};
constexpr std::array<std::string_view, 4> kLogLevels = {"off", "warning", "info", "debug"};  // as LogLevel counts
constexpr std::array<std::string_view, 2> kSwitch = {"off", "on"};

[[noreturn]] void refuse(std::string_view variable, std::string_view value, std::string_view fact) {
  throw Error(ErrorCode::config, fmt::format("environment: {} is '{}'{}", variable, value, fact));
}

/// Value of `variable`, or nothing if it is unset or empty.
std::optional<std::string> read(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value || !*value) return std::nullopt;
  return value;
}

/// Which of `words` the variable holds; nothing if it is unset.
template <std::size_t N>
std::optional<std::size_t> read_word(const char* variable, const std::array<std::string_view, N>& words) {
  const auto value = read(variable);
  if (!value) return std::nullopt;
  const auto found = std::ranges::find(words, *value);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  refuse(variable, *value,
         fmt::format("; allowed {}{}", fmt::join(words, ", "), did_you_mean(*value, {words.begin(), words.end()})));
}

void refuse_unknown_variables() {
  for (char** item = environ; item && *item; ++item) {
    const std::string_view pair = *item;
    const std::string_view name = pair.substr(0, pair.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(kVariables, name) != kVariables.end()) continue;
    throw Error(ErrorCode::config,
                fmt::format("environment: {} is no variable of moegen; allowed {}{}", name, fmt::join(kVariables, ", "),
                            did_you_mean(name, {kVariables.begin(), kVariables.end()})));
  }
}

fs::path absolute(const char* variable, const std::string& value) {
  if (!fs::path(value).is_absolute()) refuse(variable, value, "; allowed an absolute path");
  return value;
}

fs::path template_folder(const std::string& value) {
  std::error_code error;
  if (!fs::is_directory(value, error)) refuse("MOEGEN_TEMPLATE_DIR", value, ", which is no folder; allowed a folder");
  return value;
}

std::vector<fs::path> pack_files(const std::string& value) {
  std::vector<fs::path> packs;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    std::error_code error;
    if (item.empty()) continue;
    if (!fs::is_regular_file(item, error))
      refuse("MOEGEN_PACKS", value,
             fmt::format(" and names '{}', which is no file; allowed pack files separated by ':'", item));
    packs.emplace_back(item);
  }
  return packs;
}

}  // namespace

EngineOptions EngineOptions::from_environment() {
  refuse_unknown_variables();
  EngineOptions options;
  if (const auto value = read("MOEGEN_CACHE_DIR")) options.cache_dir = absolute("MOEGEN_CACHE_DIR", *value);
  if (const auto value = read("MOEGEN_PACKS")) options.packs = pack_files(*value);
  if (const auto value = read("MOEGEN_TEMPLATE_DIR")) options.template_dir = template_folder(*value);
  if (const auto word = read_word("MOEGEN_JIT", kSwitch)) options.jit = *word == 1;
  if (const auto word = read_word("MOEGEN_LOG", kLogLevels)) options.log_level = static_cast<LogLevel>(*word);
  return options;
}

std::string_view to_string(BuildStatus status) noexcept {
  switch (status) {
    case BuildStatus::compiled: return "compiled";
    case BuildStatus::cached: return "cached";
    case BuildStatus::pack: return "pack";
    case BuildStatus::memory: return "memory";
  }
  return "memory";
}

}  // namespace moegen
