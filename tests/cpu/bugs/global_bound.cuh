// SPDX-License-Identifier: Apache-2.0
// Writes each word once, several a thread.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  const uint32_t first = block_index() * blockDim.x + thread_index(), threads = num_blocks() * blockDim.x;
  for (uint32_t i = first; i < count; i += threads) output[i] = input[0] + i;
}
