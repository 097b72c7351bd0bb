// SPDX-License-Identifier: Apache-2.0
// Buffers: the ranges of host memory that kernels on the CPU target may touch, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>

namespace moegen::cpu {

struct Buffer {
  std::uintptr_t begin = 0, end = 0;
  std::string name;
};

/// Thread-safe. Ranges do not overlap.
class Buffers {
 public:
  /// False if the range is empty or overlaps a known one.
  bool add(Buffer buffer);
  /// False if no range starts at `begin`.
  bool remove(std::uintptr_t begin);
  /// The range that holds `address`.
  std::optional<Buffer> find(std::uintptr_t address) const;
  /// The range that ends nearest below or begins nearest above `address`, for messages.
  std::optional<Buffer> nearest(std::uintptr_t address) const;

  /// The process's.
  static Buffers& process();

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Buffer> by_begin_;
};

}  // namespace moegen::cpu
