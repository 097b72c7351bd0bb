// SPDX-License-Identifier: Apache-2.0
#include "cache/collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cache/folder.hpp"

namespace moegen::cache {
namespace {

bool counts(FileKind kind) { return kind == FileKind::entry || kind == FileKind::set_aside; }

void scan_bucket(FileSystem& fs, int folder, const std::string& bucket, std::vector<FolderFile>& out) {
  for (const std::string& name : list_names(fs, folder, bucket)) {
    FolderFile file{fmt::format("{}/{}", bucket, name), kind_of(name)};
    struct stat status{};
    if (fs.stat_at(folder, file.path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) continue;
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    file.last_used_s = status.st_mtime;
    out.push_back(std::move(file));
  }
}

bool goes_anyway(const FolderFile& file, std::int64_t now_s) {
  const bool abandoned = now_s - file.last_used_s > kAbandonedAfterS;
  if (file.kind == FileKind::temporary || file.kind == FileKind::claim) return abandoned;
  return file.kind == FileKind::set_aside;
}

std::vector<std::size_t> entries_oldest_first(const std::vector<FolderFile>& files) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].kind == FileKind::entry) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(files[a].last_used_s, a) < std::pair(files[b].last_used_s, b);
  });
  return order;
}

}  // namespace

FileKind kind_of(std::string_view name) {
  if (name.starts_with(kTemporaryPrefix)) return FileKind::temporary;
  if (name.ends_with(kEntrySuffix)) return FileKind::entry;
  if (name.ends_with(kBadSuffix)) return FileKind::set_aside;
  if (name.ends_with(kClaimSuffix)) return FileKind::claim;
  return FileKind::other;
}

std::vector<FolderFile> scan(FileSystem& fs, int folder) {
  std::vector<FolderFile> files;
  for (const std::string& name : list_names(fs, folder, kVersionFolder)) {
    if (name.size() == 2) scan_bucket(fs, folder, fmt::format("{}/{}", kVersionFolder, name), files);
  }
  return files;
}

std::uint64_t entry_bytes(const std::vector<FolderFile>& files) {
  std::uint64_t bytes = 0;
  for (const FolderFile& file : files) bytes += file.kind == FileKind::entry ? file.bytes : 0;
  return bytes;
}

std::vector<std::size_t> choose_victims(const std::vector<FolderFile>& files, std::uint64_t max_bytes,
                                        std::int64_t now_s) {
  std::vector<std::size_t> victims;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (goes_anyway(files[i], now_s)) victims.push_back(i);
  }
  std::uint64_t held = entry_bytes(files);
  for (std::size_t i : entries_oldest_first(files)) {
    if (held <= max_bytes) break;
    held -= files[i].bytes;
    victims.push_back(i);
  }
  return victims;
}

Collected collect(FileSystem& fs, int folder, const std::vector<FolderFile>& files, std::uint64_t max_bytes,
                  std::int64_t now_s) {
  Collected result;
  for (const FolderFile& file : files) result.kept_bytes += counts(file.kind) ? file.bytes : 0;
  for (std::size_t i : choose_victims(files, max_bytes, now_s)) {
    const bool gone = fs.unlink_at(folder, files[i].path.c_str()) == 0;
    if (!gone && errno != ENOENT) continue;
    if (gone) result.freed_bytes += files[i].bytes;
    if (counts(files[i].kind)) result.kept_bytes -= files[i].bytes;
  }
  return result;
}

}  // namespace moegen::cache
