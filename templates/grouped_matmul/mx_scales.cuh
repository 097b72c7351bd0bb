// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme mxfp8: every 32 of K have a scale in each row of a and in each row of b, a power of two.
//
// Arithmetic, the same in every kernel. The tensor cores sum the products of 32 of K, starting from zero; then
//   sum = fma(fl32(token's scale * weights' scale), products, sum)
// in float32, in the order of K. The product of two scales is exact from 2^-149 to 2^127; beyond it is 0 or infinity.
// Code 255 is NaN, and so is what it multiplies. The last scale of a row may cover 16 of K.
//
// Cost. A product of two scales and an fma for each sum and 32 of K: for 128 tokens by 128 rows of weights by 128 of K
// these are 2 * 4 * 128 * 128 / 128 lanes = 1024 cycles of a multiprocessor, where the tensor cores of a Hopper take
// 512, and shared memory's path about 1400 (docs/kernels.md). So large groups run at a quarter to a third of the rate
// of other fp8; a few tokens a tile take less time than the weights of a slice need from HBM (16 KiB: 820 cycles of
// an H200).
#pragma once

#include "../core/math.cuh"
#include "../core/narrow.cuh"
#include "../core/thread.cuh"
#include "factors.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

enum : uint32_t { kMxDepth = 32, kMxSteps = kSliceBytes / kMxDepth };

/// Scales of a stage, as floats: of tokens by step, then token (factor_place); of rows of weights by row, then step.
template <class T>
struct MxScales {
  enum : uint32_t { kFloats = kMxSteps * (T::max_tokens + T::weight_rows) };
  float* base;
  MOEGEN_DEVICE float* of_tokens(uint32_t step) const { return base + step * T::max_tokens; }
  MOEGEN_DEVICE float* of_weights(uint32_t row) const { return base + kMxSteps * (T::max_tokens + row); }

  MOEGEN_DEVICE void store_token(uint32_t token, uint32_t codes) const {
#pragma unroll
    for (uint32_t step = 0; step < kMxSteps; ++step) of_tokens(step)[factor_place<T>(token)] = scale_of(codes, step);
  }
  MOEGEN_DEVICE void store_weights(uint32_t row, uint32_t codes) const {
    FactorQuad four;
#pragma unroll
    for (uint32_t step = 0; step < kMxSteps; ++step) four.factor[step] = scale_of(codes, step);
    *reinterpret_cast<FactorQuad*>(of_weights(row)) = four;
  }

 private:
  static MOEGEN_DEVICE float scale_of(uint32_t codes, uint32_t step) {
    return to_float(float8_e8m0fnu{static_cast<uint8_t>(codes >> 8 * step)});
  }
};

/// An unsigned number of `Bytes` bytes.
template <uint32_t Bytes>
struct Word {
  using type = uint32_t;
};
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<1> {
  using type = uint8_t;
};

/// Codes of the four scales of slice `slice` in a row of them, the first in the low byte; 0 past the row's end. In
/// words that every row is a multiple of.
template <class P>
MOEGEN_DEVICE uint32_t mx_codes(const uint8_t* row, uint32_t slice) {
  constexpr uint32_t kScales = ceil_div<uint32_t>(P::depth, kMxDepth);
  constexpr uint32_t kBytes = kScales % 4 == 0 ? 4 : kScales % 2 == 0 ? 2 : 1;
  const auto* words = reinterpret_cast<const typename Word<kBytes>::type*>(row);
  uint32_t codes = 0;
#pragma unroll
  for (uint32_t i = 0; i < kMxSteps; i += kBytes) {
    const uint32_t at = slice * kMxSteps + i;
    if (at < kScales) codes |= static_cast<uint32_t>(words[at / kBytes]) << 8 * i;
  }
  return codes;
}

/// Where the codes of row `line` of a tile lie, which has rows of weights, then tokens; null: nowhere.
template <class P, class T>
MOEGEN_DEVICE const uint8_t* mx_line(const Args& args, const Tile& tile, uint32_t line) {
  constexpr uint64_t kScales = ceil_div<uint32_t>(P::depth, kMxDepth);
  const bool weights = line < T::weight_rows;
  const uint32_t row = weights ? tile_weight_row<P, T>(tile, line) : source_row<P>(args, tile, line - T::weight_rows);
  if (row == kNone) return nullptr;
  const uint64_t first = weights ? static_cast<uint64_t>(tile.expert) * P::columns : 0;
  return static_cast<const uint8_t*>(weights ? args.b_scales : args.a_scales) + (first + row) * kScales;
}

/// Stores the codes of that row.
template <class T>
MOEGEN_DEVICE void store_line(const MxScales<T>& scales, uint32_t line, uint32_t codes) {
  if (line < T::weight_rows)
    scales.store_weights(line, codes);
  else
    scales.store_token(line - T::weight_rows, codes);
}

/// Adds the products of one step, of tokens on N and two rows of weights, `row` and `row` + 8 of the tile.
template <class T, uint32_t N>
MOEGEN_DEVICE void add_mx_step(const MxScales<T>& scales, uint32_t row, uint32_t step, const float (&products)[N / 2],
                               float (&sum)[N / 2]) {
  const float upper = scales.of_weights(row)[step], lower = scales.of_weights(row + 8)[step];
  const float* mine = scales.of_tokens(step) + lane_index() % 4 * 4;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; j += 2) {
    const FactorQuad tokens = *reinterpret_cast<const FactorQuad*>(mine + 8 * j);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t d = 4 * (j + i / 2) + i % 2;
      if (j + i / 2 >= N / 8) continue;
      sum[d] = math::fma(tokens.factor[i] * upper, products[d], sum[d]);
      sum[d + 2] = math::fma(tokens.factor[i] * lower, products[d + 2], sum[d + 2]);
    }
  }
}

}  // namespace moegen::grouped_matmul
