// SPDX-License-Identifier: Apache-2.0
// Store: reading and writing single entries in an open cache folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.hpp"
#include "cache/ledger.hpp"

namespace moegen::cache {

/// Largest entry file that is read or written; a cubin has about 50 KiB.
inline constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{256} << 20;

/// Last-use stamps are renewed when older than this, so that a hit does not write.
inline constexpr std::int64_t kStampEveryS = 3600;

std::int64_t unix_time_s();

/// One entry file as it was read.
struct Loaded {
  std::optional<Entry> entry;
  BadEntry bad;          ///< why there is no entry, if the file is there but bad
  struct stat status{};  ///< of the file
};

/// Reads and verifies the file at `path`. A missing or unreadable file is neither an entry nor bad.
Loaded load(FileSystem& fs, int folder, const std::string& path);

/// Like `load`, and holds the file to what its name says (`compiler` empty: any). A bad file is moved to its .bad name
/// and counted; a good one gets its last-use stamp renewed.
std::optional<Entry> fetch(FileSystem& fs, Ledger& ledger, int folder, const std::string& path, std::string_view key,
                           std::string_view compiler, std::string* bad_reason);

/// Paths of the entries of `key`, of any compiler, the last compiler in name order first.
std::vector<std::string> paths_of(FileSystem& fs, int folder, std::string_view key);

/// Makes `bytes` the entry at `path`: temporary, fsync, room made under the cap, rename, fsync of the folder.
std::error_code store(FileSystem& fs, Ledger& ledger, int folder, const std::string& path, std::string_view key,
                      std::string_view bytes, std::uint64_t max_bytes);

}  // namespace moegen::cache
