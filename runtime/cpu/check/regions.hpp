// SPDX-License-Identifier: Apache-2.0
// Regions: the memory that a launch may touch beside shared memory: buffers, with their shadows, and constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cpu/buffers.hpp"
#include "cpu/check/shadow.hpp"

namespace moegen::cpu {

struct Region {
  Buffer buffer;
  Shadow shadow;
  bool holds(std::uintptr_t address) const noexcept { return address - buffer.begin < buffer.end - buffer.begin; }
};

class Regions {
 public:
  /// `buffers` as they are now; those that come later are not the launch's.
  Regions(const Buffers* buffers, const std::vector<std::pair<const void*, std::size_t>>& constants);

  /// The buffer that holds `address`; null if none. `hint`: any number that tells accesses of different buffers apart.
  Region* find(std::uintptr_t address, std::uint32_t hint) noexcept;
  /// Whether [address, address + bytes) is in one constant.
  bool in_constants(std::uintptr_t address, std::size_t bytes) const noexcept;
  /// The buffer whose end or begin is nearest to `address`, which is in none; null if there are no buffers.
  const Buffer* nearest(std::uintptr_t address) const noexcept;

 private:
  std::vector<Region> regions_;
  std::vector<std::pair<std::uintptr_t, std::size_t>> constants_;
  std::vector<std::uint32_t> last_;  ///< by hint, the region found last
};

}  // namespace moegen::cpu
