// SPDX-License-Identifier: Apache-2.0
// grouped_matmul on Hopper: c[r, n] = epilogue(sum_k a[r, k] * b[e(g), n, k]), for groups g of rows that lie anywhere.
//
// Algorithm. Blocks are resident and take tiles in turn (tile.cuh), or as they are dealt (deal.cuh). A tile is
// `weight_rows` rows of b by up to `max_tokens` rows of a; K passes through a ring of stages of 128 bytes, filled by
// tensor copies (load.cuh) and multiplied by warpgroups, 64 rows each (sum_*.cuh). The epilogue works on registers
// (finish*.cuh) and leaves through shared memory (store.cuh), while the loaders already fill the stages for the next
// tile.
//
// Roles: warpgroup 0 loads: its first warp goes through the tiles and issues the copies; with block128 the next
// `scale_warps` bring scales; with gather_a the next `gather_warps` bring tokens (gather.cuh); where tiles are dealt
// the last warp counts (deal.cuh). Warpgroups 1 .. `warpgroups` multiply and store. The loaders give registers back,
// the multipliers take them. Shared memory and barriers: pipeline.cuh. A tile's place travels in the stage with which
// it begins.
#pragma once

#include "../core/cluster.cuh"
#include "../core/grid.cuh"
#include "../core/registers.cuh"
#include "load.cuh"
#include "store.cuh"

namespace moegen::grouped_matmul {

/// Keeps the compiler from merging the ends of different widths, which costs spills and serialises the products.
template <uint32_t N>
MOEGEN_DEVICE void keep_apart() {
#ifndef MOEGEN_TARGET_CPU
  asm volatile("// width %0" ::"n"(N) : "memory");
#endif
}

/// Lets `count` stages pass without a look at them.
template <class P, class T>
MOEGEN_DEVICE void pass_stages(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    warp_sync();  // all lanes are past the barrier, and have read the tile
    release_stage(shared, ring.stage);
    ring.next();
  }
}

/// The sum of one tile, 0 without an expert, whose stages have passed.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_any(const Shared<P, T>& shared, Ring<T>& ring, int32_t expert, uint32_t warpgroup,
                           float (&sum)[N / 2]) {
  clear(sum);
  if (expert >= 0) sum_tile<P, T, N>(shared, ring, warpgroup, sum);
}

/// Multiplies and stores the 64 tokens of a tile that this warpgroup has, if any. What the epilogue must know of the
/// tile waits in shared memory: two sums of 64 floats leave no register for it.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void multiply_tokens_m(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring,
                                     const Tile& tile, uint32_t warpgroup) {
  using Finish = typename T::template Finish<P, T, Custom, N>;
  if (warpgroup * kWarpgroupRows >= tile.rows)
    return pass_stages(shared, ring, tile.expert < 0 ? kEmptySlices<T> : P::depth_blocks);
  if (tile.expert < 0) pass_stages(shared, ring, kEmptySlices<T>);
  if (lane_index() == 0) shared.note() = tile;
  const typename Finish::Ahead ahead(args.args, tile, warpgroup);
  float sum[N / 2];
  sum_any<P, T, N>(shared, ring, tile.expert, warpgroup, sum);
  warp_sync();  // the note is there
  store_tile(Finish(args.args, shared.note(), warpgroup, ahead), args, shared, warpgroup, sum);
}

/// Multiplies a tile and stages its last rows, with the least width that holds it.
template <class P, class T, class Custom, uint32_t Index = 0, class Weights>
MOEGEN_DEVICE void multiply_width(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                                  const Weights& weights, uint32_t warpgroup) {
  if constexpr (Index + 1 < T::num_widths) {
    if (tile.rows > T::width(Index))
      return multiply_width<P, T, Custom, Index + 1>(args, shared, ring, tile, weights, warpgroup);
  }
  constexpr uint32_t kWidth = T::width(Index);
  const typename T::template Finish<P, T, Custom, kWidth> finish(args.args, tile, weights);
  float sum[kWidth / 2];
  sum_any<P, T, kWidth>(shared, ring, tile.expert, warpgroup, sum);
  stage_tile(finish, args, shared, warpgroup, sum);
  keep_apart<kWidth>();
}

/// Multiplies and stores a tile with tokens on N. What does not depend on the width is outside its code, which is there
/// once for each: it decides how long the kernel compiles.
template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tokens_n(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring,
                                     const Tile& tile, uint32_t warpgroup) {
  const typename T::template Finish<P, T, Custom, T::width(0)>::Weights weights(args.args, tile, warpgroup);
  if (tile.expert < 0) pass_stages(shared, ring, kEmptySlices<T>);
  multiply_width<P, T, Custom>(args, shared, ring, tile, weights, warpgroup);
  send_last_rows(args, shared, tile, warpgroup);
}

template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tile(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                                 uint32_t warpgroup) {
  if constexpr (T::tokens_on_m)
    multiply_tokens_m<P, T, Custom, T::product_columns(0)>(args, shared, ring, tile, warpgroup);
  else
    multiply_tokens_n<P, T, Custom>(args, shared, ring, tile, warpgroup);
  warp_sync();
}

/// A multiplying warpgroup's work.
template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tiles(const TensorArgs& args, const Shared<P, T>& shared, uint32_t warpgroup) {
  Ring<T> ring;
  while (true) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    const Tile tile = shared.tile(ring.stage);
    if (tile.rows == 0) break;
    multiply_tile<P, T, Custom>(args, shared, ring, tile, warpgroup);
  }
  wait_for_boxes<T, 0>(lane_index() == 0);  // they read this block's memory
}

template <class P, class T>
MOEGEN_DEVICE void load(const TensorArgs& args, const Shared<P, T>& shared, uint32_t rank) {
  if (warp_index() == 0) load_tiles<P, T>(args, shared, rank);
  if constexpr (T::dealt) {
    static_assert(T::scale_warps <= 2 && !P::gather_a, "the last warp deals and does nothing else");
    if (warp_index() == 3) Dealer<P, T>(args.args, shared).run();
  }
  if constexpr (P::gather_a) {
    if (warp_index() >= 1 && warp_index() <= T::gather_warps) gather<P, T>(args.args, shared, warp_index() - 1);
  } else if constexpr (P::block_scales || P::mx_scales) {
    if (warp_index() >= 1 && warp_index() <= T::scale_warps)
      bring_scales<P, T>(args.args, shared, rank, warp_index() - 1);
  }
}

template <class P, class T, class Custom>
MOEGEN_DEVICE void run(const TensorArgs& args) {
  const Shared<P, T> shared = {dynamic_shared_tiles()};
  static_assert(Layout<P, T>::total <= T::shared_bytes, "the plan reserved less shared memory than the block needs");
  init_barriers(shared);
  launch_dependents();
  if constexpr (T::cluster > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    block_sync();
  }
  wait_for_dependencies();
  const uint32_t rank = T::cluster == 1 ? 0 : block_index() % T::cluster;
  if (warp_index() < kWarpgroupThreads / kWarpSize) {
    release_registers<T::loader_registers>();
    load(args, shared, rank);
  } else {
    acquire_registers<T::multiplier_registers>();
    multiply_tiles<P, T, Custom>(args, shared, warp_index() / 4 - 1);
  }
  if constexpr (T::cluster > 1) {
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace moegen::grouped_matmul
