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

class FileSystem;

struct Options {
  std::filesystem::path directory;           ///< empty: none, memory and packs only; relative: to the folder of now
  std::vector<std::filesystem::path> packs;  ///< searched in order, before the directory
  std::uint64_t max_bytes = std::uint64_t{2} << 30;
  std::uint64_t max_memory_bytes = std::uint64_t{512} << 20;  ///< of payloads that this process keeps
  double claim_wait_s = 5;  ///< longest wait for another process that is compiling the same key
  std::function<void(LogLevel, const std::string&)> log;  ///< empty: silent. Called from any thread
  std::shared_ptr<FileSystem> file_system;                ///< empty: the machine's; tests put one that fails
};

/// What a lookup found and where.
struct Found {
  std::shared_ptr<const Entry> entry;
  BuildStatus status;
};

/// `entries` and `bytes` are what lies in the directory now. `hits` are lookups that the directory answered (not those
/// from memory or packs), `compiled` are compiles, `corrupt` bad entries found, since the directory was made.
struct Stats {
  std::uint64_t entries = 0, bytes = 0, hits = 0, compiled = 0, corrupt = 0;
};

/// Thread-safe. Never throws because of the state of the disk: what cannot be read is a miss, what cannot be written is
/// kept in memory. Says so in at most one warning about the directory, and one about each pack that cannot be used.
class Cache {
 public:
  explicit Cache(Options options);
  ~Cache();

  /// Memory, then packs (any compiler version), then the directory (exactly `compiler`; an empty `compiler`, when no
  /// compiler is on the machine, takes any).
  std::optional<Found> find(const CacheKey& key, std::string_view compiler);

  /// `find`, else `compile` exactly once for all threads of all processes that ask at the same time: a claim file with
  /// a bounded wait, after which this process compiles for itself. An exception from `compile` reaches every waiter of
  /// this process and leaves nothing behind. `compile` returns an entry for exactly `key` and `compiler` with an ELF
  /// payload, and does not ask this cache for the same key.
  /// Throws: what `compile` throws; internal if it returned another entry than promised.
  Found find_or_compile(const CacheKey& key, std::string_view compiler, const std::function<Entry()>& compile);

  /// Totals of the directory, over all processes that used it.
  Stats stats() const;

  struct Listed {
    std::filesystem::path path;
    std::uint64_t bytes;
    std::optional<Entry> entry;  ///< nothing if the file is bad
    std::string bad_reason;
    bool set_aside = false;  ///< a bad file that a lookup has already moved out of the way
    std::string last_used;   ///< UTC, ISO 8601, e.g. "2026-01-31T23:59:59Z"; to the hour
  };
  /// Every entry of the directory and every file set aside, verified, sorted by path.
  std::vector<Listed> list() const;

  /// Deletes least recently used entries until the directory holds at most `max_bytes`; also old temporaries and files
  /// set aside. Returns how many bytes were freed.
  std::uint64_t collect(std::uint64_t max_bytes);

  const std::filesystem::path& directory() const noexcept;

  /// Why the directory cannot be used, e.g. "cache folder '/x' is not used: ..."; empty if it can, or could if it
  /// existed. Creates nothing. For doctor.
  std::string problem() const;

  /// The part of problem() that also keeps entries from being read: empty for a folder that can merely not be written.
  std::string refusal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The directory that the environment asks for: MOEGEN_CACHE_DIR, else $XDG_CACHE_HOME/moegen, else
/// $HOME/.cache/moegen, else empty. Never asks the password database.
std::filesystem::path default_directory();

}  // namespace moegen::cache
