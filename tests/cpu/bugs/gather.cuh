// SPDX-License-Identifier: Apache-2.0
// Turns the pieces of a warp round: its lanes bring them by copies that arrive at a barrier by themselves, and a thread
// of another warp sends them on by a bulk copy. The barrier counts an arrival of each bringing lane.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  Vector16* pieces = reinterpret_cast<Vector16*>(dynamic_shared());
  uint64_t* full = reinterpret_cast<uint64_t*>(pieces + kWarpSize);
  if (thread_index() == 0) {
    mbarrier_init(full, kWarpSize);
    mbarrier_fence_init();
  }
  block_sync();
  if (warp_index() == 0) {
    copy_async<16>(pieces + lane_index(), input + 4 * (kWarpSize - 1 - lane_index()));
    copy_arrive(full);
  } else if (lane_index() == 0) {
    mbarrier_wait(full, 0);
    fence_proxy_async();
    bulk_store(output, pieces, kWarpSize * 16);
    bulk_commit();
    bulk_wait<0>();
  }
}
