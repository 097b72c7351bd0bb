// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, producer: brings the weights and tokens of each tile into the stages by tensor copies. One warp goes
// through the tiles; its first lane issues.
//
// Tokens are read from one map over all rows of a: a tile that is not a multiple of 8 rows reads on into its
// neighbour's, whose products nobody stores; rows past the last read as zero. So segments need no padding. Blocks of a
// cluster share their tokens: each loads a part and multicasts it. Rows that are gathered come another way
// (gather.cuh).
#pragma once

#include "../core/tensor_copy.cuh"
#include "deal.cuh"
#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Columns of tokens that are multiplied for a tile of `rows` rows: the first of the plan's widths that holds them.
template <class T, uint32_t Index = 0>
MOEGEN_DEVICE uint32_t width_of(uint32_t rows) {
  if constexpr (Index + 1 < T::num_widths) {
    if (rows > T::width(Index)) return width_of<T, Index + 1>(rows);
  }
  return T::width(Index);
}

/// Loads `count` token rows from `row` on, to `target`: as one box, or as boxes whose heights are the bits of `count`.
template <class T>
MOEGEN_DEVICE void load_tokens(const TensorArgs& args, unsigned char* target, uint64_t* barrier, uint32_t k,
                               uint32_t row, uint32_t count) {
  const auto load = [&](uint32_t box, uint32_t done) {
    if constexpr (T::cluster == 1)
      tensor_load(target + done * kSliceBytes, args.tokens[box], barrier, k, row + done);
    else
      tensor_load_multicast(target + done * kSliceBytes, args.tokens[box], barrier, (1u << T::cluster) - 1, k,
                            row + done);
  };
  if (count == T::max_tokens / T::cluster) return load(kMaxTokenBoxes - 1, 0);
  uint32_t done = 0;
#pragma unroll
  for (uint32_t i = 0; i + 1 < kMaxTokenBoxes; ++i) {
    const uint32_t box = kMaxTokenBoxes - 2 - i, height = 8u << box;
    if ((T::box_heights & height) == 0 || (count & height) == 0) continue;
    load(box, done);
    done += height;
  }
}

/// The box of weights at `place`.
template <class T, class... Place>
MOEGEN_DEVICE void load_box(const TensorArgs& args, unsigned char* target, uint64_t* barrier, Place... place) {
  if constexpr (T::weights_once)
    tensor_load_once(target, args.weights, barrier, place...);
  else
    tensor_load(target, args.weights, barrier, place...);
}

template <class P, class T>
MOEGEN_DEVICE void load_weights(const TensorArgs& args, unsigned char* target, uint64_t* barrier, uint32_t k,
                                const Tile& tile) {
  if constexpr (P::gated)  // 8 rows of gate, the 8 of up that belong to them, and so on
    load_box<T>(args, target, barrier, k, 0u, 0u, tile.unit * (T::tile_columns / 8), tile.expert);
  else
    load_box<T>(args, target, barrier, k, tile.unit * T::tile_columns, tile.expert);
}

/// One stage of a tile: `block` is its number in K.
template <class P, class T>
MOEGEN_DEVICE void load_stage(const TensorArgs& args, const Shared<P, T>& shared, uint32_t stage, const Tile& tile,
                              uint32_t block, uint32_t rank) {
  constexpr uint32_t kDepth = kSliceBytes / sizeof(typename P::element_dtype);
  const uint32_t width = P::gather_a ? 0 : width_of<T>(tile.rows), share = width / T::cluster;
  mbarrier_arrive_expect(shared.full(stage), Layout<P, T>::weight_bytes + width * kSliceBytes);
  load_weights<P, T>(args, shared.weights(stage), shared.full(stage), block * kDepth, tile);
  if constexpr (P::gather_a) return;  // others bring the tokens
  load_tokens<T>(args, shared.tokens(stage) + rank * share * kSliceBytes, shared.full(stage), block * kDepth,
                 tile.row + rank * share, share);
}

/// Leads the stages of one tile. Those of a tile without an expert, and the last of all, carry nothing.
template <class P, class T>
MOEGEN_DEVICE void load_tile(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                             uint32_t rank) {
  const bool empty = tile.expert < 0;
  const uint32_t blocks = tile.rows == 0 ? 1 : empty ? kEmptySlices<T> : P::depth_blocks;
  for (uint32_t block = 0; block < blocks; ++block) {
    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
    if (block == 0) shared.tile(ring.stage) = tile;
    if (empty)
      mbarrier_arrive(shared.full(ring.stage));
    else
      load_stage<P, T>(args, shared, ring.stage, tile, block, rank);
    ring.next();
  }
}

/// The loading warp's work.
template <class P, class T>
MOEGEN_DEVICE void load_tiles(const TensorArgs& args, const Shared<P, T>& shared, uint32_t rank) {
  TileSource<P, T> tiles(args.args, shared, rank);
  Ring<T> ring;
  Tile tile;
  while (tiles.next(tile)) {
    if (lane_index() == 0) load_tile<P, T>(args, shared, ring, tile, rank);
    warp_sync();
  }
  if (lane_index() == 0) load_tile<P, T>(args, shared, ring, {0, 0, 0, -1}, rank);
}

}  // namespace moegen::grouped_matmul
