// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, epilogue of tiles with tokens on M and weights on N: a thread holds two tokens, 8 apart, and pairs of
// neighbouring rows of weights. With gate and up in one tile 8 columns of gate and 8 of up take turns.
#pragma once

#include "../core/warp.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

/// One bias, or two of 16 bits, in a register. Any: there are biases.
template <class P, bool Any>
struct PackedBias {
  enum : uint32_t { kCount = 1 };
};
template <class P>
struct PackedBias<P, true> {
  enum : uint32_t { kCount = 4 / sizeof(typename P::bias_dtype) };
  uint32_t word = 0;
  MOEGEN_DEVICE void put(uint32_t index, float bias) {
    if constexpr (kCount == 1)
      word = float_bits(bias);
    else
      word |= pack_pair(typename P::bias_dtype{}, bias, 0.0f) << 16 * index;  // exact: it was one
  }
  /// The lane's.
  MOEGEN_DEVICE float get(uint32_t index, uint32_t lane) const {
    const uint32_t got = shuffle(word, lane);
    if constexpr (kCount == 1)
      return bits_float(got);
    else
      return to_float(typename P::bias_dtype{static_cast<uint16_t>(got >> 16 * index)});
  }
};

/// Scales and biases of the tile's N rows of weights over the lanes of a warp, fetched from the lane: row r in lane
/// r % 32. They are there while the tile is multiplied, so 16-bit biases share a register, those of row r and r + 32.
template <class P, class T, uint32_t N>
struct WeightTerms {
  enum : uint32_t {
    kCount = ceil_div<uint32_t>(N, kWarpSize),
    kScales = P::rowwise || P::tensor_scales ? kCount : 1,
    kShare = PackedBias<P, P::bias>::kCount,
    kBiases = P::bias ? ceil_div<uint32_t>(kCount, kShare) : 1,
  };
  float scale[kScales];
  PackedBias<P, P::bias> bias[kBiases];
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t row = i * kWarpSize + lane_index(), first = tile.unit * T::tile_columns;
      ColumnTerms<P> terms;
      terms.load(args, tile.expert, first + (P::gated ? row / 16 * 8 + row % 8 : row), P::gated && row / 8 % 2 == 1);
      if constexpr (P::rowwise || P::tensor_scales) scale[i] = terms.scale;
      if constexpr (P::bias) bias[i / kShare].put(i % kShare, terms.bias);
    }
  }
  /// Of row 8 * j + 2 * (lane % 4) + k of the tile.
  MOEGEN_DEVICE ColumnTerms<P> get(uint32_t j, uint32_t k) const {
    const uint32_t i = j * 8 / kWarpSize, lane = j * 8 % kWarpSize + lane_index() % 4 * 2 + k;
    ColumnTerms<P> got;
    if constexpr (P::rowwise || P::tensor_scales) got.scale = shuffle(scale[i], lane);
    if constexpr (P::bias) got.bias = bias[i / kShare].get(i % kShare, lane);
    return got;
  }
};

/// The first of a thread's two tokens in the tile; the second lies 8 further.
MOEGEN_DEVICE uint32_t first_token(uint32_t warpgroup) {
  return warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
}

/// What a thread loads ahead of the sum.
template <class P, class T, uint32_t N>
struct TermsAhead {
  float scale[2];  // of its tokens
  WeightTerms<P, T, N> weights;

  MOEGEN_DEVICE TermsAhead(const Args& args, const Tile& tile, uint32_t warpgroup) {
    scale[0] = token_scale<P>(args, tile, first_token(warpgroup));
    scale[1] = token_scale<P>(args, tile, first_token(warpgroup) + 8);
    weights.load(args, tile);
  }
};

/// Terms of two neighbouring columns, for both tokens of a thread; with gate and up those of both.
template <class P>
struct PairTerms {
  ColumnTerms<P> first[2], up[P::gated ? 2 : 1];
};

/// The epilogue's part of one thread: how a sum becomes values.
template <class P, class T, class Custom, uint32_t N>
struct FinishTokensM {
  using Ahead = TermsAhead<P, T, N>;
  const Args& args;
  const Tile tile;
  const uint32_t token;  // of the tile, of this thread's first
  const Ahead& ahead;

  MOEGEN_DEVICE FinishTokensM(const Args& arguments, const Tile& where, uint32_t warpgroup, const Ahead& terms)
      : args(arguments), tile(where), token(first_token(warpgroup)), ahead(terms) {}

  /// Of columns 8 * j + 2 * (lane % 4) and the next of the tile. All lanes ask together.
  MOEGEN_DEVICE PairTerms<P> terms(uint32_t j) const {
    PairTerms<P> got;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      got.first[k] = ahead.weights.get(P::gated ? 2 * j : j, k);
      if constexpr (P::gated) got.up[k] = ahead.weights.get(2 * j + 1, k);
    }
    return got;
  }

  /// Values of token + 8 * half in these columns.
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, float (&out)[2]) const {
    values(sum, j, half, terms(j), out);
  }
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, const PairTerms<P>& terms,
                            float (&out)[2]) const {
    const uint32_t group = P::gated ? 2 * j : j;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float first = scaled(sum[4 * group + 2 * half + k], ahead.scale[half], terms.first[k]);
      float up = 0.0f;
      if constexpr (P::gated) up = scaled(sum[4 * group + 4 + 2 * half + k], ahead.scale[half], terms.up[k]);
      const uint32_t column = tile.unit * T::tile_columns + 8 * j + lane_index() % 4 * 2 + k;
      out[k] = finished<P, Custom>(args, tile, token + 8 * half, column, first, up);
    }
  }
};

}  // namespace moegen::grouped_matmul
