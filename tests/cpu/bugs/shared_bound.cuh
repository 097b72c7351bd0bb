// SPDX-License-Identifier: Apache-2.0
// Fills shared memory, which holds as many words as there are.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t*, uint32_t count) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  for (uint32_t i = thread_index(); i < count; i += kWarpSize) words[i] = i * i + 1;
  block_sync();
  for (uint32_t i = thread_index(); i < count; i += kWarpSize) output[i] = words[count - 1 - i];
}
