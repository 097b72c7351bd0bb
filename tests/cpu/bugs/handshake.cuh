// SPDX-License-Identifier: Apache-2.0
// Block 0 writes, block 1 waits for its flag and reads.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t count) {
  using namespace moegen;
  const uint32_t thread = thread_index();
  uint32_t* flag = output + 2 * count;
  if (block_index() == 0) {
    output[thread] = input[thread];
    block_sync();  // all are written
    if (thread == 0) global_add(flag, 1);
  } else {
    if (thread == 0) wait_at_least(flag, 1);
    block_sync();  // all may read
    output[count + thread] = output[thread];
  }
}
