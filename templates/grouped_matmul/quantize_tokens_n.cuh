// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised stores of tiles with tokens on N: a group of 128 columns lies across all multiplying warps,
// so its floats meet in shared memory, and a warp quantises a row at a time.
#pragma once

#include "finish_tokens_n.cuh"
#include "quantize.cuh"

namespace moegen::grouped_matmul {

/// The values of `staging_rows` tokens by 128 columns, of the whole block. Rows lie 16 bytes more than their length
/// apart, against bank conflicts.
template <class T>
struct FloatStaging {
  enum : uint32_t { kStride = 128 + 4, kThreads = T::warpgroups * kWarpgroupThreads };
  static_assert(T::tile_columns == 128 && T::warpgroups * T::staging_bytes >= T::staging_rows * kStride * 4);
  float* base;
  MOEGEN_DEVICE float* row(uint32_t index) const { return base + index * kStride; }
  MOEGEN_DEVICE void sync() const { named_sync(1, kThreads); }
};

template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_floats(const FinishTokensN<P, T, Custom, N>& finish, const FloatStaging<T>& staging,
                                const float (&sum)[N / 2]) {
  const uint32_t mine = finish.column - finish.tile.unit * T::tile_columns;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; ++j) {
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k) staging.row(8 * j + lane_index() % 4 * 2 + k)[mine + 8 * half] = pair[k];
    }
  }
}

/// Quantises and stores row `token` of the tile: four columns a lane.
template <class P, class T>
MOEGEN_DEVICE void send_row(const Args& args, const Tile& tile, const FloatStaging<T>& staging, uint32_t token) {
  const Vector16 four = *reinterpret_cast<const Vector16*>(staging.row(token) + 4 * lane_index());
  float value[4];
  uint32_t word[1];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) value[i] = bits_float(four.word[i]);
  const auto scale = quantize_group<P>(value, word);
  const uint64_t row = uint64_t{tile.row} + token;
  const uint32_t column = tile.unit * T::tile_columns + 4 * lane_index();
  if (column < P::output_columns)
    *reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(args.c) + row * P::output_columns + column) = word[0];
  if (lane_index() == 0) store_scale<P>(args, row, tile.unit, scale);
}

/// Brings a finished tile on its way, with all multiplying warpgroups together.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs&,
                              const Shared<P, T>& shared, uint32_t, const float (&sum)[N / 2]) {
  const FloatStaging<T> staging = {reinterpret_cast<float*>(shared.staging(0))};
  stage_floats(finish, staging, sum);
  staging.sync();
  if (finish.tile.unit * T::tile_columns < P::output_columns) {
#pragma unroll 1
    for (uint32_t token = warp_index() - kWarpgroupThreads / kWarpSize; token < finish.tile.rows;
         token += FloatStaging<T>::kThreads / kWarpSize)
      send_row<P, T>(finish.args, finish.tile, staging, token);
  }
  staging.sync();
}

}  // namespace moegen::grouped_matmul
