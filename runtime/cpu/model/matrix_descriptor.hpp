// SPDX-License-Identifier: Apache-2.0
// MatrixDescriptor: where wgmma finds an operand in shared memory. Pure arithmetic, after "Matrix Descriptor Format"
// and "Strides" of the PTX manual (wgmma); pinned to hardware by tests/cpu/test_pins.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace moegen::cpu {

/// An operand of one instruction: `extent` rows (M or N) by 32 bytes of K, in 16-byte pieces.
/// K contiguous: piece p of row r holds bytes [16 p, 16 p + 16) of its K. M or N contiguous (16-bit elements): piece p
/// of line k holds elements [8 p, 8 p + 8) of the extent at that k.
struct MatrixDescriptor {
  std::uint32_t start = 0;    ///< address in shared memory
  std::uint32_t leading = 0;  ///< bytes
  std::uint32_t stride = 0;   ///< bytes
  std::uint32_t span = 0;     ///< of the swizzle, 0 without
  std::uint32_t base_offset = 0;

  static MatrixDescriptor from(std::uint64_t bits) noexcept;

  /// Where piece `piece` (0, 1) of row `row` lies.
  std::uint32_t k_contiguous(std::uint32_t row, std::uint32_t piece) const noexcept;
  /// Where piece `piece` of line `k` (0 .. 15) lies.
  std::uint32_t k_strided(std::uint32_t k, std::uint32_t piece) const noexcept;

  /// What is wrong with it for an operand of `extent` rows in `shared_bytes` of shared memory; empty if nothing is.
  std::string wrong(std::uint32_t extent, bool k_is_contiguous, std::uint32_t shared_bytes) const;
};

}  // namespace moegen::cpu
