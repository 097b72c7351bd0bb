// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised output: groups of columns of a row of c (128 of block128, 32 of mxfp8) become e4m3 codes
// and one scale, by the quantiser that all kernels share. A tile holds whole groups.
#pragma once

#include "../core/barrier.cuh"
#include "../core/group_magnitude.cuh"
#include "../core/memory.cuh"
#include "../core/quantize.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

/// Columns of c that share a scale.
template <class P>
constexpr uint32_t kGroupColumns = P::mx_scales ? 32 : 128;

/// Codes of `Count` values of a group, which neighbouring lanes hold; returns the scale as it is stored.
template <class P, uint32_t Count>
MOEGEN_DEVICE typename P::scale_dtype quantize_group(float (&value)[Count], uint32_t (&word)[Count / 4]) {
  const Magnitude group = group_magnitude<kGroupColumns<P>>(value);
  if constexpr (sizeof(typename P::scale_dtype) == 4)
    return quantize_float32<P>(value, group, word);
  else
    return {static_cast<uint8_t>(quantize_e8m0<P>(value, group, word))};
}

/// Stores the scale of group `group` of row `row` of c.
template <class P>
MOEGEN_DEVICE void store_scale(const Args& args, uint64_t row, uint32_t group, typename P::scale_dtype scale) {
  constexpr uint32_t kGroups = ceil_div<uint32_t>(P::output_columns, kGroupColumns<P>);
  const uint64_t index =
      P::column_scales ? group * static_cast<uint64_t>(args.c_scales_stride) + row : row * kGroups + group;
  static_cast<typename P::scale_dtype*>(args.c_scales)[index] = scale;
}

/// Quantises and stores the four values at `four`, which belong to row `row` of c from column `column` on; `inside`:
/// they are there. All lanes of a warp take part, neighbours with neighbouring columns.
template <class P>
MOEGEN_DEVICE void send_four(const Args& args, const float* four, uint64_t row, uint32_t column, bool inside) {
  const Vector16 loaded = *reinterpret_cast<const Vector16*>(four);
  float value[4];
  uint32_t word[1];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) value[i] = bits_float(loaded.word[i]);
  const auto scale = quantize_group<P>(value, word);
  if (!inside || column >= P::output_columns) return;
  *reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(args.c) + row * P::output_columns + column) = word[0];
  if (column % kGroupColumns<P> == 0) store_scale<P>(args, row, column / kGroupColumns<P>, scale);
}

/// Floats between two staged rows: 16 bytes more than their length, against bank conflicts.
template <class T>
constexpr uint32_t kFloatStride = T::tile_columns + 4;

/// Quantises and stores `rows` staged rows of floats of a tile, the first of them row `row` of c: warp `warp` of
/// `Warps`, a row of 128 columns at a time, or two of 64.
template <class P, class T, uint32_t Warps>
MOEGEN_DEVICE void send_quantised(const Args& args, const Tile& tile, const float* staging, uint32_t row, uint32_t rows,
                                  uint32_t warp) {
  static_assert(T::tile_columns == 64 || T::tile_columns == 128, "of a tile in whole warps");
  static_assert(T::tile_columns % kGroupColumns<P> == 0, "a tile holds whole groups");
  constexpr uint32_t kFours = T::tile_columns / 4, kRows = kWarpSize / kFours;
  const uint32_t mine = lane_index() % kFours * 4, column = tile.unit * T::tile_columns + mine;
#pragma unroll 1
  for (uint32_t first = warp * kRows; first < rows; first += Warps * kRows) {
    const uint32_t at = first + lane_index() / kFours;
    send_four<P>(args, staging + at * kFloatStride<T> + mine, uint64_t{row} + at, column, at < rows);
  }
}

}  // namespace moegen::grouped_matmul
