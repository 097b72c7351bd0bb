// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, stores of tiles with weights on M and tokens on N: a warpgroup's values are turned round on their way
// into the staging, so that a token's columns lie side by side.
#pragma once

#include "finish_tokens_n.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// Stages Count 8 x 8 matrices of 16-bit values, transposed: matrix m holds tokens 8 * (first + m / kHalves), columns
/// 8 * (m % kHalves) of this warp's.
template <uint32_t Count, class P, class T, class Custom, uint32_t N>
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
template <uint32_t Row, uint32_t Rows, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_narrow(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2]) {
  constexpr uint32_t kHalves = P::gated ? 1 : 2, kStep = 4 / kHalves;  // groups of 8 tokens of four matrices
  constexpr uint32_t kBase = Row / T::staging_rows * T::staging_rows;
  constexpr uint32_t kFirst = Row / 8, kLast = min_of<uint32_t>(N, Row + Rows) / 8;
  constexpr uint32_t kWhole = kFirst + (kLast - kFirst) / kStep * kStep, kRest = kLast - kWhole;
  if constexpr (kWhole > kFirst) {
#pragma unroll
    for (uint32_t j = kFirst; j < kWhole; j += kStep) stage_matrices<4>(finish, staging, sum, j, kBase);
  }
  if constexpr (kRest >= 2) stage_matrices<2 * kHalves>(finish, staging, sum, kWhole, kBase);
  if constexpr (kRest % 2 == 1) stage_matrices<kHalves>(finish, staging, sum, kLast - 1, kBase);
}

/// The same of float values.
template <uint32_t Row, uint32_t Rows, class P, class T, class Custom, uint32_t N>
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

/// Rows that are staged before they leave, a part of the tile: a box, or the whole staging.
template <class T>
constexpr uint32_t kPartRows = T::store_rows > 0 ? T::store_rows : T::staging_rows;

/// Brings the staged part of the tile at row `row`, of `rows` rows, on its way; with tensor stores the last part of a
/// group alone is ragged.
template <class P, class T>
MOEGEN_DEVICE void send_part(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile, uint32_t row,
                             uint32_t rows) {
  const uint32_t first = row % T::staging_rows, column = tile.unit * T::tile_columns + staging.first_column();
  if (T::store_rows > 0) fence_proxy_async();
  staging.sync();
  if (T::store_rows > 0 && rows == T::store_rows) {
    if (thread_index() % kWarpgroupThreads == 0) {
#pragma unroll
      for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
        staging.send_box(args, i, first, tile.row + row, column + i * Staging<P, T>::kPanelColumns);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
      staging.template send_pieces<kWarpgroupThreads>(args.args, i, first, uint64_t{tile.row} + row,
                                                      column + i * Staging<P, T>::kPanelColumns, rows,
                                                      thread_index() % kWarpgroupThreads);
  }
}

/// Stages the parts of the tile from row Row on; all but the last also leave.
template <uint32_t Row, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_parts(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                               const Staging<P, T>& staging, const float (&sum)[N / 2]) {
  constexpr uint32_t kRows = kPartRows<T>, kParts = T::staging_rows / kRows;
  if constexpr (Row == 0 || Row >= T::staging_rows) {
    wait_for_boxes<T, Row == 0 ? 0 : (kParts - 1) * Staging<P, T>::kPanels>(thread_index() % kWarpgroupThreads == 0);
    staging.sync();
  }
  if constexpr (sizeof(typename P::output_dtype) == 4)
    stage_wide<Row, kRows>(finish, staging, sum);
  else
    stage_narrow<Row, kRows>(finish, staging, sum);
  if constexpr (Row + kRows < N) {
    if (finish.tile.rows <= Row + kRows) return;
    send_part(args, staging, finish.tile, Row, kRows);
    stage_parts<Row + kRows>(finish, args, staging, sum);
  }
}

/// Brings a finished tile of this warpgroup on its way but for its last part, which is left in the staging.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  stage_parts<0>(finish, args, Staging<P, T>{shared.staging(warpgroup), warpgroup}, sum);
}

/// Brings what stage_tile left on its way.
template <class P, class T>
MOEGEN_DEVICE void send_last_rows(const TensorArgs& args, const Shared<P, T>& shared, const Tile& tile,
                                  uint32_t warpgroup) {
  const uint32_t row = (tile.rows - 1) / kPartRows<T> * kPartRows<T>;
  send_part(args, Staging<P, T>{shared.staging(warpgroup), warpgroup}, tile, row, tile.rows - row);
}

}  // namespace moegen::grouped_matmul
