// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster read each other's words.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::bugs {

MOEGEN_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

}  // namespace moegen::bugs

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  const uint32_t thread = thread_index();
  words[thread] = 0;
  bugs::cluster_sync();
  words[thread] = input[thread] + block_index();
  bugs::cluster_sync();  // all are written
  const uint32_t peers = *map_cluster_shared(words + thread, 1 - block_index());
  bugs::cluster_sync();  // all are read: a block may end
  output[block_index() * blockDim.x + thread] = peers;
}
