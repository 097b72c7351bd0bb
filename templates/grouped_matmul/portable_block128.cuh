// SPDX-License-Identifier: Apache-2.0
// grouped_matmul for every arch, block128: what turns the partial sum of 128 of K into a part of the sum.
#pragma once

#include "../core/math.cuh"
#include "../core/narrow.cuh"
#include "finish_tokens_n.cuh"

namespace moegen::grouped_matmul {

/// Scale of the block of b that row `row` of an expert lies in.
template <class P>
MOEGEN_DEVICE float weight_scale(const Args& args, const Tile& tile, uint32_t row, uint32_t slice) {
  constexpr uint32_t kRowBlocks = ceil_div<uint32_t>(P::columns, 128);
  const uint64_t block = static_cast<uint64_t>(tile.expert) * kRowBlocks + min_of<uint32_t>(row / 128, kRowBlocks - 1);
  return to_float(static_cast<const typename P::scale_dtype*>(args.b_scales)[block * P::depth_blocks + slice]);
}

/// Scale of token `token` in block `slice` of K.
template <class P>
MOEGEN_DEVICE float block_token_scale(const Args& args, const Tile& tile, uint32_t token, uint32_t slice) {
  const uint32_t row = source_row<P>(args, tile, token);
  if (row == kNone) return 0.0f;
  const uint64_t index = P::column_scales ? slice * static_cast<uint64_t>(args.a_scales_stride) + row
                                          : static_cast<uint64_t>(row) * P::depth_blocks + slice;
  return to_float(static_cast<const typename P::scale_dtype*>(args.a_scales)[index]);
}

/// sum += (scale of the token's block * scale of the weights' block) * part, the product of scales rounded once.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void add_scaled_slice(const Args& args, const Tile& tile, uint32_t slice, const float (&part)[N / 2],
                                    float (&sum)[N / 2]) {
  const uint32_t column = tile.unit * T::tile_columns;
  const float weight[2] = {weight_scale<P>(args, tile, weight_row<P>(column, false), slice),
                           weight_scale<P>(args, tile, weight_row<P>(column, P::gated), slice)};
#pragma unroll
  for (uint32_t j = 0; j < N / 8; ++j)
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float token = block_token_scale<P>(args, tile, 8 * j + lane_index() % 4 * 2 + k, slice);
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t i = 4 * j + 2 * half + k;
        sum[i] = math::fma(math::multiply(token, weight[half]), part[i], sum[i]);
      }
    }
}

}  // namespace moegen::grouped_matmul
