// SPDX-License-Identifier: Apache-2.0
// The special function unit: 2^x and 1/x in one instruction each, for kernels that would wait for arithmetic if they
// took the exact functions of math.cuh. Results differ in their last bits between a GPU and the CPU target, so nothing
// that is compared to the bit may depend on them (quantize.cuh proves that its codes do not).
#pragma once

#include "bits.cuh"
#include "math.cuh"
#include "types.cuh"

namespace moegen::special {

/// Subnormal numbers become zeros of their sign.
MOEGEN_DEVICE float flush(float x) {
  return math::abs(x) < 1.17549435e-38f ? bits_float(float_bits(x) & 0x80000000u) : x;
}

/// 2^x, relative error below 2^-22; subnormal arguments and results are 0. ex2.approx.ftz.f32
MOEGEN_DEVICE float exp2(float x) {
#ifdef MOEGEN_TARGET_CPU
  if (x != x) return bits_float(0x7FFFFFFFu);
  if (x >= 128.0f) return bits_float(0x7F800000u);
  if (x < -126.0f) return 0.0f;
  const float n = static_cast<float>(static_cast<int32_t>(x < 0.0f ? x - 0.5f : x + 0.5f));
  const math::Scaled fraction = math::exp_scaled((x - n) * 0.693147182f, 0.0f);
  return flush(math::scale(fraction.significand, fraction.exponent + static_cast<int32_t>(n)));
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// 1 / x, at most one float32 from the nearest; subnormal arguments and results are 0. rcp.approx.ftz.f32
MOEGEN_DEVICE float reciprocal(float x) {
#ifdef MOEGEN_TARGET_CPU
  return flush(1.0f / flush(x));
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// factor / (1 + 2^-x) for factor above -infinity.
MOEGEN_DEVICE float times_logistic(float factor, float x) { return factor * reciprocal(1.0f + exp2(-x)); }

}  // namespace moegen::special
