// SPDX-License-Identifier: Apache-2.0
// Sums runs of four words, the last one shorter.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  const uint32_t first = 4 * thread_index();
  if (first >= count) return;
  const uint32_t end = min_of<uint32_t>(first + 4, count);
  uint32_t sum = 1;
  for (uint32_t i = first; i < end; ++i) sum = 5 * sum + input[i];
  output[thread_index()] = sum;
}
