// SPDX-License-Identifier: Apache-2.0
// Claim: this process compiles a key, the others wait for it a while. Held by flock, which dies with its owner.
#pragma once

#include <chrono>
#include <string>
#include <system_error>

#include "cache/folder.hpp"

namespace moegen::cache {

class Claim {
 public:
  /// Waits until nobody else holds `path` + ".claim" in `folder` or until `deadline`. Where the file system cannot
  /// create the file or lock it, returns at once. Never throws, never hangs.
  static Claim acquire(FileSystem& fs, FolderHandle folder, const std::string& path,
                       std::chrono::steady_clock::time_point deadline);
  Claim(Claim&&) noexcept = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

  bool owned() const noexcept { return static_cast<bool>(fd_); }
  bool timed_out() const noexcept { return timed_out_; }

 private:
  enum class Attempt { owned, busy, stale, unavailable };
  Claim(FileSystem& fs, FolderHandle folder, std::string path)
      : fs_(&fs), folder_(std::move(folder)), path_(std::move(path)) {}
  Attempt attempt();
  Attempt examine(int fd) const;

  FileSystem* fs_;
  FolderHandle folder_;
  std::string path_;
  UniqueFd fd_;
  bool timed_out_ = false;
};

}  // namespace moegen::cache
