// SPDX-License-Identifier: Apache-2.0
// The cubin cache: memory, read-only packs, the user's folder, and one compile per key across threads and processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/engine.hpp>

#include "cache/entry.hpp"
#include "cache/key.hpp"

namespace moegen::cache {

struct Options {
  std::filesystem::path directory;           ///< empty: none, memory and packs only
  std::vector<std::filesystem::path> packs;  ///< searched in order, before the directory
  std::uint64_t max_bytes = std::uint64_t{2} << 30;
  double claim_wait_s = 5;  ///< longest wait for another process that is compiling the same key
  std::function<void(LogLevel, const std::string&)> log;
};

/// What a lookup found and where.
struct Found {
  std::shared_ptr<const Entry> entry;
  BuildStatus status;
};

struct Stats {
  std::uint64_t entries = 0, bytes = 0, hits = 0, compiled = 0, corrupt = 0;
};

/// Thread-safe. Never throws because of the state of the disk: what cannot be read is a miss, what cannot be written is
/// kept in memory after one warning.
class Cache {
 public:
  explicit Cache(Options options);
  ~Cache();

  /// Memory, then packs (any compiler version), then the directory (exactly `compiler`; an empty `compiler`, when no
  /// compiler is on the machine, takes any).
  std::optional<Found> find(const CacheKey& key, std::string_view compiler);

  /// `find`, else `compile` exactly once for all threads of all processes that ask at the same time: a claim file with
  /// a bounded wait, after which this process compiles for itself. An exception from `compile` reaches every waiter of
  /// this process and leaves nothing behind.
  Found find_or_compile(const CacheKey& key, std::string_view compiler, const std::function<Entry()>& compile);

  /// Totals of the directory, over all processes that used it.
  Stats stats() const;

  struct Listed {
    std::filesystem::path path;
    std::uint64_t bytes;
    std::optional<Entry> entry;  ///< nothing if the file is bad
    std::string bad_reason;
    std::string last_used;  ///< UTC, ISO 8601
  };
  /// Every file of the directory, verified.
  std::vector<Listed> list() const;

  /// Deletes least recently used entries until the directory holds at most `max_bytes`; also old temporaries and files
  /// set aside. Returns how many bytes were freed.
  std::uint64_t collect(std::uint64_t max_bytes);

  const std::filesystem::path& directory() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The directory that the environment asks for: MOEGEN_CACHE_DIR, else $XDG_CACHE_HOME/moegen, else
/// $HOME/.cache/moegen, else empty. Never asks the password database.
std::filesystem::path default_directory();

}  // namespace moegen::cache
