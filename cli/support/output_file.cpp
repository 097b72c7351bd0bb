// SPDX-License-Identifier: Apache-2.0
#include "support/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "support/interrupt.hpp"

namespace moegen::cli {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  throw Error(ErrorCode::cache, fmt::format("{}: cannot be written: {}", path.string(), reason(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  /// False with errno set if the file system reports a late write error.
  bool close() {
    const int value = value_;
    value_ = -1;
    return value == -1 || ::close(value) == 0;
  }

 private:
  int value_;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void write_directly(const fs::path& path, std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() == -1 || !write_all(file.get(), text) || !file.close()) fail_to_write(path, errno);
}

/// A new file beside `path` that is removed again unless it has been renamed to it.
class Temporary {
 public:
  explicit Temporary(const fs::path& path) : path_(path), name_(path.string() + ".XXXXXX") {
    file_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (file_ == -1) fail_to_write(path_, errno);
  }
  ~Temporary() {
    if (file_ != -1) ::close(file_);
    if (!committed_) ::unlink(name_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  void write(std::string_view text) {
    if (!write_all(file_, text) || ::fchmod(file_, default_mode()) != 0 || ::fsync(file_) != 0) {
      fail_to_write(path_, errno);
    }
  }

  void commit() {
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
    committed_ = true;
  }

 private:
  /// mkostemp makes private files; an ordinary one has what the umask leaves.
  static mode_t default_mode() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666 & ~mask;
  }

  const fs::path path_;
  std::string name_;
  int file_ = -1;
  bool committed_ = false;
};

bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path followed(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

std::string read_all(int descriptor, const fs::path& path, std::size_t max_bytes) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) {
      throw Error(ErrorCode::config, fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
    }
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > max_bytes)
      throw Error(ErrorCode::config,
                  fmt::format("{}: is larger than {} MiB, which no such file is", path.string(), max_bytes >> 20));
  }
}

}  // namespace

void write_file(const fs::path& path, std::string_view text) {
  if (is_special(path)) return write_directly(path, text);
  const DeferInterrupts until_renamed;
  Temporary temporary(followed(path));
  temporary.write(text);
  check_interrupt();
  temporary.commit();
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input", max_bytes);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() == -1) {
    throw Error(ErrorCode::config, fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
  }
  return read_all(file.get(), path, max_bytes);
}

}  // namespace moegen::cli
