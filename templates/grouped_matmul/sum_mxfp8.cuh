// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme mxfp8, tokens on N: the products of every 32 of K, one instruction of the tensor cores, are
// scaled and added to a float sum (mx_scales.cuh has the arithmetic and what it costs).
//
// Few columns have several products on their way at once, so that a warpgroup scales one while the tensor cores make
// the next; many take turns with the other warpgroup, whose scaling takes longer than a product.
//
// The scales come with the stage: `scale_warps` warps of the loading warpgroup write them, having asked for them some
// slices ahead.
#pragma once

#include "multiply.cuh"
#include "mx_scales.cuh"

namespace moegen::grouped_matmul {

/// Products of 32 of K of a tile that are on their way at once. Registers: as many floats each as the sum has.
template <uint32_t N>
constexpr uint32_t kMxAhead = N <= 64   ? 4
                              : N <= 96 ? 2
                                        : 1;

/// Issues the products of one step of a stage as a group.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void multiply_mx_step(const Operands& first, uint32_t stage, uint32_t step, float (&products)[N / 2]) {
  const uint32_t offset = stage_offset<P, T>(stage) + step * kMxDepth;
  wgmma_fence();
  Wgmma<typename P::element_dtype, N>::multiply(products, advance_descriptor(first.a, offset),
                                                advance_descriptor(first.b, offset), false);
  wgmma_commit();
}

/// Adds the stage's steps from Step on, of which those below Step + kMxAhead are on their way.
template <class P, class T, uint32_t N, uint32_t Step = 0>
MOEGEN_DEVICE void add_mx_steps(const Operands& first, const MxScales<T>& scales, uint32_t row, uint32_t stage,
                                float (&products)[kMxAhead<N>][N / 2], float (&sum)[N / 2]) {
  constexpr uint32_t kAhead = kMxAhead<N>, kLeft = kMxSteps - Step;
  float(&mine)[N / 2] = products[Step % kAhead];
  wgmma_wait<min_of<uint32_t>(kAhead, kLeft) - 1>();
  hold(mine);
  add_mx_step<T, N>(scales, row, Step, mine, sum);
  if constexpr (Step + kAhead < kMxSteps) multiply_mx_step<P, T, N>(first, stage, Step + kAhead, mine);
  if constexpr (kLeft > 1) add_mx_steps<P, T, N, Step + 1>(first, scales, row, stage, products, sum);
}

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  const Operands first = operands(shared, warpgroup);
  const uint32_t row = warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
  float products[kMxAhead<N>][N / 2];
#pragma unroll
  for (uint32_t i = 0; i < kMxAhead<N>; ++i) clear(products[i]);
#pragma unroll 1
  for (uint32_t block = 0; block < P::depth_blocks; ++block) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
#pragma unroll
    for (uint32_t step = 0; step < kMxAhead<N>; ++step)
      multiply_mx_step<P, T, N>(first, ring.stage, step, products[step]);
    add_mx_steps<P, T, N>(first, MxScales<T>{shared.scales(ring.stage)}, row, ring.stage, products, sum);
    warp_sync();  // all lanes have read their scales
    release_stage(shared, ring.stage);
    ring.next();
  }
}

// ---- the warps that bring scales ----

/// Codes of a few slices of this lane's rows of a tile, on their way.
template <class P, class T>
struct MxBatch {
  enum : uint32_t {
    kLines = T::weight_rows + T::max_tokens,
    kRows = ceil_div<uint32_t>(kLines, kWarpSize* T::scale_warps),  // of a lane
    kSlices = kRows > 2 ? 2 : 4,
  };
  uint32_t codes[kRows][kSlices];

  static MOEGEN_DEVICE uint32_t line_of(uint32_t warp, uint32_t i) {
    return (i * T::scale_warps + warp) * kWarpSize + lane_index();
  }
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile, uint32_t warp, uint32_t first) {
#pragma unroll
    for (uint32_t i = 0; i < kRows; ++i) {
      const uint32_t line = line_of(warp, i);
      const uint8_t* row = line < kLines && tile.expert >= 0 ? mx_line<P, T>(args, tile, line) : nullptr;
#pragma unroll
      for (uint32_t k = 0; k < kSlices; ++k) codes[i][k] = row == nullptr ? 0 : mx_codes<P>(row, first + k);
    }
  }
  MOEGEN_DEVICE void store(const MxScales<T>& scales, uint32_t warp, uint32_t k) const {
#pragma unroll
    for (uint32_t i = 0; i < kRows; ++i)
      if (const uint32_t line = line_of(warp, i); line < kLines) store_line(scales, line, codes[i][k]);
  }
};

/// Waits until a stage is free, and tells those who multiply that this warp's part of it is there.
template <class P, class T, class Fill>
MOEGEN_DEVICE void fill_stage(const Shared<P, T>& shared, Ring<T>& ring, Fill&& fill) {
  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
  fill(MxScales<T>{shared.scales(ring.stage)});
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
  ring.next();
}

/// Stages that carry no scales: the end, or a tile without an expert.
template <class P, class T>
MOEGEN_DEVICE void fill_nothing(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) fill_stage(shared, ring, [](const MxScales<T>&) {});
}

/// A tile's scales, of which `now` are the first; leaves the first ones of the tile that follows in their place: they
/// are on their way while this tile's last stages are still to be filled. Returns whether there is one, in `tile`.
template <class P, class T>
MOEGEN_DEVICE bool bring_tile(const Args& args, const Shared<P, T>& shared, Ring<T>& ring, TileWalk<P, T>& walk,
                              Tile& tile, MxBatch<P, T>& now, uint32_t warp) {
  using Batch = MxBatch<P, T>;
  const uint32_t blocks = tile.expert < 0 ? 0 : P::depth_blocks;
  if (blocks == 0) fill_nothing(shared, ring, kEmptySlices<T>);
  bool follows = false;
  uint32_t first = 0;
#pragma unroll 1
  do {
    const bool last = first + Batch::kSlices >= blocks;
    if (last) follows = walk.next(tile);
    Batch later;
    if (!last || follows) later.load(args, tile, warp, last ? 0 : first + Batch::kSlices);
#pragma unroll
    for (uint32_t k = 0; k < Batch::kSlices; ++k)
      if (first + k < blocks) fill_stage(shared, ring, [&](const MxScales<T>& scales) { now.store(scales, warp, k); });
    now = later;
    first += Batch::kSlices;
  } while (first < blocks);
  return follows;
}

/// The work of one of the warps that bring scales.
template <class P, class T>
MOEGEN_DEVICE void bring_scales(const Args& args, const Shared<P, T>& shared, uint32_t rank, uint32_t warp) {
  TileWalk<P, T> walk(args, rank);
  Ring<T> ring;
  Tile tile;
  MxBatch<P, T> batch;
  bool more = walk.next(tile);
  if (more) batch.load(args, tile, warp, 0);
  while (more) more = bring_tile(args, shared, ring, walk, tile, batch, warp);
  fill_nothing(shared, ring, 1);
}

}  // namespace moegen::grouped_matmul
