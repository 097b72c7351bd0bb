// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, epilogue of tiles with tokens on M and weights on N: a thread holds two tokens, 8 apart, and pairs of
// neighbouring rows of weights. With gate and up in one tile 8 columns of gate and 8 of up take turns.
#pragma once

#include "../core/warp.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

/// Scales and biases of the tile's N rows of weights over the lanes of a warp, fetched from the lane.
template <class P, class T, uint32_t N>
struct WeightTerms {
  enum : uint32_t { kCount = ceil_div<uint32_t>(N, kWarpSize) };
  ColumnTerms<P> terms[kCount];
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t row = i * kWarpSize + lane_index(), first = tile.unit * T::tile_columns;
      terms[i].load(args, tile.expert, first + (P::gated ? row / 16 * 8 + row % 8 : row), P::gated && row / 8 % 2 == 1);
    }
  }
  /// Of row 8 * j + 2 * (lane % 4) + k of the tile.
  MOEGEN_DEVICE ColumnTerms<P> get(uint32_t j, uint32_t k) const {
    const ColumnTerms<P>& mine = terms[j * 8 / kWarpSize];
    const uint32_t lane = j * 8 % kWarpSize + lane_index() % 4 * 2 + k;
    ColumnTerms<P> got;
    if constexpr (P::rowwise || P::tensor_scales) got.scale = shuffle(mine.scale, lane);
    if constexpr (P::bias) got.bias = shuffle(mine.bias, lane);
    return got;
  }
};

/// The epilogue's part of one thread: what it loads ahead of the sum, and how a sum becomes values.
template <class P, class T, class Custom, uint32_t N>
struct FinishTokensM {
  const Args& args;
  const Tile tile;
  uint32_t token;  // of the tile, of this thread's first
  float scale[2];
  WeightTerms<P, T, N> weights;

  MOEGEN_DEVICE FinishTokensM(const Args& arguments, const Tile& where, uint32_t warpgroup)
      : args(arguments), tile(where) {
    token = warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
    scale[0] = token_scale<P>(args, tile, token);
    scale[1] = token_scale<P>(args, tile, token + 8);
    weights.load(args, tile);
  }

  /// Values of token + 8 * half in columns 8 * j + 2 * (lane % 4) and the next of the tile.
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, float (&out)[2]) const {
    const uint32_t group = P::gated ? 2 * j : j;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float first = scaled(sum[4 * group + 2 * half + k], scale[half], weights.get(group, k));
      float up = 0.0f;
      if constexpr (P::gated) up = scaled(sum[4 * group + 4 + 2 * half + k], scale[half], weights.get(group + 1, k));
      const uint32_t column = tile.unit * T::tile_columns + 8 * j + lane_index() % 4 * 2 + k;
      out[k] = finished<P, Custom>(args, tile, token + 8 * half, column, first, up);
    }
  }
};

}  // namespace moegen::grouped_matmul
