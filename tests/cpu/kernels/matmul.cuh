// SPDX-License-Identifier: Apache-2.0
// A warp-specialised matrix product for tests: c[m, n] = sum over k of a[m, k] * b[n, k]. The same text runs on sm_90a
// and on the CPU target.
//
// Roles: warpgroup 0 loads (one thread of it), warpgroups 1 and 2 multiply 64 rows each. Blocks go through the tiles of
// c in turn.
// Shared memory: kStages stages of a tile of a and one of b, 128 bytes of K wide in the 128-byte swizzle; then
// barriers. Barriers: full[s], 1 arrival and the bytes of both tiles; empty[s], 1 arrival of each multiplying warp.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::matmul {

enum : uint32_t {
  kRows = 128,
  kColumns = 128,
  kDepthBytes = 128,
  kStages = 4,
  kThreads = 384,
  kMultiplyingWarps = 8,
  kTileBytes = kRows * kDepthBytes,
  kStageBytes = 2 * kTileBytes,
  kStepBytes = 32,  // of K, one instruction
};

struct Arguments {
  TensorMap a, b;    // [m, k], [n, k], K contiguous; boxes of 128 rows by 128 bytes
  float* c;          // [m, n]
  uint32_t m, n, k;  // elements; multiples of the tile
};

/// A stage, and the parity of the round through all stages.
struct Position {
  uint32_t stage = 0, parity = 0;
  MOEGEN_DEVICE void next() {
    stage = stage + 1 == kStages ? 0 : stage + 1;
    parity ^= stage == 0;
  }
};

struct Shared {
  unsigned char* tiles;
  uint64_t *full, *empty;
  MOEGEN_DEVICE unsigned char* a(uint32_t stage) const { return tiles + stage * kStageBytes; }
  MOEGEN_DEVICE unsigned char* b(uint32_t stage) const { return a(stage) + kTileBytes; }
};

MOEGEN_DEVICE Shared layout() {
  unsigned char* tiles = dynamic_shared_tiles();
  uint64_t* barriers = reinterpret_cast<uint64_t*>(tiles + kStages * kStageBytes);
  return {tiles, barriers, barriers + kStages};
}

MOEGEN_DEVICE void prepare_barriers(const Shared& shared) {
  if (thread_index() == 0) {
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&shared.full[stage], 1);
      mbarrier_init(&shared.empty[stage], kMultiplyingWarps);
    }
    mbarrier_fence_init();
  }
  block_sync();
}

template <class Element>
MOEGEN_DEVICE void load_tiles(const Arguments& args, const Shared& shared) {
  const uint32_t columns = args.n / kColumns, tiles = args.m / kRows * columns;
  constexpr uint32_t kDepth = kDepthBytes / sizeof(Element);
  Position at;
  for (uint32_t tile = block_index(); tile < tiles; tile += num_blocks()) {
    for (uint32_t k = 0; k < args.k; k += kDepth) {
      mbarrier_wait(&shared.empty[at.stage], at.parity ^ 1);
      mbarrier_arrive_expect(&shared.full[at.stage], kStageBytes);
      tensor_load(shared.a(at.stage), args.a, &shared.full[at.stage], k, tile / columns * kRows);
      tensor_load(shared.b(at.stage), args.b, &shared.full[at.stage], k, tile % columns * kColumns);
      at.next();
    }
  }
}

/// Lets the loading thread have a stage again, as far as this warp goes.
MOEGEN_DEVICE void release_stage(const Shared& shared, uint32_t stage) {
  if (lane_index() == 0) mbarrier_arrive(&shared.empty[stage]);
}

/// Multiplies one stage; its group of products is still in flight at the end.
template <class Element>
MOEGEN_DEVICE void multiply_stage(const Shared& shared, uint32_t stage, uint32_t first_row, bool accumulate,
                                  float (&d)[kColumns / 2]) {
  const uint64_t a =
      matrix_descriptor(shared.a(stage) + first_row * kDepthBytes, Swizzle::span_128, 0, 8 * kDepthBytes);
  const uint64_t b = matrix_descriptor(shared.b(stage), Swizzle::span_128, 0, 8 * kDepthBytes);
  wgmma_fence();
#pragma unroll
  for (uint32_t step = 0; step < kDepthBytes / kStepBytes; ++step)
    Wgmma<Element, kColumns>::multiply(d, advance_descriptor(a, step * kStepBytes),
                                       advance_descriptor(b, step * kStepBytes), accumulate || step > 0);
  wgmma_commit();
}

MOEGEN_DEVICE void store_tile(const Arguments& args, uint32_t row, uint32_t column, const float (&d)[kColumns / 2]) {
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; ++i) {
    const uint32_t y = row + i / 2 % 2 * 8, x = column + i / 4 * 8 + i % 2;
    args.c[static_cast<uint64_t>(y) * args.n + x] = d[i];
  }
}

template <class Element>
MOEGEN_DEVICE void multiply_tiles(const Arguments& args, const Shared& shared) {
  const uint32_t columns = args.n / kColumns, tiles = args.m / kRows * columns;
  constexpr uint32_t kDepth = kDepthBytes / sizeof(Element);
  const uint32_t first_row = (thread_index() / 128 - 1) * 64;
  const uint32_t row = first_row + warp_index() % 4 * 16 + lane_index() / 4;
  Position at;
  for (uint32_t tile = block_index(); tile < tiles; tile += num_blocks()) {
    float d[kColumns / 2];
    uint32_t previous = 0;
    for (uint32_t k = 0; k < args.k; k += kDepth) {
      mbarrier_wait(&shared.full[at.stage], at.parity);
      multiply_stage<Element>(shared, at.stage, first_row, k > 0, d);
      wgmma_wait<1>();  // the products of the stage before are done
      if (k > 0) release_stage(shared, previous);
      previous = at.stage;
      at.next();
    }
    wgmma_wait<0>();
    release_stage(shared, previous);
    store_tile(args, tile / columns * kRows + row, tile % columns * kColumns + lane_index() % 4 * 2, d);
  }
}

template <class Element>
MOEGEN_DEVICE void run(const Arguments& args) {
  const Shared shared = layout();
  prepare_barriers(shared);
  if (thread_index() < 128) {
    release_registers<40>();
    if (thread_index() == 0) load_tiles<Element>(args, shared);
  } else {
    acquire_registers<232>();
    multiply_tiles<Element>(args, shared);
  }
}

}  // namespace moegen::matmul
