// SPDX-License-Identifier: Apache-2.0
// Experts by their numbers: in the model, and among the groups of create_indices.
#pragma once

#include "types.cuh"

namespace moegen {

/// The id in the model of a local expert: routed ones from first_expert on, shared ones after the routed and the zero
/// experts. -1 (none) stays -1.
template <class P>
MOEGEN_DEVICE int32_t model_expert(int32_t local) {
  constexpr int32_t kLocal = P::num_local_experts, kFirst = P::first_expert;
  constexpr int32_t kShared = P::num_experts + P::num_zero_experts;
  if (local < 0) return -1;
  return local < kLocal ? local + kFirst : local - kLocal + kShared;
}

}  // namespace moegen
