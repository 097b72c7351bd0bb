// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, stores of tiles with tokens on M and weights on N: a thread's values already lie side by side in a
// token's row.
#pragma once

#include "finish_tokens_m.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// Stages 16 tokens of this warp by 16 columns from 8 * j on, as four 8 x 8 matrices of 16-bit values, at `column` of
/// the staging.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_matrices(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                  const float (&sum)[N / 2], uint32_t j, uint32_t column) {
  uint32_t registers[4];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const auto terms = finish.terms(j + i);
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      float pair[2];
      finish.values(sum, j + i, half, terms, pair);
      registers[2 * i + half] = pack_pair(typename P::output_dtype{}, pair[0], pair[1]);
    }
  }
  const uint32_t m = lane_index() / 8;
  store_matrix(staging.at(warp_index() % 4 * 16 + m % 2 * 8 + lane_index() % 8, column + m / 2 * 8), registers);
}

/// The same of 8 columns of floats.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_floats(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2], uint32_t j, uint32_t column) {
  const auto terms = finish.terms(j);
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float pair[2];
    finish.values(sum, j, half, terms, pair);
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k)
      *reinterpret_cast<float*>(
          staging.at(warp_index() % 4 * 16 + lane_index() / 4 + 8 * half, column + lane_index() % 4 * 2 + k)) = pair[k];
  }
}

/// Brings a finished tile of this warpgroup on its way: its 64 tokens.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensM<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  using S = Staging<P, T>;
  const S staging = {shared.staging(warpgroup), warpgroup};
  store_panels(args, staging, finish.tile, warpgroup, [&](uint32_t panel, uint32_t place) {
    constexpr uint32_t kStep = sizeof(typename P::output_dtype) == 4 ? 8 : 16;
#pragma unroll
    for (uint32_t i = 0; i < S::kPanelColumns; i += kStep) {
      const uint32_t j = (panel * S::kPanelColumns + i) / 8, column = place * S::kPanelColumns + i;
      if constexpr (kStep == 8)
        stage_floats(finish, staging, sum, j, column);
      else
        stage_matrices(finish, staging, sum, j, column);
    }
  });
}

}  // namespace moegen::grouped_matmul
