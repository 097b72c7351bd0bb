// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme: the sum over K stays in the tensor cores' accumulators (16-bit elements; fp8 with accumulate
// "fast"). A stage is given back while the next one is multiplied, so that the tensor cores' queue is never empty.
#pragma once

#include "multiply.cuh"

namespace moegen::grouped_matmul {

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  const Operands first = operands(shared, warpgroup);
  uint32_t previous = 0;
#pragma unroll 1
  for (uint32_t block = 0; block < P::depth_blocks; ++block) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    multiply_stage<P, T, N>(first, ring.stage, block > 0, sum);
    wgmma_wait<1>();
    if (block > 0) release_stage(shared, previous);
    previous = ring.stage;
    ring.next();
  }
  wgmma_wait<0>();
  hold(sum);
  release_stage(shared, previous);
}

}  // namespace moegen::grouped_matmul
