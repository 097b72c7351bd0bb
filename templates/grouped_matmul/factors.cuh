// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, schemes with scales by blocks of K: where the factors of a stage's tokens lie in shared memory.
#pragma once

#include "../core/types.cuh"

namespace moegen::grouped_matmul {

/// Factors of two groups of 8 columns for one thread, one access.
struct alignas(16) FactorQuad {
  float factor[4];
};

/// Where the factor of `token` lies: with tokens on N the four of a thread in 16 columns lie together.
template <class T>
MOEGEN_DEVICE uint32_t factor_place(uint32_t token) {
  if constexpr (T::tokens_on_m) return token;
  return token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 + token % 2;
}

}  // namespace moegen::grouped_matmul
