// SPDX-License-Identifier: Apache-2.0
// Turns the words of a block round through shared memory.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  const uint32_t thread = thread_index();
  words[thread] = 0;
  block_sync();
  words[count - 1 - thread] = input[thread];
  block_sync();  // all are turned
  output[thread] = words[thread];
}
