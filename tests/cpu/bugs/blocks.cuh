// SPDX-License-Identifier: Apache-2.0
// Each block writes a part of its own.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  const uint32_t first = block_index() * blockDim.x;
  output[first + thread_index()] = input[thread_index()] + block_index();
}
