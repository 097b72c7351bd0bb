// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, the work of a warp that gathers tokens with scheme block128: rows of a, and the scales of these rows.
#pragma once

#include "gather.cuh"
#include "sum_block128.cuh"

namespace moegen::grouped_matmul {

/// One stage: the copies arrive by themselves, the scales with this warp's arrival.
template <class P, class T>
MOEGEN_DEVICE void gather_slice(const Args& args, const Shared<P, T>& shared, Ring<T>& ring,
                                const GatheredRows<P, T>& rows, const ScaleBatch<P, T>& batch, uint32_t width,
                                uint32_t warp, uint32_t slice, uint32_t k) {
  const uint32_t at = ring.stage;
  gather_stage(shared, ring, [&](uint32_t stage) { rows.copy(args, shared.tokens(stage), width, warp, slice); });
  batch.store(shared.scales(at), warp, k);
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive(shared.full(at));
}

/// Stages that carry nothing: the end, or a tile without an expert.
template <class P, class T>
MOEGEN_DEVICE void gather_nothing(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = ring.stage;
    gather_stage(shared, ring, [](uint32_t) {});
    if (lane_index() == 0) mbarrier_arrive(shared.full(at));
  }
}

/// A tile and its rows of a.
template <class P, class T>
struct GatheredTile {
  Tile tile;
  GatheredRows<P, T> rows;
};

/// The stages of one tile. The scales of a few slices are on their way while the tokens of the first of these are asked
/// for, so that no second batch takes registers, as it does where scales are all that a warp brings.
template <class P, class T>
MOEGEN_DEVICE void gather_tile(const Args& args, const Shared<P, T>& shared, Ring<T>& ring,
                               const GatheredTile<P, T>& mine, uint32_t warp) {
  using Batch = ScaleBatch<P, T>;
  if (mine.tile.expert < 0) return gather_nothing(shared, ring, kEmptySlices<T>);
  const uint32_t width = width_of<T>(mine.tile.rows);
#pragma unroll 1
  for (uint32_t first = 0; first < P::depth_blocks; first += Batch::kBlocks) {
    Batch batch;
    batch.load(args, mine, warp, first);
#pragma unroll
    for (uint32_t k = 0; k < Batch::kBlocks; ++k)
      if (first + k < P::depth_blocks) gather_slice(args, shared, ring, mine.rows, batch, width, warp, first + k, k);
  }
}

/// The work of one warp. The stages that are full meanwhile cover what it waits for at the start of a tile: its rows.
template <class P, class T>
MOEGEN_DEVICE void gather(const Args& args, const Shared<P, T>& shared, uint32_t warp) {
  TileWalk<P, T> walk(args, 0);
  Ring<T> ring;
  GatheredTile<P, T> mine;
  while (walk.next(mine.tile)) {
    mine.rows.ask(args, mine.tile, warp);
    gather_tile(args, shared, ring, mine, warp);
  }
  gather_nothing(shared, ring, 1);
}

}  // namespace moegen::grouped_matmul
