// SPDX-License-Identifier: Apache-2.0
// Folder: the user's cache folder, trusted or refused on opening, and the names of the files in it.
//
//   <directory>/CACHEDIR.TAG                          backup programs skip the folder
//   <directory>/v1/ledger                             totals of all processes (ledger.hpp)
//   <directory>/v1/<2 hex>/<digest>-<compiler>.moegen an entry
//                                             .claim  some process compiles it (claim.hpp)
//                                             .bad    an entry that was set aside
//   <directory>/v1/<2 hex>/tmp-<16 hex>               an entry that is being written
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cache/file_system.hpp"

namespace moegen::cache {

inline constexpr const char* kVersionFolder = "v1";
inline constexpr std::string_view kEntrySuffix = ".moegen", kClaimSuffix = ".claim", kBadSuffix = ".bad";
inline constexpr std::string_view kTemporaryPrefix = "tmp-";

/// "v1/ab" for a digest that starts with "ab".
std::string bucket_of(std::string_view digest);

/// "v1/ab/<digest>-<compiler>", to which a suffix is added. What a file name cannot hold is written %XX.
std::string stem_of(std::string_view digest, std::string_view compiler);

/// An open folder; every path below it is used relative to this descriptor, so that nobody can put another folder in
/// its place after it was checked.
using FolderHandle = std::shared_ptr<const UniqueFd>;

class Folder {
 public:
  /// `directory` empty: there is none. Touches nothing yet.
  Folder(std::filesystem::path directory, FileSystem& fs) : directory_(std::move(directory)), fs_(fs) {}

  struct Opened {
    FolderHandle handle;  ///< null if the folder cannot be used
    std::string problem;  ///< why, as a warning; empty if it merely does not exist yet
  };
  /// Opens the folder, or opens it again if it was deleted since. `create` makes it, with its parents, mode 0700.
  /// Refused if it belongs to another user or if others can write to it.
  Opened open(bool create);

  const std::filesystem::path& directory() const noexcept { return directory_; }

 private:
  Opened open_now(bool create);
  Opened refuse(const std::string& fact, const std::string& advice) const;
  bool is_current() const;

  const std::filesystem::path directory_;
  FileSystem& fs_;
  std::mutex mutex_;
  FolderHandle handle_;  // guarded by mutex_
};

/// Makes the bucket of `digest` in an open folder. An existing one is no error.
std::error_code make_bucket(FileSystem& fs, int folder, std::string_view digest);

/// Why a file or folder with this status cannot be trusted: another user could have written it. Empty: it can.
std::string why_untrusted(const struct stat& status);

}  // namespace moegen::cache
