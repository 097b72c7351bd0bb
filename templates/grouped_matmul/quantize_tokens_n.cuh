// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised stores of tiles with tokens on N: a group of columns lies across several warps, so the
// tile's floats meet in shared memory, and a warp quantises a row at a time.
#pragma once

#include "finish_tokens_n.cuh"
#include "quantize.cuh"

namespace moegen::grouped_matmul {

/// The values of `staging_rows` tokens by the tile's columns, of the whole block.
template <class T>
struct FloatStaging {
  enum : uint32_t { kThreads = T::warpgroups * kWarpgroupThreads };
  static_assert(T::warpgroups * T::staging_bytes >= T::staging_rows * kFloatStride<T> * 4);
  float* base;
  MOEGEN_DEVICE float* row(uint32_t index) const { return base + index * kFloatStride<T>; }
  MOEGEN_DEVICE void sync() const { named_sync(1, kThreads); }
};

/// Stages tokens [first, first + staging_rows) of the tile.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_floats(const FinishTokensN<P, T, Custom, N>& finish, const FloatStaging<T>& staging,
                                const float (&sum)[N / 2], uint32_t first) {
  const uint32_t mine = finish.weights.column - finish.tile.unit * T::tile_columns;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; ++j) {
    if (8 * j < first || 8 * j >= first + T::staging_rows) continue;
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k) staging.row(8 * j - first + lane_index() % 4 * 2 + k)[mine + 8 * half] = pair[k];
    }
  }
}

/// Brings staged tokens [first, first + rows) of the tile on their way, with all multiplying warpgroups together.
template <class P, class T>
MOEGEN_DEVICE void send_floats(const Args& args, const FloatStaging<T>& staging, const Tile& tile, uint32_t first,
                               uint32_t rows) {
  staging.sync();
  send_quantised<P, T, FloatStaging<T>::kThreads / kWarpSize>(args, tile, staging.base, tile.row + first, rows,
                                                              warp_index() - kWarpgroupThreads / kWarpSize);
  staging.sync();
}

/// Brings a finished tile on its way but for its last rows, which are left in the staging.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs&,
                              const Shared<P, T>& shared, uint32_t, const float (&sum)[N / 2]) {
  const FloatStaging<T> staging = {reinterpret_cast<float*>(shared.staging(0))};
#pragma unroll
  for (uint32_t first = 0; first < N; first += T::staging_rows) {
    stage_floats(finish, staging, sum, first);
    if (finish.tile.rows <= first + T::staging_rows) break;
    send_floats<P>(finish.args, staging, finish.tile, first, T::staging_rows);
  }
}

/// Brings what stage_tile left on its way.
template <class P, class T>
MOEGEN_DEVICE void send_last_rows(const TensorArgs& args, const Shared<P, T>& shared, const Tile& tile, uint32_t) {
  const FloatStaging<T> staging = {reinterpret_cast<float*>(shared.staging(0))};
  const uint32_t first = (tile.rows - 1) / T::staging_rows * T::staging_rows;
  send_floats<P>(args.args, staging, tile, first, tile.rows - first);
}

}  // namespace moegen::grouped_matmul
