// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, epilogue of tiles with weights on M and tokens on N: a thread holds two rows of weights, 8 apart, and
// pairs of neighbouring tokens. With gate and up in one tile its two rows are gate and up of one column of c.
#pragma once

#include "../core/warp.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

/// Scales of the tile's N tokens over the lanes of a warp: loaded at once, before the sum, and fetched from the lane.
template <class P, uint32_t N>
struct TokenScales {
  enum : uint32_t { kCount = P::rowwise || P::tensor_scales ? ceil_div<uint32_t>(N, kWarpSize) : 1 };
  float value[kCount];
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile) {
    if constexpr (P::rowwise || P::tensor_scales) {
#pragma unroll
      for (uint32_t i = 0; i < kCount; ++i) value[i] = token_scale<P>(args, tile, i * kWarpSize + lane_index());
    }
  }
  /// Of token 8 * j + 2 * (lane % 4) + k.
  MOEGEN_DEVICE float get(uint32_t j, uint32_t k) const {
    if constexpr (P::rowwise || P::tensor_scales)
      return shuffle(value[j * 8 / kWarpSize], j * 8 % kWarpSize + lane_index() % 4 * 2 + k);
    return 1.0f;
  }
};

/// A thread's two rows of weights, loaded ahead of the sum.
template <class P, class T>
struct WeightRows {
  uint32_t column;  // of c, of the first
  ColumnTerms<P> terms[2];

  MOEGEN_DEVICE WeightRows(const Args& args, const Tile& tile, uint32_t warpgroup) {
    constexpr uint32_t kWarpColumns = T::warpgroup_columns / 4;
    column = tile.unit * T::tile_columns + warpgroup * T::warpgroup_columns + warp_index() % 4 * kWarpColumns +
             lane_index() / 4;
    terms[0].load(args, tile.expert, column, false);
    terms[1].load(args, tile.expert, P::gated ? column : column + 8, P::gated);
  }
};

/// The epilogue's part of one thread: the scales of N tokens, loaded ahead of the sum, and how a sum becomes values.
template <class P, class T, class Custom, uint32_t N>
struct FinishTokensN {
  using Weights = WeightRows<P, T>;
  const Args& args;
  const Tile& tile;
  const Weights& weights;
  TokenScales<P, N> tokens;

  MOEGEN_DEVICE FinishTokensN(const Args& arguments, const Tile& where, const Weights& rows)
      : args(arguments), tile(where), weights(rows) {
    tokens.load(args, tile);
  }

  /// Values of tokens 8 * j + 2 * (lane % 4) and the next, of column + 8 * half.
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, float (&out)[2]) const {
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float scale = tokens.get(j, k);
      const float first = scaled(sum[4 * j + 2 * half + k], scale, weights.terms[half]);
      const float up = P::gated ? scaled(sum[4 * j + 2 + k], scale, weights.terms[1]) : 0.0f;
      const uint32_t token = 8 * j + lane_index() % 4 * 2 + k;
      out[k] = finished<P, Custom>(args, tile, token, weights.column + 8 * half, first, up);
    }
  }
};

}  // namespace moegen::grouped_matmul
