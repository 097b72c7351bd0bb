// SPDX-License-Identifier: Apache-2.0
// The functions of user expressions in float32, with the error of each.
//
// All of them are built from fma, division and square root, which IEEE 754 fixes to the bit, so that a GPU and a CPU
// give the same result and the bounds could be measured on a CPU (tests/unit/test_math.cpp): over every float32 of
// magnitude 2^-10 to 2^8 and every 31st of the rest. They are in ulp, the distance of neighbouring float32 at the exact
// result. The special units (ex2.approx, tanh.approx) would save little:
// their documented 2 ulp and more grow in silu and gelu, and eight FMAs keep pace with one of their results.
// No product but one by a power of two meets a plain + or -: a compiler may contract that to an fma or not, and the
// bits would then differ.
//
// Coefficients: minimax fits (Lawson's weighting of least squares at Chebyshev nodes, 40 digits), rounded to float32
// one by one from the lowest power, the rest fitted again after each.
#pragma once

#include "bits.cuh"
#include "types.cuh"

namespace moegen::math {

/// a * b + c, rounded once. fma.rn.f32
MOEGEN_DEVICE float fma(float a, float b, float c) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_fmaf(a, b, c);
#else
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
#endif
}

#ifdef MOEGEN_TARGET_CPU
/// x: the compiler cannot see where it comes from, nor what becomes of it.
MOEGEN_DEVICE float contracted_nowhere(float x) {
  uint32_t bits = float_bits(x);
  asm("" : "+r"(bits));
  return bits_float(bits);
}
#endif

/// a + b, rounded once: no compiler makes it part of an fma. add.rn.f32
MOEGEN_DEVICE float add(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return contracted_nowhere(a) + contracted_nowhere(b);
#else
  float result;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// a - b, the same. sub.rn.f32
MOEGEN_DEVICE float subtract(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return contracted_nowhere(a) - contracted_nowhere(b);
#else
  float result;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// a * b, the same. mul.rn.f32
MOEGEN_DEVICE float multiply(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return contracted_nowhere(a * b);
#else
  float result;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// a / b, rounded once whatever the compiler's division flags say. div.rn.f32
MOEGEN_DEVICE float divide(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  return a / b;
#else
  float result;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// 1 / x, rounded once. rcp.rn.f32
MOEGEN_DEVICE float reciprocal(float x) {
#ifdef MOEGEN_TARGET_CPU
  return 1.0f / x;
#else
  float result;
  asm("rcp.rn.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// Square root, rounded once; NaN for x < 0. sqrt.rn.f32
MOEGEN_DEVICE float sqrt(float x) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_sqrtf(x);
#else
  float result;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// |x|, exact. abs.f32
MOEGEN_DEVICE float abs(float x) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_fabsf(x);
#else
  float result;
  asm("abs.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// The smaller one, exact; NaN if either is; -0 is below +0. min.NaN.f32, sm_80 up
MOEGEN_DEVICE float min(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  if (a != a || b != b) return bits_float(0x7FFFFFFFu);
  if (a == b) return bits_float(float_bits(a) | float_bits(b));
  return a < b ? a : b;
#else
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// The larger one, exact; NaN if either is; +0 is above -0. max.NaN.f32, sm_80 up
MOEGEN_DEVICE float max(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  if (a != a || b != b) return bits_float(0x7FFFFFFFu);
  if (a == b) return bits_float(float_bits(a) & float_bits(b));
  return a > b ? a : b;
#else
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// min(max(x, low), high), exact; NaN if any is.
MOEGEN_DEVICE float clamp(float x, float low, float high) { return min(max(x, low), high); }

/// max(x, 0), exact; NaN stays NaN.
MOEGEN_DEVICE float relu(float x) { return max(x, 0.0f); }

/// significand * 2^exponent, the form in which exponentials stay accurate below the range of normal float32.
struct Scaled {
  float significand;
  int32_t exponent;
};

/// 2^exponent for -126 <= exponent <= 127.
MOEGEN_DEVICE float power_of_two(int32_t exponent) { return bits_float(static_cast<uint32_t>(exponent + 127) << 23); }

/// value * 2^exponent for -252 <= exponent <= 254, rounded once if |value| >= 2^-20: the first factor keeps it normal.
MOEGEN_DEVICE float scale(float value, int32_t exponent) {
  const int32_t first = exponent >> 1;
  return value * power_of_two(first) * power_of_two(exponent - first);
}

/// e^(high + low) for |low| < 2^-20 * |high|, significand in [0.7, 1.42), relative error 2^-24.6. Below -120 as at
/// -120, which no caller can tell from 0; above 89 as at 89, which scale() makes infinite. NaN gives NaN.
MOEGEN_DEVICE Scaled exp_scaled(float high, float low) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  high = high < -120.0f ? -120.0f : high > 89.0f ? 89.0f : high;
  const float shifted = fma(high, 1.44269504f, kRound);
  const float n = shifted - kRound;
  // ln 2 = 0.693145752 + 1.42860677e-6; the first has 16 bits, so that n times it is exact.
  const float r = fma(n, -1.42860677e-6f, fma(n, -0.693145752f, high)) + low;
  float q = 0.00138214347f;
  q = fma(q, r, 0.00836885534f);
  q = fma(q, r, 0.0416682623f);
  q = fma(q, r, 0.166665196f);
  q = fma(q, r, 0.49999994f);
  q = fma(q, r, 1.0f);
  const int32_t exponent = static_cast<int32_t>(float_bits(shifted)) - static_cast<int32_t>(float_bits(kRound));
  return {fma(q, r, 1.0f), exponent};
}

MOEGEN_DEVICE float scale(Scaled value) { return scale(value.significand, value.exponent); }

/// e^x. Error below 1 ulp.
MOEGEN_DEVICE float exp(float x) { return scale(exp_scaled(x, 0.0f)); }

/// Natural logarithm; -inf at 0, NaN below. Error below 1 ulp.
MOEGEN_DEVICE float log(float x) {
  constexpr uint32_t kTwoThirds = 0x3F2AAAABu, kInfinity = 0x7F800000u;
  const bool subnormal = x < 1.17549435e-38f;
  const uint32_t bits = float_bits(subnormal ? x * 8388608.0f : x);
  const int32_t exponent = static_cast<int32_t>(bits - kTwoThirds) >> 23;
  const float f = bits_float(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;  // in [-1/3, 1/3)
  float p = -0.128890634f;
  p = fma(p, f, 0.13986899f);
  p = fma(p, f, -0.121848941f);
  p = fma(p, f, 0.140053064f);
  p = fma(p, f, -0.166804388f);
  p = fma(p, f, 0.20010446f);
  p = fma(p, f, -0.249997988f);
  p = fma(p, f, 0.333332151f);
  p = fma(p, f, -0.5f);
  const float log1p = fma(p, f * f, f);
  const float result = fma(static_cast<float>(exponent - (subnormal ? 23 : 0)), 0.693147182f, log1p);
  if (x > 0.0f && bits < kInfinity) return result;
  if (x == 0.0f) return bits_float(kInfinity | 0x80000000u);
  return x > 0.0f ? x : bits_float(0x7FFFFFFFu);
}

/// Hyperbolic tangent. Error below 1.5 ulp.
MOEGEN_DEVICE float tanh(float x) {
  const float a = abs(x);
  if (a < 0.6f) {
    const float s = x * x;
    float p = -0.00589796668f;
    p = fma(p, s, 0.0207986254f);
    p = fma(p, s, -0.0537847169f);
    p = fma(p, s, 0.133319363f);
    p = fma(p, s, -0.333332986f);
    return fma(p * s, x, x);
  }
  const float e = scale(exp_scaled(a + a, 0.0f));
  const float t = 1.0f - divide(2.0f, e + 1.0f);
  return x < 0.0f ? -t : t;
}

/// factor / (1 + e^-x) with x = high + low; factor * sigmoid stays accurate where the sigmoid alone is subnormal.
MOEGEN_DEVICE float times_sigmoid(float factor, float high, float low) {
  const bool negative = high < 0.0f;
  const Scaled e = exp_scaled(negative ? high : -high, negative ? low : -low);
  const float denominator = 1.0f + scale(e);
  if (!negative) return divide(factor, denominator);
  return scale(divide(factor * e.significand, denominator), e.exponent);
}

/// 1 / (1 + e^-x). Error below 2.5 ulp.
MOEGEN_DEVICE float sigmoid(float x) { return times_sigmoid(1.0f, x, 0.0f); }

/// x * sigmoid(x); -0 at -inf. Error below 3.5 ulp.
MOEGEN_DEVICE float silu(float x) {
  const float factor = x < -120.0f ? -120.0f : x;
  return times_sigmoid(factor, factor, 0.0f);
}

/// x * Phi(x) with the normal distribution function: 0.5 x (1 + erf(x / sqrt 2)); -0 at -inf.
/// Phi(-a) = e^(-a*a/2) * m(a), where the Mills ratio m falls gently from 0.5 and is fitted by a rational function.
/// Error below 7 ulp.
MOEGEN_DEVICE float gelu(float x) {
  if (x > 15.0f) return x;
  const float bounded = x < -15.0f ? -15.0f : x;  // the result is 0 from there on
  const float a = abs(bounded);
  const float square = a * a;
  const Scaled e = exp_scaled(-0.5f * square, -0.5f * fma(a, a, -square));
  float numerator = 0.00415298691f;
  numerator = fma(numerator, a, 0.0408797602f);
  numerator = fma(numerator, a, 0.183965493f);
  numerator = fma(numerator, a, 0.439279147f);
  numerator = fma(numerator, a, 0.5f);
  float denominator = 0.0104098828f;
  denominator = fma(denominator, a, 0.102476479f);
  denominator = fma(denominator, a, 0.471398953f);
  denominator = fma(denominator, a, 1.20553416f);
  denominator = fma(denominator, a, 1.6764433f);
  denominator = fma(denominator, a, 1.0f);
  const float tail = divide(e.significand * numerator, denominator);
  if (x < 0.0f) return scale(bounded * tail, e.exponent);
  return fma(-x, scale(tail, e.exponent), x);
}

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(x (c1 + c2 x^2)); -0 at -inf.
/// The argument of the sigmoid is carried in two floats: far to the left its rounding alone would cost a hundred ulp.
/// Error below 3.5 ulp.
MOEGEN_DEVICE float gelu_tanh(float x) {
  // c1 = 2 sqrt(2/pi) in a 12-bit head, so that slope - head is exact, and a tail; c2 = 0.044715 c1 in two floats.
  constexpr float kHead = 1.595703125f, kTail = 6.59966026e-5f;
  constexpr float kCubic = 0.0713548139f, kCubicTail = 2.39883247e-9f;
  const float factor = x < -11.0f ? -11.0f : x;
  const float bounded = factor > 11.0f ? 11.0f : factor;
  const float square = bounded * bounded;
  const float slope = fma(kCubic, square, kHead);
  float rest = fma(kCubic, square, -(slope - kHead)) + kTail;
  rest = fma(kCubic, fma(bounded, bounded, -square), fma(kCubicTail, square, rest));
  const float high = bounded * slope;
  return times_sigmoid(factor, high, fma(bounded, rest, fma(bounded, slope, -high)));
}

/// 1 / sqrt(x); inf at 0, NaN below. Error below 1.5 ulp.
MOEGEN_DEVICE float rsqrt(float x) { return divide(1.0f, sqrt(x)); }

}  // namespace moegen::math
