// SPDX-License-Identifier: Apache-2.0
// Memory for an output under test: poisoned before use, with canaries on both sides.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verify/memory.hpp"

namespace moegen::verify {

/// `bytes` of memory of a target, 256-byte aligned, between two guards. The poison (0xFF bytes) is NaN as a float and
/// kNone - a plausible value - as an index, so index outputs use another one.
class GuardedBuffer {
 public:
  static constexpr unsigned char kFloatPoison = 0xFF, kIndexPoison = 0xAB;

  GuardedBuffer(Target target, std::string name, std::size_t bytes, unsigned char poison);

  template <class T = void>
  T* data() const noexcept {
    return reinterpret_cast<T*>(memory_.data<char>() + kGuardBytes);
  }
  std::size_t size() const noexcept { return bytes_; }

  /// Poisons everything again.
  void reset() const;
  std::vector<char> download() const;
  /// A sentence if a byte outside [data, data + size) was written, else nothing.
  std::optional<std::string> damage() const;

 private:
  static constexpr std::size_t kGuardBytes = 1024;
  static constexpr unsigned char kGuardByte = 0xC3;

  std::string name_;
  std::size_t bytes_;
  unsigned char poison_;
  Memory memory_;
};

}  // namespace moegen::verify
