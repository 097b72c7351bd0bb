// SPDX-License-Identifier: Apache-2.0
// The special function units: one instruction each, with the error that the PTX ISA documents (8.x, "Floating Point
// Instructions"). Subnormal inputs count as 0 and subnormal results become 0. For kernels that would wait for
// arithmetic if they took the functions of math.cuh, whose bits are the same everywhere: these differ in their last
// bits between a GPU and the CPU target, so nothing that is compared to the bit may depend on them (quantize.cuh proves
// that its codes do not).
#pragma once

#include "bits.cuh"
#include "math.cuh"
#include "types.cuh"

namespace moegen::approx {

#ifdef MOEGEN_TARGET_CPU
/// The bodies for the CPU target are exact but for one rounding, and flush as the hardware does.
MOEGEN_DEVICE float flush(float x) {
  return math::abs(x) < 1.17549435e-38f ? bits_float(float_bits(x) & 0x80000000u) : x;
}
#endif

/// 2^x. Relative error below 2^-22; 0 at -infinity, infinity from 128 on, NaN for NaN. ex2.approx.ftz.f32
MOEGEN_DEVICE float exp2(float x) {
#ifdef MOEGEN_TARGET_CPU
  if (x != x) return bits_float(0x7FFFFFFFu);
  if (x >= 128.0f) return bits_float(0x7F800000u);
  if (x < -126.0f) return 0.0f;
  const float n = (x + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer
  const float f = x - n;
  const float high = f * 0.693147182f;
  math::Scaled e = math::exp_scaled(high, math::fma(f, 0.693147182f, -high) - f * 1.90465421e-9f);
  e.exponent += static_cast<int32_t>(n);
  return flush(math::scale(e));
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// 1 / x. Error at most 1 ulp; 0 at infinity, infinity at 0. rcp.approx.ftz.f32
MOEGEN_DEVICE float reciprocal(float x) {
#ifdef MOEGEN_TARGET_CPU
  return flush(1.0f / flush(x));
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// Square root of x >= 0. Relative error below 2^-23. sqrt.approx.ftz.f32
MOEGEN_DEVICE float sqrt(float x) {
#ifdef MOEGEN_TARGET_CPU
  return math::sqrt(flush(x));
#else
  float result;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// a + b, bounded to [0, 1]; 0 where it is NaN. add.sat.f32
MOEGEN_DEVICE float add_saturated(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  const float sum = a + b;
  return sum > 0.0f ? (sum < 1.0f ? sum : 1.0f) : 0.0f;
#else
  float result;
  asm("add.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// The larger one; the other one where one is NaN. max.f32
MOEGEN_DEVICE float max_number(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return a >= b || b != b ? a : b;
#else
  float result;
  asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// The smaller one; the other one where one is NaN. min.f32
MOEGEN_DEVICE float min_number(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return a <= b || b != b ? a : b;
#else
  float result;
  asm("min.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

}  // namespace moegen::approx
