// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheme: fp8 products of every 128 of K are summed by the tensor cores, whose accumulators keep fewer
// bits than float, and then added to a float sum.
#pragma once

#include "multiply.cuh"

namespace moegen::grouped_matmul {

/// Adds the partial sums of columns from First on.
template <uint32_t First, uint32_t Count, uint32_t Columns>
MOEGEN_DEVICE void add_part(const float (&part)[Count], float (&sum)[Columns]) {
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) sum[First + i] += part[i];
}

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  constexpr uint32_t kColumns = T::tokens_on_m ? T::part_columns : N;
  const Operands first = operands(shared, warpgroup);
  float part[kColumns / 2];
  clear(part);
  const auto multiply = [&](uint32_t stage) {
    multiply_part<P, T, kColumns>(first, stage, part);
    if constexpr (kColumns < N) {
      add_part<0>(part, sum);
      multiply_part<P, T, kColumns>(next_columns(first, kColumns), stage, part);
    }
    release_stage(shared, stage);
  };
  const auto add = [&](uint32_t) { add_part<(N - kColumns) / 2>(part, sum); };
  for_slices(shared, ring, multiply, add);
}

}  // namespace moegen::grouped_matmul
