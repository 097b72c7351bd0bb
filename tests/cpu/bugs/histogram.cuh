// SPDX-License-Identifier: Apache-2.0
// Counts the words of each residue modulo 8.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  uint32_t* counts = reinterpret_cast<uint32_t*>(dynamic_shared());
  if (thread_index() < 8) counts[thread_index()] = 0;
  block_sync();
  for (uint32_t i = thread_index(); i < count; i += blockDim.x) shared_add(&counts[input[i] % 8], 1);
  block_sync();
  if (thread_index() < 8) output[thread_index()] = counts[thread_index()];
}
