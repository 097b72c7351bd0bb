// SPDX-License-Identifier: Apache-2.0
// Adds the word of the lane below; the last threads have nothing to write.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  const uint32_t thread = thread_index();
  const uint32_t word = input[thread];
  const uint32_t below = shuffle_up(word, 1, 0);
  if (thread < count) output[thread] = word + below;
  block_sync();
}
