// SPDX-License-Identifier: Apache-2.0
// Sums chunks of 128 words that bulk copies bring: warp 0 loads, warps 1 to 4 add. Two stages; barriers full[s], one
// arrival and the bytes of a chunk, and empty[s], an arrival of each adding thread.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::bugs {

enum : uint32_t { kStages = 2, kAdding = 128, kBytes = 4 * kAdding };

struct Pipeline {
  uint32_t* chunks;
  uint64_t *full, *empty;
};

MOEGEN_DEVICE Pipeline make_pipeline() {
  uint32_t* chunks = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint64_t* barriers = reinterpret_cast<uint64_t*>(chunks + kStages * kAdding);
  if (thread_index() == 0) {
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&barriers[stage], 1);
      mbarrier_init(&barriers[kStages + stage], kAdding);
    }
    mbarrier_fence_init();
  }
  block_sync();
  return {chunks, barriers, barriers + kStages};
}

MOEGEN_DEVICE void load(const Pipeline& pipeline, const uint32_t* input, uint32_t chunks) {
  for (uint32_t i = 0; i < chunks; ++i) {
    const uint32_t stage = i % kStages, parity = i / kStages % 2;
    mbarrier_wait(&pipeline.empty[stage], parity ^ 1);
    mbarrier_arrive_expect(&pipeline.full[stage], kBytes);
    bulk_load(pipeline.chunks + stage * kAdding, input + i * kAdding, kBytes, &pipeline.full[stage]);
  }
}

MOEGEN_DEVICE uint32_t add(const Pipeline& pipeline, uint32_t thread, uint32_t chunks) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < chunks; ++i) {
    const uint32_t stage = i % kStages, parity = i / kStages % 2;
    mbarrier_wait(&pipeline.full[stage], parity);
    sum += pipeline.chunks[stage * kAdding + thread];
    mbarrier_arrive(&pipeline.empty[stage]);
  }
  return sum;
}

}  // namespace moegen::bugs

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  const bugs::Pipeline pipeline = bugs::make_pipeline();
  if (thread_index() == 0) bugs::load(pipeline, input, count / bugs::kAdding);
  if (warp_index() > 0)
    output[thread_index() - kWarpSize] = bugs::add(pipeline, thread_index() - kWarpSize, count / bugs::kAdding);
}
