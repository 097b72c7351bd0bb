// SPDX-License-Identifier: Apache-2.0
#include "cache/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cache/collector.hpp"
#include "cache/folder.hpp"

namespace moegen::cache {
namespace {

constexpr std::chrono::milliseconds kLedgerWait{2000};  // a scan of 40,000 entries takes about 100 ms
constexpr std::int64_t kScanEveryS = 24 * 3600;         // corrects what `bytes` drifted and removes what crashes left

// Moves a bad file out of the way, unless another process has put a new one there since it was read.
void set_aside(FileSystem& fs, int folder, const std::string& path, const struct stat& read_status) {
  struct stat now{};
  if (fs.stat_at(folder, path.c_str(), &now) != 0 || now.st_ino != read_status.st_ino) return;
  const std::string stem = path.substr(0, path.size() - kEntrySuffix.size());
  fs.rename_at(folder, path.c_str(), (stem + std::string(kBadSuffix)).c_str());
}

void renew_stamp(FileSystem& fs, int folder, const std::string& path, const struct stat& status) {
  if (std::llabs(unix_time_s() - status.st_mtime) > kStampEveryS) fs.touch_at(folder, path.c_str());
}

std::string why_not_wanted(const Entry& entry, std::string_view key, std::string_view compiler) {
  if (entry.key != key) return fmt::format("holds key {}", entry.key);
  if (!compiler.empty() && entry.compiler != compiler) return fmt::format("compiled by '{}'", entry.compiler);
  return {};
}

// A link, a folder or a pipe where an entry should be; all other errors say nothing about the entry.
bool is_bad_file(std::error_code error) {
  return error == std::errc::too_many_symbolic_link_levels || error == std::errc::is_a_directory ||
         error == std::errc::invalid_argument || error == std::errc::file_too_large;
}

bool wants_scan(const Totals& totals, std::uint64_t size, std::uint64_t max_bytes) {
  if (totals.bytes < 0 || totals.last_scan_s == 0) return true;
  return std::llabs(unix_time_s() - totals.last_scan_s) > kScanEveryS ||
         static_cast<std::uint64_t>(totals.bytes) + size > max_bytes;
}

// Deletes down to 90 % of the cap, so that a full cache does not scan at every store; only as far as needed otherwise.
void make_room(FileSystem& fs, int folder, std::uint64_t size, std::uint64_t max_bytes, Totals& totals) {
  const std::vector<FolderFile> files = scan(fs, folder);
  const bool full = entry_bytes(files) + size > max_bytes;
  const std::uint64_t target = full ? max_bytes - max_bytes / 10 : max_bytes;
  const Collected collected = collect(fs, folder, files, target > size ? target - size : 0, unix_time_s());
  totals.bytes = static_cast<std::int64_t>(collected.kept_bytes);
  totals.last_scan_s = unix_time_s();
}

}  // namespace

std::int64_t unix_time_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Loaded load(FileSystem& fs, int folder, const std::string& path) {
  const FileBytes file = read_file(fs, folder, path, kMaxEntryBytes);
  Loaded loaded{std::nullopt, {}, file.status};
  if (file.error) {
    if (is_bad_file(file.error)) loaded.bad.reason = file.error.message();
    if (is_bad_file(file.error)) fs.stat_at(folder, path.c_str(), &loaded.status);  // a link was not opened
    return loaded;
  }
  loaded.bad.reason = why_untrusted(file.status);
  if (loaded.bad.reason.empty()) loaded.entry = decode(file.bytes, loaded.bad);
  return loaded;
}

std::optional<Entry> fetch(FileSystem& fs, Ledger& ledger, int folder, const std::string& path, std::string_view key,
                           std::string_view compiler, std::string* bad_reason) {
  Loaded loaded = load(fs, folder, path);
  if (loaded.entry) loaded.bad.reason = why_not_wanted(*loaded.entry, key, compiler);
  if (!loaded.bad.reason.empty()) {
    set_aside(fs, folder, path, loaded.status);
    ledger.count_corrupt();
    *bad_reason = loaded.bad.reason;
    return std::nullopt;
  }
  if (!loaded.entry) return std::nullopt;
  renew_stamp(fs, folder, path, loaded.status);
  ledger.count_hit();
  return std::move(loaded.entry);
}

std::vector<std::string> paths_of(FileSystem& fs, int folder, std::string_view key) {
  std::vector<std::string> paths;
  const std::string bucket = bucket_of(key);
  for (const std::string& name : list_names(fs, folder, bucket)) {
    const bool ours = name.size() > key.size() && name.starts_with(key) && name[key.size()] == '-';
    if (ours && kind_of(name) == FileKind::entry) paths.insert(paths.begin(), fmt::format("{}/{}", bucket, name));
  }
  return paths;
}

std::error_code store(FileSystem& fs, Ledger& ledger, int folder, const std::string& path, std::string_view key,
                      std::string_view bytes, std::uint64_t max_bytes) {
  if (bytes.size() > std::min(max_bytes, kMaxEntryBytes)) return std::make_error_code(std::errc::file_too_large);
  if (const auto error = make_bucket(fs, folder, key)) return error;
  const std::string bucket = bucket_of(key);
  const std::string temporary = fmt::format("{}/{}", bucket, temporary_name());
  if (const auto error = write_new_file(fs, folder, temporary, 0600, bytes)) return error;
  std::error_code error;
  ledger.update(folder, kLedgerWait, [&](Totals& totals, bool alone) {
    if (alone && wants_scan(totals, bytes.size(), max_bytes)) make_room(fs, folder, bytes.size(), max_bytes, totals);
    if (fs.rename_at(folder, temporary.c_str(), path.c_str()) != 0) error = last_error();
    totals.bytes += error ? 0 : static_cast<std::int64_t>(bytes.size());
  });
  if (error) {
    fs.unlink_at(folder, temporary.c_str());
    return error;
  }
  (void)sync_folder(fs, folder, bucket);  // the entry is whole either way
  return {};
}

}  // namespace moegen::cache
