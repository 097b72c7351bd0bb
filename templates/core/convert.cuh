// SPDX-License-Identifier: Apache-2.0
// float <-> storage types, by the hardware's rules: to nearest even, NaN to the canonical NaN.
#pragma once

#include "bits.cuh"
#include "types.cuh"

namespace moegen {

MOEGEN_DEVICE float to_float(float value) { return value; }

MOEGEN_DEVICE float to_float(bfloat16 value) { return bits_float(static_cast<uint32_t>(value.bits) << 16); }

MOEGEN_DEVICE float to_float(float16 value) {
#ifdef MOEGEN_TARGET_CPU
  if ((value.bits & 0x7FFFu) > 0x7C00u) return bits_float(0x7FFFFFFFu);
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}

/// Two floats rounded to bfloat16: `low` in bits 0..15, `high` in 16..31. sm_80 up.
MOEGEN_DEVICE uint32_t pack_bfloat16(float low, float high) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::float_to_bfloat16(low) | static_cast<uint32_t>(cpu::float_to_bfloat16(high)) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

/// Two floats rounded to float16: `low` in bits 0..15, `high` in 16..31. sm_80 up.
MOEGEN_DEVICE uint32_t pack_float16(float low, float high) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::float_to_float16(low) | static_cast<uint32_t>(cpu::float_to_float16(high)) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

/// Two floats rounded to the type of the first argument.
MOEGEN_DEVICE uint32_t pack_pair(bfloat16, float low, float high) { return pack_bfloat16(low, high); }
MOEGEN_DEVICE uint32_t pack_pair(float16, float low, float high) { return pack_float16(low, high); }

}  // namespace moegen
