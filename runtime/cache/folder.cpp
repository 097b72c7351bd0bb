// SPDX-License-Identifier: Apache-2.0
#include "cache/folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

namespace moegen::cache {
namespace {

constexpr mode_t kOthersCanWrite = S_IWGRP | S_IWOTH;

// https://bford.info/cachedir/: the first 43 bytes are the signature.
constexpr std::string_view kCacheDirTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Kernels compiled by moegen. It is safe to delete this folder at any time.\n";

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.'; }

std::string file_name_of(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (is_plain(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::error_code make_folder(FileSystem& fs, int dir, const std::string& path) {
  if (fs.make_dir_at(dir, path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return last_error();
}

std::error_code make_with_parents(FileSystem& fs, const std::filesystem::path& directory) {
  const std::error_code error = make_folder(fs, AT_FDCWD, directory.string());
  if (error != std::errc::no_such_file_or_directory || !directory.has_relative_path()) return error;
  if (const std::error_code parent_error = make_with_parents(fs, directory.parent_path())) return parent_error;
  return make_folder(fs, AT_FDCWD, directory.string());
}

void write_tag(FileSystem& fs, int folder) {
  const UniqueFd fd(fs.open_at(folder, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd) static_cast<void>(fs.pwrite(fd.get(), kCacheDirTag.data(), kCacheDirTag.size(), 0));
}

}  // namespace

std::string bucket_of(std::string_view digest) { return fmt::format("{}/{}", kVersionFolder, digest.substr(0, 2)); }

std::string stem_of(std::string_view digest, std::string_view compiler) {
  return fmt::format("{}/{}-{}", bucket_of(digest), digest, file_name_of(compiler));
}

std::string why_untrusted(const struct stat& status) {
  if (status.st_uid != ::geteuid()) {
    return fmt::format("it belongs to user {}, not to user {}", status.st_uid, ::geteuid());
  }
  if ((status.st_mode & kOthersCanWrite) != 0) {
    return fmt::format("others can write to it (mode {:04o})", status.st_mode & 07777);
  }
  return {};
}

std::error_code make_bucket(FileSystem& fs, int folder, std::string_view digest) {
  const std::error_code error = make_folder(fs, folder, bucket_of(digest));
  if (error != std::errc::no_such_file_or_directory) return error;
  if (const std::error_code version_error = make_folder(fs, folder, kVersionFolder)) return version_error;
  write_tag(fs, folder);
  return make_folder(fs, folder, bucket_of(digest));
}

Folder::Opened Folder::refuse(const std::string& fact, const std::string& advice) const {
  return {nullptr, fmt::format("cache folder '{}' is not used: {}; {}", directory_.string(), fact, advice)};
}

bool Folder::is_current() const {
  struct stat status{};
  return handle_ && fs_.stat(handle_->get(), &status) == 0 && status.st_nlink > 0;
}

Folder::Opened Folder::open(bool create) {
  const std::lock_guard lock(mutex_);
  if (is_current()) return {handle_, ""};
  Opened opened = open_now(create);
  handle_ = opened.handle;
  return opened;
}

Folder::Opened Folder::open_now(bool create) {
  if (directory_.empty()) {
    if (!create) return {};
    return {nullptr, "no cache folder: none of MOEGEN_CACHE_DIR, XDG_CACHE_HOME and HOME names one"};
  }
  if (create) {
    if (const auto error = make_with_parents(fs_, directory_)) {
      return refuse(fmt::format("cannot create it: {}", error.message()),
                    "set MOEGEN_CACHE_DIR to a folder of your own");
    }
  }
  UniqueFd fd(fs_.open_at(AT_FDCWD, directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!fd || fs_.stat(fd.get(), &status) != 0) {
    const std::error_code error = last_error();
    if (!create && error == std::errc::no_such_file_or_directory) return {};
    return refuse(fmt::format("cannot open it: {}", error.message()), "set MOEGEN_CACHE_DIR to a folder of your own");
  }
  if (const std::string fact = why_untrusted(status); !fact.empty()) {
    return refuse(fact, "run chmod go-w on your own folder or set MOEGEN_CACHE_DIR to one");
  }
  return {std::make_shared<const UniqueFd>(std::move(fd)), ""};
}

}  // namespace moegen::cache
