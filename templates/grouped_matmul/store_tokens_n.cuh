// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, stores of tiles with weights on M and tokens on N: a warpgroup's values are turned round on their way
// into the staging, so that a token's columns lie side by side.
#pragma once

#include "finish_tokens_n.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// Stages Count 8 x 8 matrices of 16-bit values, transposed: matrix m holds tokens 8 * (first + m / kHalves), columns
/// 8 * (m % kHalves) of this warp's.
template <class P, class T, class Custom, uint32_t N, uint32_t Count>
MOEGEN_DEVICE void stage_matrices(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                  const float (&sum)[N / 2], uint32_t first, uint32_t first_row) {
  constexpr uint32_t kHalves = P::gated ? 1 : 2;
  uint32_t registers[Count];
#pragma unroll
  for (uint32_t m = 0; m < Count; ++m) {
    float pair[2];
    finish.values(sum, first + m / kHalves, m % kHalves, pair);
    registers[m] = pack_pair(typename P::output_dtype{}, pair[0], pair[1]);
  }
  const uint32_t m = lane_index() / 8 % Count;  // lanes beyond the last matrix name no row
  store_matrix<true>(staging.at((first + m / kHalves) * 8 + lane_index() % 8 - first_row,
                                warp_index() % 4 * (T::warpgroup_columns / 4) + m % kHalves * 8),
                     registers);
}

/// Stages tokens [Row, Row + Rows) as 16-bit values, up to four matrices at a time.
template <class P, class T, class Custom, uint32_t N, uint32_t Row, uint32_t Rows>
MOEGEN_DEVICE void stage_narrow(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2]) {
  constexpr uint32_t kHalves = P::gated ? 1 : 2, kStep = 4 / kHalves;  // groups of 8 tokens of four matrices
  constexpr uint32_t kBase = Row / T::staging_rows * T::staging_rows;
  constexpr uint32_t kFirst = Row / 8, kLast = min_of<uint32_t>(N, Row + Rows) / 8;
  constexpr uint32_t kWhole = kFirst + (kLast - kFirst) / kStep * kStep, kRest = kLast - kWhole;
  if constexpr (kWhole > kFirst) {
#pragma unroll
    for (uint32_t j = kFirst; j < kWhole; j += kStep)
      stage_matrices<P, T, Custom, N, 4>(finish, staging, sum, j, kBase);
  }
  if constexpr (kRest >= 2) stage_matrices<P, T, Custom, N, 2 * kHalves>(finish, staging, sum, kWhole, kBase);
  if constexpr (kRest % 2 == 1) stage_matrices<P, T, Custom, N, kHalves>(finish, staging, sum, kLast - 1, kBase);
}

/// The same of float values.
template <class P, class T, class Custom, uint32_t N, uint32_t Row, uint32_t Rows>
MOEGEN_DEVICE void stage_wide(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                              const float (&sum)[N / 2]) {
  constexpr uint32_t kLast = min_of<uint32_t>(N, Row + Rows) / 8;
  constexpr uint32_t kBase = Row / T::staging_rows * T::staging_rows;
  const uint32_t mine = warp_index() % 4 * (T::warpgroup_columns / 4) + lane_index() / 4;
#pragma unroll
  for (uint32_t j = Row / 8; j < kLast; ++j) {
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k)
        *reinterpret_cast<float*>(staging.at(8 * j + lane_index() % 4 * 2 + k - kBase, mine + 8 * half)) = pair[k];
    }
  }
}

/// Brings staged tokens [Row, Row + Rows) of the tile on their way; with tensor stores the last part of a group alone
/// is ragged.
template <class P, class T, uint32_t Row, uint32_t Rows>
MOEGEN_DEVICE void send_rows(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile, uint32_t column,
                             bool issuer) {
  constexpr uint32_t kFirst = Row % T::staging_rows;
  const uint32_t rows = min_of<uint32_t>(tile.rows - Row, Rows);
  if (T::store_rows > 0) fence_proxy_async();
  staging.sync();
  if (T::store_rows > 0 && rows == T::store_rows) {
    if (issuer) {
#pragma unroll
      for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
        staging.send_box(args, i, kFirst, tile.row + Row, column + i * Staging<P, T>::kPanelColumns);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
      staging.template send_pieces<kWarpgroupThreads>(args.args, i, kFirst, uint64_t{tile.row} + Row,
                                                      column + i * Staging<P, T>::kPanelColumns, rows,
                                                      thread_index() % kWarpgroupThreads);
  }
}

/// Brings tokens from Row on on their way, a box or the whole staging at a time.
template <class P, class T, class Custom, uint32_t N, uint32_t Row>
MOEGEN_DEVICE void store_rows(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Staging<P, T>& staging, uint32_t column, const float (&sum)[N / 2]) {
  constexpr uint32_t kRows = T::store_rows > 0 ? T::store_rows : T::staging_rows, kParts = T::staging_rows / kRows;
  if (Row >= finish.tile.rows) return;
  const bool issuer = thread_index() % kWarpgroupThreads == 0;
  if constexpr (Row == 0 || Row >= T::staging_rows) {
    wait_for_boxes<T, Row == 0 ? 0 : (kParts - 1) * Staging<P, T>::kPanels>(issuer);
    staging.sync();
  }
  if constexpr (sizeof(typename P::output_dtype) == 4)
    stage_wide<P, T, Custom, N, Row, kRows>(finish, staging, sum);
  else
    stage_narrow<P, T, Custom, N, Row, kRows>(finish, staging, sum);
  send_rows<P, T, Row, kRows>(args, staging, finish.tile, column, issuer);
  if constexpr (Row + kRows < N) store_rows<P, T, Custom, N, Row + kRows>(finish, args, staging, column, sum);
}

/// Brings a finished tile of this warpgroup on its way.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  const Staging<P, T> staging = {shared.staging(warpgroup), warpgroup};
  store_rows<P, T, Custom, N, 0>(finish, args, staging,
                                 finish.tile.unit * T::tile_columns + warpgroup * T::warpgroup_columns, sum);
}

}  // namespace moegen::grouped_matmul
