// SPDX-License-Identifier: Apache-2.0
// Collector: what lies in a cache folder, and what of it goes when there is too much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/file_system.hpp"

namespace moegen::cache {

enum class FileKind { entry, set_aside, claim, temporary, other };

/// What a file is by its name alone.
FileKind kind_of(std::string_view name);

struct FolderFile {
  std::string path;  ///< relative to the cache folder
  FileKind kind = FileKind::other;
  std::uint64_t bytes = 0;
  std::int64_t last_used_s = 0;  ///< Unix time of the last write or use, to the hour
};

/// Every file in the buckets of an open cache folder, sorted by path.
std::vector<FolderFile> scan(FileSystem& fs, int folder);

/// Temporaries and claims older than this have no owner any more: no compile takes that long.
inline constexpr std::int64_t kAbandonedAfterS = 3600;

/// Indices into `files` of what to delete so that entries hold at most `max_bytes`: abandoned temporaries and claims,
/// everything set aside, then the entries used longest ago.
std::vector<std::size_t> choose_victims(const std::vector<FolderFile>& files, std::uint64_t max_bytes,
                                        std::int64_t now_s);

struct Collected {
  std::uint64_t freed_bytes = 0;
  std::uint64_t kept_bytes = 0;  ///< of entries and set-aside files that are still there
};

/// Bytes of the entries among `files`.
std::uint64_t entry_bytes(const std::vector<FolderFile>& files);

/// Deletes the victims among `files`. One that another process is reading stays readable for it (POSIX unlink).
Collected collect(FileSystem& fs, int folder, const std::vector<FolderFile>& files, std::uint64_t max_bytes,
                  std::int64_t now_s);

}  // namespace moegen::cache
