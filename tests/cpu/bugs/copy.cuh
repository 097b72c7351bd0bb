// SPDX-License-Identifier: Apache-2.0
// Turns the pieces of a block round; copies bring them to shared memory.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  Vector16* pieces = reinterpret_cast<Vector16*>(dynamic_shared());
  const uint32_t thread = thread_index();
  copy_async<16>(pieces + thread, input + 4 * thread);
  copy_commit();
  copy_wait<0>();
  block_sync();
  store(output + 4 * thread, pieces[blockDim.x - 1 - thread]);
}
