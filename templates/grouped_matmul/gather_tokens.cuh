// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, the work of a warp that gathers tokens where stages carry no scales: rows of a alone.
#pragma once

#include "gather.cuh"

namespace moegen::grouped_matmul {

/// The stages of one tile; those of a tile without an expert, and the last of all, carry nothing.
template <class P, class T>
MOEGEN_DEVICE void gather_tile(const Args& args, const Shared<P, T>& shared, Ring<T>& ring,
                               const GatheredRows<P, T>& rows, const Tile& tile, uint32_t warp) {
  const bool empty = tile.expert < 0;
  const uint32_t slices = tile.rows == 0 ? 1 : empty ? kEmptySlices<T> : P::depth_blocks;
  const uint32_t width = empty ? 0 : width_of<T>(tile.rows);
#pragma unroll 1
  for (uint32_t slice = 0; slice < slices; ++slice)
    gather_stage(shared, ring, [&](uint32_t stage) { rows.copy(args, shared.tokens(stage), width, warp, slice); });
}

/// The work of one warp. The stages that are full meanwhile cover what it waits for at the start of a tile: its rows.
template <class P, class T>
MOEGEN_DEVICE void gather(const Args& args, const Shared<P, T>& shared, uint32_t warp) {
  TileWalk<P, T> walk(args, 0);
  Ring<T> ring;
  GatheredRows<P, T> rows;
  Tile tile;
  while (walk.next(tile)) {
    rows.ask(args, tile, warp);
    gather_tile(args, shared, ring, rows, tile, warp);
  }
  gather_tile(args, shared, ring, rows, {0, 0, 0, -1}, warp);
}

}  // namespace moegen::grouped_matmul
