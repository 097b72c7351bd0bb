// SPDX-License-Identifier: Apache-2.0
// Exchange inside teams of lanes: a warp is cut into 32 / Lanes teams of `Lanes` neighbours, a power of two. All lanes
// of the warp take part in every call.
#pragma once

#include "thread.cuh"
#include "types.cuh"
#include "warp.cuh"

namespace moegen {

MOEGEN_DEVICE float shuffle_xor(float value, uint32_t mask) { return bits_float(shuffle_xor(float_bits(value), mask)); }

/// Largest `value` of the team. A whole warp has one instruction for it.
template <uint32_t Lanes>
MOEGEN_DEVICE uint32_t team_max(uint32_t value) {
  if constexpr (Lanes == kWarpSize) {
    return warp_max(value);
  } else {
#pragma unroll
    for (uint32_t mask = Lanes / 2; mask > 0; mask /= 2) value = max_of(value, shuffle_xor(value, mask));
    return value;
  }
}

/// Sum of `value` over the team, in the order of a balanced binary tree: the same bits on every lane.
template <uint32_t Lanes>
MOEGEN_DEVICE float team_sum(float value) {
#pragma unroll
  for (uint32_t mask = 1; mask < Lanes; mask *= 2) value += shuffle_xor(value, mask);
  return value;
}

/// Sum of `value` over the team.
template <uint32_t Lanes>
MOEGEN_DEVICE uint32_t team_sum(uint32_t value) {
  if constexpr (Lanes == kWarpSize) {
    return warp_sum(value);
  } else {
#pragma unroll
    for (uint32_t mask = 1; mask < Lanes; mask *= 2) value += shuffle_xor(value, mask);
    return value;
  }
}

/// First lane of this lane's team.
template <uint32_t Lanes>
MOEGEN_DEVICE uint32_t team_first_lane() {
  return lane_index() / Lanes * Lanes;
}

/// Mask of the lanes of this lane's team.
template <uint32_t Lanes>
MOEGEN_DEVICE uint32_t team_mask() {
  if constexpr (Lanes == kWarpSize)
    return kFullMask;
  else
    return ((1u << Lanes) - 1u) << team_first_lane<Lanes>();
}

/// Number of the lowest set bit of `mask`, which is not 0.
MOEGEN_DEVICE uint32_t lowest_lane(uint32_t mask) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t>(__builtin_ctz(mask));
#else
  return static_cast<uint32_t>(__ffs(static_cast<int>(mask))) - 1u;
#endif
}

}  // namespace moegen
