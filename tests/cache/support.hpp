// SPDX-License-Identifier: Apache-2.0
// What the cache tests share: a scratch folder, stub entries, and a record of what the cache said.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "cache/file_system.hpp"

namespace moegen::cache::testing {

/// A new empty folder, deleted at the end with all that is in it: in memory where the machine has /dev/shm, or under
/// the system's temporary folder, which is a real disk more often than not.
class ScratchFolder {
 public:
  enum class Place { memory, disk };
  explicit ScratchFolder(Place place = Place::memory);
  ~ScratchFolder();
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

inline constexpr const char* kCompiler = "nvrtc-13.0";

/// The key of a stub kernel: `name` stands for its source text.
CacheKey stub_key(const std::string& name);

/// What a compiler would return for `stub_key(name)`: an ELF of `payload_bytes` that differs from name to name.
Entry stub_entry(const std::string& name, std::size_t payload_bytes = 256, const std::string& compiler = kCompiler);

bool same(const Entry& a, const Entry& b);

/// Messages that a cache logged. Thread-safe.
class LogRecord {
 public:
  std::function<void(LogLevel, const std::string&)> sink();
  std::vector<std::string> warnings() const;
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> messages_;
};

/// The machine's file system without the waiting for the disk, which would be most of a test's time.
class FastFileSystem : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

/// Runs `body` in a child process that ends with the code it returns; 99 if it throws.
pid_t start_child(const std::function<int()>& body);

/// Waits for a child: its exit code, or 1000 + the signal that ended it.
int wait_for(pid_t child);

/// Options for `directory` that log into `log`, on a FastFileSystem.
Options options_for(const std::filesystem::path& directory, LogRecord& log);

/// A compile function that counts its calls.
std::function<Entry()> counted_compile(std::atomic<int>& calls, const std::string& name,
                                       std::size_t payload_bytes = 256);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

/// The files below `directory` whose names end in `suffix`, sorted.
std::vector<std::filesystem::path> files_ending(const std::filesystem::path& directory, const std::string& suffix);

/// Where the entry of `stub_key(name)` belongs.
std::filesystem::path entry_path(const std::filesystem::path& directory, const std::string& name);

/// The one entry file below `directory`; the test fails if there is not exactly one.
std::filesystem::path only_entry(const std::filesystem::path& directory);

}  // namespace moegen::cache::testing
