// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised stores of tiles with tokens on M: a group of 128 columns of a token lies in four lanes,
// which quantise it in registers.
#pragma once

#include "finish_tokens_m.cuh"
#include "quantize.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// Quantises token + 8 * half of this thread, with its neighbours, and stages the codes.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_codes(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               const float (&sum)[N / 2], uint32_t half) {
  float value[32];
  uint32_t word[8];
#pragma unroll
  for (uint32_t j = 0; j < 16; ++j) {
    float pair[2];
    finish.values(sum, j, half, pair);
    value[2 * j] = pair[0];
    value[2 * j + 1] = pair[1];
  }
  const auto scale = quantize_group<P>(value, word);
  const uint32_t row = finish.token % kWarpgroupRows + 8 * half;
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    *reinterpret_cast<uint16_t*>(staging.at(row, 8 * i + lane_index() % 4 * 2)) =
        static_cast<uint16_t>(word[i / 2] >> 16 * (i % 2));
  const uint32_t token = finish.token + 8 * half;
  if (lane_index() % 4 == 0 && token < finish.tile.rows && finish.tile.unit * T::tile_columns < P::output_columns)
    store_scale<P>(finish.args, uint64_t{finish.tile.row} + token, finish.tile.unit, scale);
}

/// Brings a finished tile of this warpgroup on its way: its 64 tokens.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensM<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  static_assert(T::tile_columns == 128, "a tile is one group of columns");
  const Staging<P, T> staging = {shared.staging(warpgroup), warpgroup};
  store_panels(args, staging, finish.tile, warpgroup, [&](uint32_t, uint32_t) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) stage_codes(finish, staging, sum, half);
  });
}

}  // namespace moegen::grouped_matmul
