// SPDX-License-Identifier: Apache-2.0
// Warp-wide exchange. Every lane of the warp that exists and has not ended must take part; the others add nothing, and
// their values must not be asked for.
#pragma once

#include "bits.cuh"
#include "thread.cuh"
#include "types.cuh"

namespace moegen {

/// Orders shared and global memory accesses among the lanes of the warp.
MOEGEN_DEVICE void warp_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::warp_sync(kFullMask);
#else
  asm volatile("bar.warp.sync %0;" ::"r"(kFullMask) : "memory");
#endif
}

/// Mask of the lanes for which `predicate` holds.
MOEGEN_DEVICE uint32_t ballot(bool predicate) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::ballot(kFullMask, predicate);
#else
  return __ballot_sync(kFullMask, predicate);  // vote.sync.ballot: the predicate stays one, with no detour through asm
#endif
}

/// `value` of lane `lane` (modulo 32).
MOEGEN_DEVICE uint32_t shuffle(uint32_t value, uint32_t lane) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shuffle(kFullMask, value, lane);
#else
  uint32_t other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(other) : "r"(value), "r"(lane), "r"(kFullMask));
  return other;
#endif
}

/// The same of a float.
MOEGEN_DEVICE float shuffle(float value, uint32_t lane) { return bits_float(shuffle(float_bits(value), lane)); }

/// `value` of the lane `delta` below; lanes without one get `fill`.
MOEGEN_DEVICE uint32_t shuffle_up(uint32_t value, uint32_t delta, uint32_t fill) {
#ifdef MOEGEN_TARGET_CPU
  const bool has_one = lane_index() >= delta;
  const uint32_t other = cpu::shuffle(kFullMask, value, has_one ? lane_index() - delta : lane_index());
  return has_one ? other : fill;
#else
  uint32_t other;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, %3;" : "=r"(other) : "r"(value), "r"(delta), "r"(kFullMask));
  return lane_index() >= delta ? other : fill;
#endif
}

/// `value` of the lane whose number differs in the bits `mask`.
MOEGEN_DEVICE uint32_t shuffle_xor(uint32_t value, uint32_t mask) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shuffle(kFullMask, value, lane_index() ^ mask);
#else
  uint32_t other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1F, %3;" : "=r"(other) : "r"(value), "r"(mask), "r"(kFullMask));
  return other;
#endif
}

/// Sum of `value` over the lanes. sm_80 up.
MOEGEN_DEVICE uint32_t warp_sum(uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::warp_sum(kFullMask, value);
#else
  uint32_t sum;
  asm volatile("redux.sync.add.u32 %0, %1, %2;" : "=r"(sum) : "r"(value), "r"(kFullMask));
  return sum;
#endif
}

/// Largest `value` of the lanes. sm_80 up.
MOEGEN_DEVICE uint32_t warp_max(uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::warp_max(kFullMask, value);
#else
  uint32_t largest;
  asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(largest) : "r"(value), "r"(kFullMask));
  return largest;
#endif
}

/// Largest `value` (not negative; a positive NaN is above all numbers) of the `Lanes` lanes, a power of two and aligned
/// to it, of which this is one. All lanes of the warp take part.
template <uint32_t Lanes>
MOEGEN_DEVICE float lanes_max(float value) {
  uint32_t bits = float_bits(value);  // floats that are not negative are ordered as their bits
  if constexpr (Lanes == kWarpSize) return bits_float(warp_max(bits));
#pragma unroll
  for (uint32_t distance = 1; distance < Lanes; distance *= 2) bits = max_of(bits, shuffle_xor(bits, distance));
  return bits_float(bits);
}

/// Bit mask of the lanes below this one.
MOEGEN_DEVICE uint32_t lanes_below() { return (1u << lane_index()) - 1u; }

}  // namespace moegen
