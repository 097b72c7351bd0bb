// SPDX-License-Identifier: Apache-2.0
#include "support/cache_folder.hpp"

#include <cstdlib>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::filesystem::path path_of(const EngineOptions& options) {
  return options.cache_dir.empty() ? cache::default_directory() : options.cache_dir;
}

}  // namespace

CacheFolder cache_folder(const EngineOptions& options) {
  const std::filesystem::path path = path_of(options);
  if (path.empty()) return {};
  for (const char* variable : {"MOEGEN_CACHE_DIR", "XDG_CACHE_HOME"}) {
    if (is_set(variable)) return {path, variable};
  }
  return {path, "HOME"};
}

cache::Cache open_cache(const EngineOptions& options) {
  cache::Options cache_options;
  cache_options.directory = path_of(options);
  cache_options.max_bytes = options.cache_max_bytes;
  cache_options.log = [limit = options.log_level](LogLevel level, const std::string& message) {
    if (level <= limit) note(fmt::format("warning: {}", message));
  };
  return cache::Cache(std::move(cache_options));
}

std::filesystem::path required_cache_folder(const EngineOptions& options) {
  std::filesystem::path path = path_of(options);
  if (!path.empty()) return path;
  throw Error(ErrorCode::cache, "there is no cache folder: kernels stay in memory; set MOEGEN_CACHE_DIR or HOME");
}

cache::Cache open_required_cache(const EngineOptions& options) {
  required_cache_folder(options);
  const std::string refusal = open_cache(options).refusal();
  if (!refusal.empty()) throw Error(ErrorCode::cache, refusal);
  return open_cache(options);
}

}  // namespace moegen::cli
