// SPDX-License-Identifier: Apache-2.0
// Blocks exchange words between two halves of the launch. The first word of the output counts blocks.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  uint32_t* words = output + 16;
  const uint32_t thread = block_index() * blockDim.x + thread_index();
  words[thread] = input[thread];
  grid_sync(output);
  words[count + thread] = words[count - 1 - thread];
}
