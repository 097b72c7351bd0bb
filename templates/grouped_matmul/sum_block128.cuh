// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme block128: the products of every 128 of K are summed by the tensor cores, multiplied by the
// scale of the token's block times that of the weights' block, and added to a float sum.
//
// The product of both scales, rounded once, comes with the stage: `scale_warps` warps of the loading warpgroup write
// one factor a token (two where gate and up lie in different blocks), having asked for the scales of a while ahead. A
// warp that waits for each gather takes longer than the tensor cores do.
#pragma once

#include "../core/convert.cuh"
#include "../core/math.cuh"
#include "../core/narrow.cuh"
#include "multiply.cuh"

namespace moegen::grouped_matmul {

/// Factors of two groups of 8 columns for one thread, one access.
struct alignas(16) FactorQuad {
  float factor[4];
};

/// Where the factor of `token` lies: with tokens on N the four of a thread in 16 columns lie together.
template <class T>
MOEGEN_DEVICE uint32_t factor_place(uint32_t token) {
  if constexpr (T::tokens_on_m) return token;
  return token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2;
}

/// Tokens on N: the columns of a thread each have their factor, read where it is needed.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void add_by_column(const float* factors, const float (&part)[N / 2], float (&sum)[N / 2]) {
  constexpr uint32_t kUp = (P::scales_per_token - 1) * T::max_tokens;  // the lower 8 rows are those of up
  const float* mine = factors + lane_index() % 4 * 4;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; j += 2) {
    const FactorQuad upper = *reinterpret_cast<const FactorQuad*>(mine + 8 * j);
    const FactorQuad lower = kUp == 0 ? upper : *reinterpret_cast<const FactorQuad*>(mine + kUp + 8 * j);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t d = 4 * (j + i / 2) + i % 2;
      if (j + i / 2 >= N / 8) continue;
      sum[d] = math::fma(upper.factor[i], part[d], sum[d]);
      sum[d + 2] = math::fma(lower.factor[i], part[d + 2], sum[d + 2]);
    }
  }
}

/// Tokens on M: the factors of a thread's two rows.
template <class P, class T>
struct RowFactors {
  float value[2][P::scales_per_token];
  MOEGEN_DEVICE void load(const float* factors, uint32_t warpgroup) {
    const uint32_t row = warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i)
#pragma unroll
      for (uint32_t s = 0; s < P::scales_per_token; ++s) value[i][s] = factors[s * T::max_tokens + row + 8 * i];
  }
};

/// Adds the partial sums of columns from First on.
template <class P, class T, uint32_t First, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void add_by_row(const RowFactors<P, T>& factors, const float (&part)[Columns / 2], float (&sum)[N / 2]) {
#pragma unroll
  for (uint32_t i = 0; i < Columns / 2; ++i) {
    const uint32_t side = P::scales_per_token == 1 ? 0 : i / 4 % 2;  // 8 columns of gate, 8 of up
    sum[First / 2 + i] = math::fma(factors.value[i / 2 % 2][side], part[i], sum[First / 2 + i]);
  }
}

/// Multiplies a stage by its second 128 rows of weights, with the first ones' accumulators: all at once would not leave
/// registers for the sum.
template <class P, class T, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void multiply_rest(const Operands& first, uint32_t stage, const RowFactors<P, T>& factors,
                                 float (&part)[Columns / 2], float (&sum)[N / 2]) {
  if constexpr (N > Columns) {
    static_assert(N == 2 * Columns);
    add_by_row<P, T, 0, N, Columns>(factors, part, sum);
    const Operands rest = {first.a, advance_descriptor(first.b, Columns * kSliceBytes)};
    multiply_stage<P, T, Columns>(rest, stage, false, part);
    wgmma_wait<0>();
    hold(part);
  }
}

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  constexpr uint32_t kColumns = T::tokens_on_m ? min_of<uint32_t>(N, 128) : N;
  const Operands first = operands(shared, warpgroup);
  float part[kColumns / 2];
  clear(part);
  RowFactors<P, T> factors;
  const auto multiply = [&](uint32_t stage) {
    if constexpr (T::tokens_on_m) factors.load(shared.scales(stage), warpgroup);
    multiply_stage<P, T, kColumns>(first, stage, false, part);
    wgmma_wait<0>();
    hold(part);
    if constexpr (T::tokens_on_m) {
      multiply_rest<P, T, N, kColumns>(first, stage, factors, part, sum);
      release_stage(shared, stage);
    }
  };
  const auto add = [&](uint32_t stage) {
    if constexpr (T::tokens_on_m) {
      add_by_row<P, T, N - kColumns, N, kColumns>(factors, part, sum);
    } else {
      add_by_column<P, T, N>(shared.scales(stage), part, sum);
      warp_sync();  // all lanes have read their factors
      release_stage(shared, stage);
    }
  };
  for_slices(shared, ring, multiply, add);
}

/// Where the scales of a tile's rows lie.
template <class P>
struct TileScales {
  using Scale = typename P::scale_dtype;
  enum : uint32_t { kRowBlocks = ceil_div<uint32_t>(P::columns, 128) };
  const Scale* a;  // of the tile's first row, block 0
  const Scale *b, *b_up;

  MOEGEN_DEVICE TileScales(const Args& args, const Tile& tile, uint32_t first_row, uint32_t first_row_of_up) {
    a = static_cast<const Scale*>(args.a_scales) + (P::column_scales ? tile.row : tile.row * uint64_t{P::depth_blocks});
    const uint64_t expert = static_cast<uint64_t>(tile.expert) * kRowBlocks;
    const Scale* all = static_cast<const Scale*>(args.b_scales);
    b = all + (expert + min_of<uint32_t>(first_row / 128, kRowBlocks - 1)) * P::depth_blocks;
    b_up = all + (expert + min_of<uint32_t>(first_row_of_up / 128, kRowBlocks - 1)) * P::depth_blocks;
  }
  MOEGEN_DEVICE float of_token(uint32_t token, uint32_t block, uint64_t stride) const {
    return to_float(P::column_scales ? a[block * stride + token] : a[token * uint64_t{P::depth_blocks} + block]);
  }
};

/// Scales of a few blocks of K on their way: of this lane's tokens, and of the weights in one of the blocks.
template <class P, class T>
struct ScaleBatch {
  enum : uint32_t { kBlocks = 4, kTokens = ceil_div<uint32_t>(T::max_tokens, kWarpSize* T::scale_warps) };
  float token[kTokens][kBlocks], weight[P::scales_per_token];

  MOEGEN_DEVICE void load(const TileScales<P>& from, const Tile& tile, uint64_t stride, uint32_t warp, uint32_t first) {
#pragma unroll
    for (uint32_t k = 0; k < kBlocks; ++k) {
      const bool inside = first + k < P::depth_blocks;
#pragma unroll
      for (uint32_t i = 0; i < kTokens; ++i) {
        const uint32_t row = token_of(warp, i);
        token[i][k] = inside && row < tile.rows ? from.of_token(row, first + k, stride) : 0.0f;
      }
    }
    const uint32_t mine = first + lane_index() % kBlocks;
    const bool inside = mine < P::depth_blocks;
    weight[0] = inside ? to_float(from.b[mine]) : 0.0f;
    if constexpr (P::scales_per_token == 2) weight[1] = inside ? to_float(from.b_up[mine]) : 0.0f;
  }
  static MOEGEN_DEVICE uint32_t token_of(uint32_t warp, uint32_t i) {
    return (i * T::scale_warps + warp) * kWarpSize + lane_index();
  }
  MOEGEN_DEVICE void store(float* factors, uint32_t warp, uint32_t k) const {
#pragma unroll
    for (uint32_t s = 0; s < P::scales_per_token; ++s) {
      const float of_weights = shuffle(weight[s], k);
#pragma unroll
      for (uint32_t i = 0; i < kTokens; ++i) {
        const uint32_t row = token_of(warp, i);
        if (row < T::max_tokens) factors[s * T::max_tokens + factor_place<T>(row)] = token[i][k] * of_weights;
      }
    }
  }
};

/// One stage's factors of this warp.
template <class P, class T>
MOEGEN_DEVICE void bring_factors(const Shared<P, T>& shared, Ring<T>& ring, const ScaleBatch<P, T>& batch,
                                 uint32_t warp, uint32_t k) {
  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
  batch.store(shared.scales(ring.stage), warp, k);
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
  ring.next();
}

/// Stages that carry no factors: the end, or a tile without an expert.
template <class P, class T>
MOEGEN_DEVICE void bring_nothing(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
    warp_sync();
    if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
    ring.next();
  }
}

template <class P, class T>
MOEGEN_DEVICE void bring_tile_scales(const Args& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                                     uint32_t warp) {
  using Batch = ScaleBatch<P, T>;
  const uint32_t row = tile.unit * T::tile_columns * (P::gated && !P::halves ? 2 : 1);
  const TileScales<P> from(args, tile, row, P::gated && P::halves ? P::output_columns + row : row);
  const uint64_t stride = static_cast<uint64_t>(args.a_scales_stride);
  Batch now, later;
  now.load(from, tile, stride, warp, 0);
#pragma unroll 1
  for (uint32_t first = 0; first < P::depth_blocks; first += Batch::kBlocks) {
    later.load(from, tile, stride, warp, first + Batch::kBlocks);
#pragma unroll
    for (uint32_t k = 0; k < Batch::kBlocks; ++k)
      if (first + k < P::depth_blocks) bring_factors(shared, ring, now, warp, k);
    now = later;
  }
}

/// The work of one of the warps that bring scales.
template <class P, class T>
MOEGEN_DEVICE void bring_scales(const Args& args, const Shared<P, T>& shared, uint32_t rank, uint32_t warp) {
  TileWalk<P, T> walk(args, rank);
  Ring<T> ring;
  Tile tile;
  while (walk.next(tile)) {
    if (tile.expert < 0)
      bring_nothing(shared, ring, kEmptySlices<T>);
    else
      bring_tile_scales(args, shared, ring, tile, warp);
  }
  bring_nothing(shared, ring, 1);
}

}  // namespace moegen::grouped_matmul
