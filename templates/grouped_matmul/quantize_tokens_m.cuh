// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised stores of tiles with tokens on M: a group of 128 columns of a token lies in four lanes,
// which quantise it in registers.
//
// A tile of 64 columns holds half a group. The block takes both halves one after the other (`joined_tiles`): a thread
// parks its values of the first in the staging, and quantises them with those of the second.
#pragma once

#include "finish_tokens_m.cuh"
#include "quantize.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// This thread's values of token + 8 * half, `Columns` columns of c, to `value` from First on.
template <uint32_t First, uint32_t Columns, uint32_t Count, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void take_values(const FinishTokensM<P, T, Custom, N>& finish, const float (&sum)[N / 2], uint32_t half,
                               float (&value)[Count]) {
#pragma unroll
  for (uint32_t j = 0; j < Columns / 8; ++j) {
    float pair[2];
    finish.values(sum, j, half, pair);
    value[First + 2 * j] = pair[0];
    value[First + 2 * j + 1] = pair[1];
  }
}

/// Quantises token + 8 * half of this thread, with its neighbours, stages the codes and stores the scale.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_codes(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               float (&value)[32], uint32_t half) {
  uint32_t word[8];
  const auto scale = quantize_group<P>(value, word);
  const uint32_t row = finish.token % kWarpgroupRows + 8 * half;
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    *reinterpret_cast<uint16_t*>(staging.at(row, 8 * i + lane_index() % 4 * 2)) =
        static_cast<uint16_t>(word[i / 2] >> 16 * (i % 2));
  const uint32_t token = finish.token + 8 * half, group = finish.tile.unit / T::joined_tiles;
  if (lane_index() % 4 == 0 && token < finish.tile.rows && group * 128 < P::output_columns)
    store_scale<P>(finish.args, uint64_t{finish.tile.row} + token, group, scale);
}

/// Where a thread parks its values of half a group: pieces of 16 bytes, those of a warp side by side, in memory that
/// this warp alone uses. Those of its first token lie where the warp's codes are staged.
template <class P, class T>
struct Parking {
  enum : uint32_t { kTokenPieces = 4, kWarpBytes = kTokenPieces * kWarpSize * 16 };
  static_assert(T::tile_columns == 64 && T::staging_bytes >= 2 * 4 * kWarpBytes);
  static_assert(kWarpBytes == 16 * kSliceBytes, "the codes of a warp's 16 tokens");
  unsigned char* base;

  MOEGEN_DEVICE Vector16& piece(uint32_t half, uint32_t i) const {
    unsigned char* warp = base + (half * 4 + warp_index() % 4) * kWarpBytes;
    return reinterpret_cast<Vector16*>(warp)[i * kWarpSize + lane_index()];
  }
  MOEGEN_DEVICE void put(uint32_t half, const float (&value)[16]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTokenPieces; ++i)
      piece(half, i) = {{float_bits(value[4 * i]), float_bits(value[4 * i + 1]), float_bits(value[4 * i + 2]),
                         float_bits(value[4 * i + 3])}};
  }
  template <uint32_t Count>
  MOEGEN_DEVICE void get(uint32_t half, float (&value)[Count]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTokenPieces; ++i) {
      const Vector16 four = piece(half, i);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) value[4 * i + k] = bits_float(four.word[k]);
    }
  }
};

/// Parks the first half of a group, once the codes that were staged there before have left.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void park_values(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               const float (&sum)[N / 2]) {
  const Parking<P, T> parking = {staging.base};
  wait_for_boxes<T, 0>(lane_index() == 0);
  warp_sync();
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[16];
    take_values<0, 64>(finish, sum, half, value);
    parking.put(half, value);
  }
}

/// Stages the codes of a whole group, whose first half was parked.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_joined(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2]) {
  const Parking<P, T> parking = {staging.base};
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[32];
    parking.get(half, value);
    warp_sync();  // codes lie where another lane's values were
    take_values<16, 64>(finish, sum, half, value);
    stage_codes(finish, staging, value, half);
  }
}

/// Stages the codes of a tile of a whole group, of one token after the other.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_whole(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               const float (&sum)[N / 2]) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[32];
    take_values<0, 128>(finish, sum, half, value);
    stage_codes(finish, staging, value, half);
  }
}

/// Brings a finished tile of this warpgroup on its way: its 64 tokens.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensM<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  static_assert(T::tile_columns * T::joined_tiles == 128, "joined tiles are one group of columns");
  const Staging<P, T> staging = {shared.staging(warpgroup), warpgroup};
  if constexpr (T::joined_tiles == 1) {
    store_panels(args, staging, finish.tile, warpgroup, [&](uint32_t, uint32_t) { stage_whole(finish, staging, sum); });
  } else if (finish.tile.unit % 2 == 0) {
    park_values(finish, staging, sum);
  } else {
    stage_joined(finish, staging, sum);
    send_warp(args, staging, finish.tile, warpgroup, 0, finish.tile.unit / 2 * 128);
  }
}

}  // namespace moegen::grouped_matmul
