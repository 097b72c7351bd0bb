// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme block128: the products of every 128 of K are summed by the tensor cores, multiplied by the
// scale of the token's block times that of the weights' block, and added to a float sum.
//
// The scales come with the stage: `scale_warps` warps of the loading warpgroup write them, having asked for them a
// while ahead; a warp that waits for each gather takes longer than the tensor cores do. They write the product of a
// token's and the weights' scale, rounded once (two where gate and up lie in different blocks); but with tokens on M,
// where the weights of a tile have several, they write them all as they are.
#pragma once

#include "../core/convert.cuh"
#include "../core/math.cuh"
#include "../core/memory.cuh"
#include "../core/narrow.cuh"
#include "deal.cuh"
#include "factors.cuh"
#include "multiply.cuh"

namespace moegen::grouped_matmul {

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

/// Scales of the tile's weights in one block of K: of its chunks and, with gate and up apart, of both sides.
template <class P, class T>
constexpr uint32_t kWeightScales = T::scale_chunks * P::scales_per_token;

/// Tokens on M: what a thread needs of a stage's scales. Where the weights have one alone, the products for its two
/// tokens. Where they have more, those of the tokens and of the weights, and each thread multiplies: a few products
/// beside its many sums, where one warp for all tokens would have to store them for every part of the weights.
template <class P, class T>
struct StageScales {
  enum : bool { kApart = kWeightScales<P, T> > 1 };
  float token[2], weights[kWeightScales<P, T>];
  MOEGEN_DEVICE void load(const float* scales, uint32_t warpgroup) {
    const uint32_t row = warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) token[i] = scales[row + 8 * i];
    if constexpr (kApart) {
#pragma unroll
      for (uint32_t i = 0; i < kWeightScales<P, T>; ++i) weights[i] = scales[T::max_tokens + i];
    }
  }
  MOEGEN_DEVICE float factor(uint32_t token_index, uint32_t chunk, uint32_t side) const {
    if constexpr (!kApart) return token[token_index];
    return token[token_index] * weights[chunk * P::scales_per_token + side];
  }
};

/// Adds the partial sums of Columns columns from First on, whose scales are those of one chunk.
template <class P, class T, uint32_t First, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void add_chunk(const StageScales<P, T>& scales, uint32_t begin, const float (&part)[Columns / 2],
                             float (&sum)[N / 2]) {
  constexpr uint32_t kChunk = N / T::scale_chunks, kSides = P::scales_per_token;
  float factor[2][kSides];
#pragma unroll
  for (uint32_t i = 0; i < 2 * kSides; ++i)
    factor[i / kSides][i % kSides] = scales.factor(i / kSides, (First + begin) / kChunk, i % kSides);
#pragma unroll
  for (uint32_t i = begin / 2; i < min_of<uint32_t>(begin + kChunk, Columns) / 2; ++i) {
    const uint32_t side = kSides == 1 ? 0 : i / 4 % 2;  // 8 columns of gate, 8 of up
    sum[First / 2 + i] = math::fma(factor[i / 2 % 2][side], part[i], sum[First / 2 + i]);
  }
}

/// Adds the partial sums of columns from First on.
template <class P, class T, uint32_t First, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void add_by_row(const StageScales<P, T>& scales, const float (&part)[Columns / 2], float (&sum)[N / 2]) {
#pragma unroll
  for (uint32_t begin = 0; begin < Columns; begin += N / T::scale_chunks)
    add_chunk<P, T, First, N, Columns>(scales, begin, part, sum);
}

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  constexpr uint32_t kColumns = T::tokens_on_m ? T::part_columns : N;
  const Operands first = operands(shared, warpgroup);
  float part[kColumns / 2];
  clear(part);
  StageScales<P, T> scales;
  const auto multiply = [&](uint32_t stage) {
    multiply_part<P, T, kColumns>(first, stage, part, [&] {
      if constexpr (T::tokens_on_m) {
        scales.load(shared.scales(stage), warpgroup);
        warp_sync();  // all lanes have read theirs before one gives the stage back
      }
    });
    if constexpr (T::tokens_on_m) {
      if constexpr (kColumns < N) {
        add_by_row<P, T, 0, N, kColumns>(scales, part, sum);
        multiply_part<P, T, kColumns>(next_columns(first, kColumns), stage, part);
      }
      release_stage(shared, stage);
    }
  };
  const auto add = [&](uint32_t stage) {
    if constexpr (T::tokens_on_m) {
      add_by_row<P, T, N - kColumns, N, kColumns>(scales, part, sum);
    } else {
      add_by_column<P, T, N>(shared.scales(stage), part, sum);
      warp_sync();  // all lanes have read their factors
      release_stage(shared, stage);
    }
  };
  for_slices(shared, ring, multiply, add);
}

MOEGEN_DEVICE void load_words(const void* from, uint32_t (&words)[4]) {
  const Vector16 four = load_constant(from);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) words[i] = four.word[i];
}
MOEGEN_DEVICE void load_words(const void* from, uint32_t (&words)[2]) {
  const Vector8 two = load_constant8(from);
  words[0] = two.word[0], words[1] = two.word[1];
}

/// Where the scales of a tile lie.
template <class P, class T>
struct TileScales {
  using Scale = typename P::scale_dtype;
  enum : uint32_t {
    kRowBlocks = ceil_div<uint32_t>(P::columns, 128),
    kRowsOfColumn = P::gated && !P::halves ? 2 : 1,  // of b, before the next column's in one side
  };
  const Scale* a;  // of the tile's first row, block 0; of a's, where rows are gathered
  const Scale* b;  // of the chunk and side that this lane brings, of them all in turn
  bool any;        // the tile has scales

  MOEGEN_DEVICE TileScales(const Args& args, const Tile& tile, uint32_t lane) {
    any = tile.expert >= 0;
    const uint32_t first = P::gather_a ? 0 : tile.row;
    a = static_cast<const Scale*>(args.a_scales) + (P::column_scales ? first : first * uint64_t{P::depth_blocks});
    const uint32_t chunk = lane / P::scales_per_token % T::scale_chunks, side = lane % P::scales_per_token;
    const uint32_t column = tile.unit * T::tile_columns + chunk * (T::tile_columns / T::scale_chunks);
    const uint32_t row = side * P::output_columns + column * kRowsOfColumn;
    b = static_cast<const Scale*>(args.b_scales) +
        (static_cast<uint64_t>(any ? tile.expert : 0) * kRowBlocks + min_of<uint32_t>(row / 128, kRowBlocks - 1)) *
            P::depth_blocks;
  }
  /// Scales of Count blocks of K from `block` on; 0 where there are none. Those of a row that begins at a multiple of
  /// 16 (or 8) bytes come four (or two) at a time: each access of a warp whose lanes are in different rows takes the
  /// shared memory's path for 32 cycles, and the tensor cores need most of it.
  template <uint32_t Count>
  MOEGEN_DEVICE void of_token(uint32_t token, uint32_t block, uint64_t stride, bool inside,
                              float (&scale)[Count]) const {
    constexpr bool kTogether = !P::column_scales && sizeof(Scale) == 4 && P::depth_blocks % Count == 0;
    if constexpr (kTogether) {
      uint32_t words[Count] = {};
      if (inside && block < P::depth_blocks) load_words(a + token * uint64_t{P::depth_blocks} + block, words);
#pragma unroll
      for (uint32_t k = 0; k < Count; ++k) scale[k] = bits_float(words[k]);
    } else {
#pragma unroll
      for (uint32_t k = 0; k < Count; ++k) {
        const Scale* from =
            P::column_scales ? a + (block + k) * stride + token : a + token * uint64_t{P::depth_blocks} + block + k;
        scale[k] = inside && block + k < P::depth_blocks ? to_float(*from) : 0.0f;
      }
    }
  }
};

/// Scales of a few blocks of K on their way: of this lane's tokens, and of one chunk and side of the weights in one of
/// the blocks.
template <class P, class T>
struct ScaleBatch {
  enum : uint32_t {
    kTokens = ceil_div<uint32_t>(T::max_tokens, kWarpSize* T::scale_warps),
    // 12 scales, each at an address of its own or beside those of several parts of the weights, spill.
    kBlocks = kTokens > 2 && (P::column_scales || kWeightScales<P, T> > 1) ? 2 : 4,
  };
  float token[kTokens][kBlocks], weight;

  /// Chunk and side, in turns; the lane's block.
  static MOEGEN_DEVICE uint32_t place() { return lane_index() / kBlocks; }

  MOEGEN_DEVICE void load(const Args& args, const Tile& tile, uint32_t warp, uint32_t first) {
    const TileScales<P, T> from(args, tile, place());
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = token_of(warp, i);
      from.of_token(row, first, static_cast<uint64_t>(args.a_scales_stride), from.any && row < tile.rows, token[i]);
    }
    load_weight(from, first);
  }
  /// The same of a tile whose rows of a lie anywhere.
  template <class Gathered>
  MOEGEN_DEVICE void load(const Args& args, const Gathered& gathered, uint32_t warp, uint32_t first) {
    const TileScales<P, T> from(args, gathered.tile, place());
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = gathered.rows.row(i);
      from.of_token(row, first, static_cast<uint64_t>(args.a_scales_stride), from.any && row != kNone, token[i]);
    }
    load_weight(from, first);
  }
  MOEGEN_DEVICE void load_weight(const TileScales<P, T>& from, uint32_t first) {
    const uint32_t mine = first + lane_index() % kBlocks;
    weight = from.any && mine < P::depth_blocks ? to_float(from.b[mine]) : 0.0f;
  }
  static MOEGEN_DEVICE uint32_t token_of(uint32_t warp, uint32_t i) {
    return (i * T::scale_warps + warp) * kWarpSize + lane_index();
  }
  /// The products for each side of the weights.
  MOEGEN_DEVICE void store_products(float* factors, uint32_t warp, uint32_t k) const {
#pragma unroll
    for (uint32_t s = 0; s < P::scales_per_token; ++s) {
      const float of_weights = shuffle(weight, s * kBlocks + k);
#pragma unroll
      for (uint32_t i = 0; i < kTokens; ++i) {
        const uint32_t row = token_of(warp, i);
        if (row < T::max_tokens) factors[s * T::max_tokens + factor_place<T>(row)] = token[i][k] * of_weights;
      }
    }
  }
  /// The scales as they are.
  MOEGEN_DEVICE void store_apart(float* scales, uint32_t warp, uint32_t k) const {
    static_assert(kWeightScales<P, T> * kBlocks <= kWarpSize, "a lane brings one scale of the weights");
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = token_of(warp, i);
      if (row < T::max_tokens) scales[row] = token[i][k];
    }
    if (warp == 0 && lane_index() % kBlocks == k && place() < kWeightScales<P, T>)
      scales[T::max_tokens + place()] = weight;
  }
  MOEGEN_DEVICE void store(float* scales, uint32_t warp, uint32_t k) const {
    if constexpr (T::tokens_on_m && kWeightScales<P, T> > 1)
      store_apart(scales, warp, k);
    else
      store_products(scales, warp, k);
  }
};

/// One stage's scales of this warp.
template <class P, class T>
MOEGEN_DEVICE void bring_stage(const Shared<P, T>& shared, Ring<T>& ring, const ScaleBatch<P, T>& batch, uint32_t warp,
                               uint32_t k) {
  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
  batch.store(shared.scales(ring.stage), warp, k);
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
  ring.next();
}

/// Stages that carry no scales: the end, or a tile without an expert.
template <class P, class T>
MOEGEN_DEVICE void bring_nothing(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
    warp_sync();
    if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
    ring.next();
  }
}

/// Biases take a register each.
template <class P>
MOEGEN_DEVICE constexpr bool wide_bias() {
  if constexpr (P::bias)
    return sizeof(typename P::bias_dtype) == 4;
  else
    return false;
}

/// A tile's scales, of which `now` are the first; leaves the first ones of the tile that follows, found by `tiles`, in
/// their place: they are on their way while this tile's last stages are still to be filled. Returns whether there is
/// one, in `tile`.
template <class P, class T>
MOEGEN_DEVICE bool bring_tile(const Args& args, const Shared<P, T>& shared, Ring<T>& ring, TileSource<P, T>& tiles,
                              Tile& tile, ScaleBatch<P, T>& now, uint32_t warp) {
  using Batch = ScaleBatch<P, T>;
  // A walk through more groups, column scales, many tokens or biases of 32 bits leave too few registers, but for three
  // warpgroups and one scale of weights; two of these leave too few there, too.
  constexpr uint32_t kHeavy = (!T::dealt && P::groups_per_lane > 1 ? 1 : 0) +
                              (P::column_scales && Batch::kBlocks > 2 ? 1 : 0) + (Batch::kTokens > 2 ? 1 : 0) +
                              (wide_bias<P>() ? 1 : 0);
  constexpr bool kAhead = kHeavy == 0 || (kHeavy == 1 && T::warpgroups == 3 && kWeightScales<P, T> == 1);
  const uint32_t blocks = tile.expert < 0 ? 0 : P::depth_blocks;
  if (blocks == 0) bring_nothing(shared, ring, kEmptySlices<T>);
  bool follows = false;
  uint32_t first = 0;
#pragma unroll 1
  do {
    const bool last = first + Batch::kBlocks >= blocks;
    if (kAhead && last) follows = tiles.next(tile);
    Batch later;
    if (!last || (kAhead && follows)) later.load(args, tile, warp, last ? 0 : first + Batch::kBlocks);
#pragma unroll
    for (uint32_t k = 0; k < Batch::kBlocks; ++k)
      if (first + k < blocks) bring_stage(shared, ring, now, warp, k);
    now = later;
    first += Batch::kBlocks;
  } while (first < blocks);
  if constexpr (!kAhead) {
    follows = tiles.next(tile);
    if (follows) now.load(args, tile, warp, 0);
  }
  return follows;
}

/// The work of one of the warps that bring scales.
template <class P, class T>
MOEGEN_DEVICE void bring_scales(const Args& args, const Shared<P, T>& shared, uint32_t rank, uint32_t warp) {
  TileSource<P, T> tiles(args, shared, rank);
  Ring<T> ring;
  Tile tile;
  ScaleBatch<P, T> batch;
  bool more = tiles.next(tile);
  if (more) batch.load(args, tile, warp, 0);
  while (more) more = bring_tile(args, shared, ring, tiles, tile, batch, warp);
  bring_nothing(shared, ring, 1);
}

}  // namespace moegen::grouped_matmul
