// SPDX-License-Identifier: Apache-2.0
// The cubin cache as the environment sets it up, for commands that look at the cache itself.
#pragma once

#include <filesystem>
#include <string>

#include "cache/cache.hpp"

namespace moegen::cli {

/// Where the cache lies and which environment variable says so.
struct CacheFolder {
  std::filesystem::path path;  ///< empty: memory only
  std::string variable;        ///< "MOEGEN_CACHE_DIR", "XDG_CACHE_HOME" or "HOME"; empty with the path
};
CacheFolder cache_folder(const EngineOptions& options);

/// The cache folder of `options`, without its packs; messages go to standard error.
cache::Cache open_cache(const EngineOptions& options);

/// The path of the cache folder. Throws: cache if there is none.
std::filesystem::path required_cache_folder(const EngineOptions& options);

/// The cache folder of `options` for a command about nothing else. Throws: cache if there is none, or one that cannot
/// be read; one that does not exist yet is empty.
cache::Cache open_required_cache(const EngineOptions& options);

}  // namespace moegen::cli
