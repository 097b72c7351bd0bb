// SPDX-License-Identifier: Apache-2.0
// The system calls of the cache, one virtual function each, so that a test can fail any of them at any moment.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace moegen::cache {

/// Every function behaves as the system call of its name: -1 and `errno` on failure. `dir` is an open folder or
/// AT_FDCWD. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open_at(int dir, const char* path, int flags, mode_t mode = 0);
  virtual ssize_t pread(int fd, void* buffer, std::size_t count, off_t offset);
  virtual ssize_t pwrite(int fd, const void* buffer, std::size_t count, off_t offset);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int rename_at(int dir, const char* from, const char* to);
  virtual int unlink_at(int dir, const char* path);
  virtual int make_dir_at(int dir, const char* path, mode_t mode);
  virtual int stat(int fd, struct stat* out);
  virtual int stat_at(int dir, const char* path, struct stat* out);  ///< does not follow a link
  virtual int touch_at(int dir, const char* path);                   ///< utimensat: both times to now; follows no link
  virtual int lock(int fd, int operation);                           ///< flock
};

/// Owns a file descriptor.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

/// What errno says now.
std::error_code last_error() noexcept;

/// A regular file as it was read. `error` is set if it could not be read whole.
struct FileBytes {
  std::string bytes;
  struct stat status{};
  std::error_code error;
};

/// Reads a regular file; a link, a folder or a pipe is an error (too many levels of symbolic links, ...), so is a file
/// of more than `max_bytes` (file too large). Never blocks on a pipe.
FileBytes read_file(FileSystem& fs, int dir, const std::string& path, std::uint64_t max_bytes);

/// Reads exactly `count` bytes at `offset`; an earlier end of the file is an I/O error.
std::error_code read_exactly(FileSystem& fs, int fd, std::uint64_t offset, std::size_t count, std::string& out);

/// Creates `path` (which must not exist), writes `bytes`, makes them durable and closes. Removes what it created if any
/// step fails.
std::error_code write_new_file(FileSystem& fs, int dir, const std::string& path, mode_t mode, std::string_view bytes);

/// Makes the names in folder `path` durable. File systems that cannot do that for folders are no error.
std::error_code sync_folder(FileSystem& fs, int dir, const std::string& path);

/// Names in folder `path`, sorted, without "." and "..". Empty if it cannot be read.
std::vector<std::string> list_names(FileSystem& fs, int dir, const std::string& path);

/// A name for a temporary that no other process or host picks: "tmp-" and 16 random hex digits.
std::string temporary_name();

}  // namespace moegen::cache
