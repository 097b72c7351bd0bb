// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme: fp8 products of every 128 of K are summed by the tensor cores, whose accumulators keep fewer
// bits than float, and then added to a float sum.
#pragma once

#include "multiply.cuh"

namespace moegen::grouped_matmul {

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  const Operands first = operands(shared, warpgroup);
  float part[N / 2];
  clear(part);
  const auto multiply = [&](uint32_t stage) {
    multiply_stage<P, T, N>(first, stage, false, part);
    wgmma_wait<0>();
    hold(part);
    release_stage(shared, stage);
  };
  const auto add = [&](uint32_t) {
#pragma unroll
    for (uint32_t i = 0; i < N / 2; ++i) sum[i] += part[i];
  };
  for_slices(shared, ring, multiply, add);
}

}  // namespace moegen::grouped_matmul
