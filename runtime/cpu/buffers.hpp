// SPDX-License-Identifier: Apache-2.0
// Buffers: the ranges of host memory that kernels on the CPU target may touch, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

namespace moegen::cpu {

struct Buffer {
  std::uintptr_t begin = 0, end = 0;
  std::string name;
};

/// Thread-safe. Ranges do not overlap.
class Buffers {
 public:
  /// Adds a range of one byte or more; if it overlaps a known one, returns that and adds nothing.
  std::optional<Buffer> add(Buffer buffer);
  /// False if no range starts at `begin`.
  bool remove(std::uintptr_t begin);
  /// The range that holds `address`.
  std::optional<Buffer> find(std::uintptr_t address) const;
  /// The range that holds `address`, or ends nearest below it, or begins nearest above; for messages.
  std::optional<Buffer> nearest(std::uintptr_t address) const;

  /// Every range, by address.
  std::vector<Buffer> all() const;

  /// The process's; the launcher's side has it (launcher/memory.cpp), libmoegen_cpu.so is handed it with each launch.
  static Buffers& process();

 private:
  const Buffer* overlapping(std::uintptr_t begin, std::uintptr_t end) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Buffer> by_begin_;
};

}  // namespace moegen::cpu
