// SPDX-License-Identifier: Apache-2.0
// Adds to each lane's word its neighbour's, in place.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  const uint32_t thread = thread_index();
  words[thread] = input[thread];
  warp_sync();  // all are there
  const uint32_t sum = words[thread] + words[thread ^ 1];
  warp_sync();  // all are read
  words[thread ^ 1] = sum;
  warp_sync();
  output[thread] = words[thread];
}
