// SPDX-License-Identifier: Apache-2.0
#include "cache/file_system.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>

namespace moegen::cache {
namespace {

constexpr int kReadFlags =
    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // O_NONBLOCK: never wait for a pipe's writer

std::error_code error_of(int number) noexcept { return {number, std::generic_category()}; }

std::error_code write_all(FileSystem& fs, int fd, std::string_view bytes) {
  off_t offset = 0;
  while (!bytes.empty()) {
    const ssize_t count = fs.pwrite(fd, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_error();
    if (count == 0) return error_of(ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    offset += count;
  }
  return {};
}

std::error_code write_and_close(FileSystem& fs, UniqueFd fd, std::string_view bytes) {
  if (const std::error_code error = write_all(fs, fd.get(), bytes)) return error;
  if (fs.fsync(fd.get()) != 0) return last_error();
  if (fs.close(fd.release()) != 0) return last_error();  // NFS reports a full disk here
  return {};
}

std::error_code check_readable(const struct stat& status, std::uint64_t max_bytes) {
  if (S_ISDIR(status.st_mode)) return error_of(EISDIR);
  if (!S_ISREG(status.st_mode)) return error_of(EINVAL);
  if (static_cast<std::uint64_t>(status.st_size) > max_bytes) return error_of(EFBIG);
  return {};
}

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

bool is_dot(std::string_view name) { return name == "." || name == ".."; }

}  // namespace

int FileSystem::open_at(int dir, const char* path, int flags, mode_t mode) { return ::openat(dir, path, flags, mode); }
ssize_t FileSystem::pread(int fd, void* buffer, std::size_t count, off_t offset) {
  return ::pread(fd, buffer, count, offset);
}
ssize_t FileSystem::pwrite(int fd, const void* buffer, std::size_t count, off_t offset) {
  return ::pwrite(fd, buffer, count, offset);
}
int FileSystem::fsync(int fd) { return ::fsync(fd); }
int FileSystem::close(int fd) { return ::close(fd); }
int FileSystem::rename_at(int dir, const char* from, const char* to) { return ::renameat(dir, from, dir, to); }
int FileSystem::unlink_at(int dir, const char* path) { return ::unlinkat(dir, path, 0); }
int FileSystem::make_dir_at(int dir, const char* path, mode_t mode) { return ::mkdirat(dir, path, mode); }
int FileSystem::stat(int fd, struct stat* out) { return ::fstat(fd, out); }
int FileSystem::stat_at(int dir, const char* path, struct stat* out) {
  return ::fstatat(dir, path, out, AT_SYMLINK_NOFOLLOW);
}
int FileSystem::touch_at(int dir, const char* path) { return ::utimensat(dir, path, nullptr, AT_SYMLINK_NOFOLLOW); }
int FileSystem::lock(int fd, int operation) { return ::flock(fd, operation); }

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

std::error_code last_error() noexcept { return error_of(errno); }

std::error_code read_exactly(FileSystem& fs, int fd, std::uint64_t offset, std::size_t count, std::string& out) {
  out.resize(count);
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = fs.pread(fd, out.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return last_error();
    if (got == 0) return error_of(EIO);
    done += static_cast<std::size_t>(got);
  }
  return {};
}

FileBytes read_file(FileSystem& fs, int dir, const std::string& path, std::uint64_t max_bytes) {
  FileBytes file;
  const UniqueFd fd(fs.open_at(dir, path.c_str(), kReadFlags));
  if (!fd || fs.stat(fd.get(), &file.status) != 0) {
    file.error = last_error();
    return file;
  }
  file.error = check_readable(file.status, max_bytes);
  if (!file.error) {
    file.error = read_exactly(fs, fd.get(), 0, static_cast<std::size_t>(file.status.st_size), file.bytes);
  }
  return file;
}

std::error_code write_new_file(FileSystem& fs, int dir, const std::string& path, mode_t mode, std::string_view bytes) {
  UniqueFd fd(fs.open_at(dir, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) return last_error();
  const std::error_code error = write_and_close(fs, std::move(fd), bytes);
  if (error) fs.unlink_at(dir, path.c_str());
  return error;
}

std::error_code sync_folder(FileSystem& fs, int dir, const std::string& path) {
  const UniqueFd fd(fs.open_at(dir, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return last_error();
  if (fs.fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return last_error();
  return {};
}

std::vector<std::string> list_names(FileSystem& fs, int dir, const std::string& path) {
  std::vector<std::string> names;
  UniqueFd fd(fs.open_at(dir, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return names;
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(fd.get()));
  if (!stream) return names;
  fd.release();  // closed with the stream
  while (const dirent* item = ::readdir(stream.get())) {
    if (!is_dot(item->d_name)) names.emplace_back(item->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string temporary_name() {
  std::random_device random;
  return fmt::format("tmp-{:08x}{:08x}", random(), random());
}

}  // namespace moegen::cache
