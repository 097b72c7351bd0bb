// SPDX-License-Identifier: Apache-2.0
// Each thread sums the words of all; past the end of the input words are zero.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  words[thread_index()] = thread_index() < count ? input[thread_index()] : 0;
  block_sync();
  uint32_t sum = 0;
  for (uint32_t i = 0; i < blockDim.x; ++i) sum += words[i];
  output[thread_index()] = sum;
}
