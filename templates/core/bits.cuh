// SPDX-License-Identifier: Apache-2.0
// Reinterpretation and bit counting.
#pragma once

#include "types.cuh"

namespace moegen {

MOEGEN_DEVICE uint32_t float_bits(float value) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(uint32_t, value);
#else
  uint32_t bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#endif
}

MOEGEN_DEVICE float bits_float(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(float, bits);
#else
  float value;
  asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
  return value;
#endif
}

/// Number of set bits.
MOEGEN_DEVICE uint32_t popcount(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t>(__builtin_popcount(bits));
#else
  uint32_t count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
  return count;
#endif
}

}  // namespace moegen
