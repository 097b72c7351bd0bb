// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "cache/cache.hpp"

namespace moegen::cache {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// The XDG base directory specification says to ignore a relative path; the same goes for HOME.
std::filesystem::path absolute_variable(const char* name) {
  std::filesystem::path path(variable(name));
  return path.is_absolute() ? path : std::filesystem::path();
}

}  // namespace

std::filesystem::path default_directory() {
  if (const std::string_view directory = variable("MOEGEN_CACHE_DIR"); !directory.empty()) return directory;
  if (const auto cache_home = absolute_variable("XDG_CACHE_HOME"); !cache_home.empty()) return cache_home / "moegen";
  if (const auto home = absolute_variable("HOME"); !home.empty()) return home / ".cache" / "moegen";
  return {};
}

}  // namespace moegen::cache
