// SPDX-License-Identifier: Apache-2.0
// Ledger: the totals of a cache folder over all processes, in one small locked file.
//
// A hint, never a truth: losing it costs one scan of the folder and the counts so far. So nothing is made durable here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "cache/folder.hpp"

namespace moegen::cache {

struct Totals {
  std::int64_t bytes = 0;        ///< of entries and set-aside files; never less than what is there
  std::int64_t last_scan_s = 0;  ///< Unix time at which `bytes` was last counted; 0: never, `bytes` means nothing
  std::int64_t hits = 0;         ///< lookups that the folder answered
  std::int64_t compiled = 0;     ///< kernels compiled by processes that use this folder
  std::int64_t corrupt = 0;      ///< bad entries found
};

class Ledger {
 public:
  explicit Ledger(FileSystem& fs) : fs_(fs) {}

  /// Remembers an event in this process; written at the next `update` or `flush`.
  void count_hit() noexcept { ++hits_; }
  void count_compiled() noexcept { ++compiled_; }
  void count_corrupt() noexcept { ++corrupt_; }

  /// Calls `change` exactly once with the totals, locked against the other processes for as long, and writes them back.
  /// If another holds the lock beyond `wait`, `change` runs without it (`alone` is false) and its difference is written
  /// the next time. Where the file cannot be kept at all, the totals read as never counted.
  void update(int folder, std::chrono::milliseconds wait, const std::function<void(Totals&, bool alone)>& change);

  /// Writes what was counted if nobody else holds the ledger within `wait`; else it stays for the next time.
  void flush(int folder, std::chrono::milliseconds wait);

  /// The totals including what this process has not written yet.
  Totals read(int folder);

 private:
  struct File {
    UniqueFd fd;        // empty: cannot be opened here
    bool busy = false;  // another process holds it
    bool usable() const noexcept { return fd && !busy; }
  };
  File open_locked(int folder, std::chrono::milliseconds wait);
  Totals read_totals(int fd);
  void write_totals(int fd, const Totals& totals);
  Totals take_pending() noexcept;
  void keep_pending(const Totals& delta) noexcept;

  FileSystem& fs_;
  std::timed_mutex mutex_;  // threads queue here, so that they do not poll the file lock against each other
  std::atomic<std::int64_t> bytes_{0}, hits_{0}, compiled_{0}, corrupt_{0};
};

}  // namespace moegen::cache
