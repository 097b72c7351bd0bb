// SPDX-License-Identifier: Apache-2.0
// TensorTile: where the rows of one tensor copy lie in global and in shared memory. Pure arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "cpu/tensor_map_layout.hpp"

namespace moegen::cpu {

/// `address` in shared memory after the swizzle of `span` bytes (0, 32, 64, 128): the number of the 16-byte piece
/// within its span is xor-ed with the number of the 128-byte line within eight, as far as the span has pieces.
constexpr std::uint32_t swizzle(std::uint32_t address, std::uint32_t span) noexcept {
  const std::uint32_t pieces = span / 16;
  return pieces == 0 ? address : address ^ ((address >> 7 & (pieces - 1)) << 4);
}

/// One row of a tile: the elements along the innermost dimension.
struct TileRow {
  std::uint32_t offset = 0;            ///< of its first byte in the tile, before the swizzle
  const char* global = nullptr;        ///< of the first element that is inside the tensor; null if none is
  std::uint32_t first = 0, bytes = 0;  ///< which bytes of the row are inside the tensor
};

class TensorTile {
 public:
  /// `coordinates` has as many entries as the map has dimensions.
  TensorTile(const TensorMapLayout& map, const int* coordinates) noexcept;

  std::uint32_t row_bytes() const noexcept { return row_bytes_; }
  std::uint32_t num_rows() const noexcept { return num_rows_; }
  /// What the copy counts on its barrier: all bytes of the box.
  std::uint32_t bytes() const noexcept { return row_bytes_ * num_rows_; }
  /// What the tile takes in shared memory: rows narrower than the swizzle's span are padded to it.
  std::uint32_t footprint() const noexcept { return pitch_ * num_rows_; }
  std::uint32_t span() const noexcept { return map_.span; }
  TileRow row(std::uint32_t index) const noexcept;

 private:
  TensorMapLayout map_;
  std::int64_t start_[5] = {};
  std::uint32_t row_bytes_ = 0, pitch_ = 0, num_rows_ = 1;
};

/// Why `map` is none that a copy of `rank` dimensions can use; empty if it is one.
std::string wrong_with_map(const TensorMapLayout& map, unsigned int rank);

}  // namespace moegen::cpu
