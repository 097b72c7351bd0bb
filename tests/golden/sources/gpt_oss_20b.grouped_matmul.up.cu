// SPDX-License-Identifier: Apache-2.0
// grouped_matmul.up of gpt_oss_20b for sm_90a, written by moegen.

// ---- core/types.cuh --------------------------------------------------------------------------------------
// Words that every template uses: fixed-width integers, storage types, and what a device function is.

// A kernel's text includes nothing, so the names of <cstdint> are declared here; the same types as the host's on LP64.
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

#define MOEGEN_DEVICE __device__ __forceinline__

namespace moegen {

/// An index that stands for "none": a dropped pair, an unused row.
enum : uint32_t { kNone = 0xFFFFFFFFu };

/// Storage of 16-bit floats; arithmetic is done in float.
struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};

/// 8 bytes that move in one access.
struct alignas(8) Vector8 {
  uint32_t word[2];
};

/// 16 bytes that move in one access.
struct alignas(16) Vector16 {
  uint32_t word[4];
};

template <class T>
MOEGEN_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
MOEGEN_DEVICE constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <class T>
MOEGEN_DEVICE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <class T>
MOEGEN_DEVICE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

}  // namespace moegen

// ---- core/bits.cuh ---------------------------------------------------------------------------------------
// Reinterpretation and bit counting.


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

// ---- core/math.cuh ---------------------------------------------------------------------------------------
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

// ---- core/approx.cuh -------------------------------------------------------------------------------------
// The special function units: one instruction each, with the error that the PTX ISA documents (8.x, "Floating Point
// Instructions"). Subnormal inputs count as 0 and subnormal results become 0. For kernels that would wait for
// arithmetic if they took the functions of math.cuh, whose bits are the same everywhere: these differ in their last
// bits between a GPU and the CPU target, so nothing that is compared to the bit may depend on them (quantize.cuh proves
// that its codes do not).


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

// ---- core/activation.cuh ---------------------------------------------------------------------------------
// The functions between the two matmuls of an expert, in float32: by the activation kernel and in matmul epilogues
// alike, so that both give the same bits.
//
// A kernel's Params say which: `activation_kind` (a type of namespace kinds), `activation_gated`, `activation_limited`,
// and where the kind has them alpha(), beta() and linear_beta(). Relative error below 2^-20 (situ: 2^-17) plus 2^-22 x,
// where e^x is the largest exponential involved, and up to 2^-118 in absolute terms, times up (situ: 2^-100):
// approx.cuh has exponentials of one instruction, and results are rounded to 16 bits or fewer. NaN stays NaN; at an
// infinity a function has its limit.


namespace moegen {
namespace kinds {

enum : uint32_t { kSignBit = 0x80000000u };

/// log2(e): e^x = 2^(kLog2E * x).
constexpr float kLog2E = 1.44269504f;

/// factor / (1 + 2^-x) for factor above -infinity.
MOEGEN_DEVICE float times_logistic(float factor, float x) {
  return factor * approx::reciprocal(1.0f + approx::exp2(-x));
}

/// Keeps a factor whose sigmoid is 0 from being infinite.
MOEGEN_DEVICE float finite_below(float x) { return math::max(x, -1.0e30f); }

/// x sigmoid(x) = x / (1 + e^-x).
struct silu {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    return times_logistic(finite_below(x), kLog2E * x);
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// gate sigmoid(alpha gate) (up + 1), as gpt-oss has it.
struct swiglu_oai {
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return times_logistic(finite_below(gate), kLog2E * P::alpha() * gate) * (up + 1.0f);
  }
};

/// x Phi(x) = 0.5 x (1 + erf(x / sqrt 2)). Phi(-a) = e^(-a*a/2) m(a), m by the rational function of math::gelu.
struct gelu {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    const float bounded = math::clamp(x, -15.0f, 15.0f), a = math::abs(bounded);
    float numerator = 0.00415298691f;
    numerator = math::fma(numerator, a, 0.0408797602f);
    numerator = math::fma(numerator, a, 0.183965493f);
    numerator = math::fma(numerator, a, 0.439279147f);
    numerator = math::fma(numerator, a, 0.5f);
    float denominator = 0.0104098828f;
    denominator = math::fma(denominator, a, 0.102476479f);
    denominator = math::fma(denominator, a, 0.471398953f);
    denominator = math::fma(denominator, a, 1.20553416f);
    denominator = math::fma(denominator, a, 1.6764433f);
    denominator = math::fma(denominator, a, 1.0f);
    const float tail = approx::exp2(-0.5f * kLog2E * (a * a)) * (numerator * approx::reciprocal(denominator));
    return x < 0.0f ? bounded * tail : math::fma(-bounded, tail, x);
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// 0.5 x (1 + tanh(c (x + 0.044715 x^3))) = x sigmoid(2 c (x + 0.044715 x^3)), c = sqrt(2 / pi).
struct gelu_tanh {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    constexpr float kLinear = 2.30220819f, kCubic = 0.102943240f;  // 2 c log2(e), and 0.044715 times that
    return times_logistic(finite_below(x), x * math::fma(kCubic, x * x, kLinear));
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// max(x, 0)^2.
struct relu2 {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    const float positive = math::relu(x);
    return positive * positive;
  }
};

/// beta tanh(gate / beta) sigmoid(gate) linear_beta tanh(up / linear_beta), as Kimi-K3 has it. tanh y is y times a
/// rational function of y * y, fitted (Lawson's weighting of least squares) on [0, 7] within 1.3e-6 and held at its
/// value in 7, which is 1.7e-6 from 1; all three quotients share one division.
struct situ {
  struct Fraction {
    float numerator, denominator;
  };
  /// bound tanh(x / bound) for a constant bound. The coefficients take up its powers, unless those leave the range.
  static MOEGEN_DEVICE Fraction bounded_tanh(float x, float bound) {
    const bool in_coefficients = bound >= 0x1p-10f && bound <= 0x1p14f;
    const float unit = in_coefficients ? 1.0f : bound, rest = in_coefficients ? 1.0f / bound : 1.0f;
    const float c1 = rest * rest, c2 = c1 * c1, c3 = c2 * c1;
    const float y = math::clamp(x * (1.0f / unit), -7.0f / rest, 7.0f / rest), s = y * y;
    float numerator = c3 * 3.99593546e-6f;
    numerator = math::fma(numerator, s, c2 * 0.00229310477f);
    numerator = math::fma(numerator, s, c1 * 0.123220742f);
    numerator = math::fma(numerator, s, 0.999998987f);
    float denominator = c3 * 0.000143986079f;
    denominator = math::fma(denominator, s, c2 * 0.0211516917f);
    denominator = math::fma(denominator, s, c1 * 0.456546336f);
    denominator = math::fma(denominator, s, 1.0f);
    return {unit * y * numerator, denominator};
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    const Fraction first = bounded_tanh(gate, P::beta()), second = bounded_tanh(up, P::linear_beta());
    const float both = first.denominator * second.denominator;
    const float denominator = math::fma(both, approx::exp2(-kLog2E * gate), both);
    return first.numerator * second.numerator * approx::reciprocal(denominator);
  }
};

/// x; gated, the product.
struct identity {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    return x;
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return gate * up;
  }
};

}  // namespace kinds

/// Limit of a row: of its expert where limits come at launch, else the layer's; 0 without one. `limits` is indexed by
/// local expert; rows of expert -1 have none, so that no expert's limit changes them.
template <class P>
MOEGEN_DEVICE float activation_limit(const float* limits, int32_t expert) {
  if constexpr (P::limit_per_expert)
    return expert < 0 ? bits_float(0x7F800000u) : limits[expert];
  else if constexpr (P::activation_limited)
    return P::limit();
  else
    return 0.0f;
}

/// The activation of one gate and one up value; with `activation_limited` the gate is clamped from above and up from
/// both sides first.
template <class P>
MOEGEN_DEVICE float activate(float gate, float up, float limit) {
  static_assert(P::activation_gated);
  if constexpr (P::activation_limited)
    return P::activation_kind::template gated<P>(math::min(gate, limit), math::clamp(up, -limit, limit));
  else
    return P::activation_kind::template gated<P>(gate, up);
}

/// The activation of a value where there is no gate.
template <class P>
MOEGEN_DEVICE float activate(float value) {
  static_assert(!P::activation_gated);
  return P::activation_kind::template apply<P>(value);
}

}  // namespace moegen

// ---- core/shared_address.cuh -----------------------------------------------------------------------------
// Shared memory as asynchronous copies and tensor cores see it: by offset, in aligned tiles.


namespace moegen {

/// Where `pointer` is in the window of shared memory: what PTX and matrix descriptors take for an address.
MOEGEN_DEVICE uint32_t shared_address(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shared_address(pointer);
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#endif
}

/// The block's dynamic shared memory, 1024-byte aligned: the pattern of the widest swizzle repeats there.
MOEGEN_DEVICE unsigned char* dynamic_shared_tiles() {
  extern __shared__ __align__(1024) unsigned char moegen_dynamic_shared_tiles[];
  return moegen_dynamic_shared_tiles;
}

}  // namespace moegen

// ---- core/bulk_copy.cuh ----------------------------------------------------------------------------------
// Bulk copies between global and shared memory, and the groups in which a thread waits for its stores. Addresses and
// sizes are multiples of 16 bytes. sm_90 up.


namespace moegen {

/// Orders what this thread wrote to shared memory before the bulk and tensor copies and tensor core reads that follow.
/// Nothing on archs without them.
MOEGEN_DEVICE void fence_proxy_async() {
#ifdef MOEGEN_TARGET_CPU
  cpu::fence_proxy_async();
#elif __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Copies `bytes` from global to shared memory; they count on `barrier` when they are there.
MOEGEN_DEVICE void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_load(shared, global, bytes, barrier);
#else
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}

/// Copies `bytes` from shared to global memory, in the thread's open bulk group.
MOEGEN_DEVICE void bulk_store(void* global, const void* shared, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_store(global, shared, bytes);
#else
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
#endif
}

/// Closes the thread's bulk group and opens the next.
MOEGEN_DEVICE void bulk_commit() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_commit();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `Pending` of the thread's bulk groups are still to be written.
template <uint32_t Pending>
MOEGEN_DEVICE void bulk_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_wait(Pending, 0);
#else
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Waits until at most `Pending` of the thread's bulk groups are still to be read from shared memory.
template <uint32_t Pending>
MOEGEN_DEVICE void bulk_wait_read() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_wait(Pending, 1);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace moegen

// ---- core/thread.cuh -------------------------------------------------------------------------------------
// Where a thread is: in its warp, block, cluster and grid.


namespace moegen {

enum : uint32_t { kWarpSize = 32, kFullMask = 0xFFFFFFFFu };

MOEGEN_DEVICE uint32_t thread_index() { return threadIdx.x; }
MOEGEN_DEVICE uint32_t block_index() { return blockIdx.x; }
MOEGEN_DEVICE uint32_t num_blocks() { return gridDim.x; }
MOEGEN_DEVICE uint32_t lane_index() { return threadIdx.x % kWarpSize; }
MOEGEN_DEVICE uint32_t warp_index() { return threadIdx.x / kWarpSize; }

}  // namespace moegen

// ---- core/warp.cuh ---------------------------------------------------------------------------------------
// Warp-wide exchange. Every lane of the warp that exists and has not ended must take part; the others add nothing, and
// their values must not be asked for.


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

// ---- core/narrow.cuh -------------------------------------------------------------------------------------
// float <-> floats of 8 bits and fewer, by the hardware's rules: to nearest even, too large to the largest, NaN to the
// canonical NaN. Where an arch has no instruction for it, the same bits are computed.


namespace moegen {

/// Storage of narrow floats, by their torch names. Two float4_e2m1fn share a byte, the first in the low half.
struct float8_e4m3fn {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};
struct float8_e8m0fnu {
  uint8_t bits;
};

/// The bits of `value` as a float of `Mantissa` explicit bits and exponent bias `Bias`: the nearest, to even; `Largest`
/// where the magnitude is greater; `Nan` for NaN. The sign goes to bit `Sign`.
template <uint32_t Mantissa, uint32_t Bias, uint32_t Largest, uint32_t Nan, uint32_t Sign>
MOEGEN_DEVICE uint32_t round_to_narrow(float value) {
  constexpr uint32_t kShift = 23 - Mantissa;
  const uint32_t magnitude = float_bits(value) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return Nan;
  uint32_t rounded;
  if (magnitude < (128 - Bias) << 23) {  // subnormal: its lowest bit is that of this float
    constexpr uint32_t kUnit = (128 - Bias + kShift) << 23;
    rounded = float_bits(bits_float(magnitude) + bits_float(kUnit)) - kUnit;
  } else {
    const uint32_t rebiased = magnitude - ((127 - Bias) << 23);
    rounded = (rebiased + (1u << (kShift - 1)) - 1 + (rebiased >> kShift & 1)) >> kShift;
  }
  return min_of(rounded, Largest) | float_bits(value) >> 31 << Sign;
}

/// The value of `Mantissa` explicit bits and exponent bias `Bias` in the low bits of `magnitude`, all finite.
template <uint32_t Mantissa, uint32_t Bias>
MOEGEN_DEVICE float widen(uint32_t magnitude) {
  return bits_float(magnitude << (23 - Mantissa)) * bits_float((254 - Bias) << 23);
}

/// `low` in bits 0..7, `high` in 8..15; beyond 448 becomes 448, NaN 0x7F.
MOEGEN_DEVICE uint32_t pack_e4m3(float low, float high) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return round_to_narrow<3, 7, 0x7E, 0x7F, 7>(low) | round_to_narrow<3, 7, 0x7E, 0x7F, 7>(high) << 8;
#endif
}

/// `low` in bits 0..7, `high` in 8..15; beyond 57344 becomes 57344, infinity too, NaN 0x7F.
MOEGEN_DEVICE uint32_t pack_e5m2(float low, float high) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return round_to_narrow<2, 15, 0x7B, 0x7F, 7>(low) | round_to_narrow<2, 15, 0x7B, 0x7F, 7>(high) << 8;
#endif
}

/// `low` in bits 0..3, `high` in 4..7; beyond 6 becomes 6, NaN +6.
MOEGEN_DEVICE uint32_t pack_e2m1(float low, float high) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 1000
  uint32_t pair;
  asm("{\n"
      ".reg .b8 pair;\n"
      "cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2;\n"
      "mov.b32 %0, {pair, 0, 0, 0};\n"
      "}"
      : "=r"(pair)
      : "f"(high), "f"(low));
  return pair;
#else
  return round_to_narrow<1, 1, 7, 7, 3>(low) | round_to_narrow<1, 1, 7, 7, 3>(high) << 4;
#endif
}

/// The bits of the smallest power of two that is at least |value|, 2^-127 .. 2^127; NaN 0xFF.
MOEGEN_DEVICE uint32_t round_up_to_e8m0(float value) {
  const uint32_t magnitude = float_bits(value) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0xFF;
  const uint32_t above = (magnitude & 0x7FFFFFu) != 0 && magnitude > 0x400000u ? 1 : 0;  // 0x400000: 2^-127
  return min_of((magnitude >> 23) + above, 0xFEu);
}

/// `low` in bits 0..7, `high` in 8..15, each rounded up to a power of two; signs are dropped.
MOEGEN_DEVICE uint32_t pack_e8m0_up(float low, float high) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 1000
  uint16_t pair;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return round_up_to_e8m0(low) | round_up_to_e8m0(high) << 8;
#endif
}

/// Two floats, from the low and the high part of a pair.
struct FloatPair {
  float low, high;
};

#ifndef MOEGEN_TARGET_CPU
/// The floats of two packed float16.
MOEGEN_DEVICE FloatPair unpack_float16(uint32_t pair) {
  FloatPair result;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high;\n"
      "}"
      : "=f"(result.low), "=f"(result.high)
      : "r"(pair));
  return result;
}
#endif

MOEGEN_DEVICE float to_float(float8_e4m3fn value) {
  const uint32_t magnitude = value.bits & 0x7Fu, sign = static_cast<uint32_t>(value.bits >> 7) << 31;
  if (magnitude == 0x7F) return bits_float(0x7FFFFFFFu);
  return bits_float(float_bits(widen<3, 7>(magnitude)) | sign);
}

MOEGEN_DEVICE float to_float(float8_e5m2 value) {
  const uint32_t magnitude = value.bits & 0x7Fu, sign = static_cast<uint32_t>(value.bits >> 7) << 31;
  if (magnitude > 0x7C) return bits_float(0x7FFFFFFFu);
  if (magnitude == 0x7C) return bits_float(0x7F800000u | sign);
  return bits_float(float_bits(widen<2, 15>(magnitude)) | sign);
}

/// 2^(bits - 127); NaN for 0xFF.
MOEGEN_DEVICE float to_float(float8_e8m0fnu value) {
  if (value.bits == 0xFF) return bits_float(0x7FFFFFFFu);
  return bits_float(value.bits == 0 ? 0x400000u : static_cast<uint32_t>(value.bits) << 23);
}

/// Bits 0..7 and 8..15 of `pair`.
MOEGEN_DEVICE FloatPair unpack_e4m3(uint32_t pair) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  return unpack_float16(halves);
#else
  return {to_float(float8_e4m3fn{static_cast<uint8_t>(pair)}),
          to_float(float8_e4m3fn{static_cast<uint8_t>(pair >> 8)})};
#endif
}

/// Bits 0..7 and 8..15 of `pair`.
MOEGEN_DEVICE FloatPair unpack_e5m2(uint32_t pair) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  return unpack_float16(halves);
#else
  return {to_float(float8_e5m2{static_cast<uint8_t>(pair)}), to_float(float8_e5m2{static_cast<uint8_t>(pair >> 8)})};
#endif
}

/// Bits 0..3 and 4..7 of `pair`.
MOEGEN_DEVICE FloatPair unpack_e2m1(uint32_t pair) {
#if !defined(MOEGEN_TARGET_CPU) && __CUDA_ARCH__ >= 1000
  uint32_t halves;
  asm("{\n"
      ".reg .b8 pair, rest;\n"
      "mov.b16 {pair, rest}, %1;\n"
      "cvt.rn.f16x2.e2m1x2 %0, pair;\n"
      "}"
      : "=r"(halves)
      : "h"(static_cast<uint16_t>(pair & 0xFF)));
  return unpack_float16(halves);
#else
  return {bits_float(float_bits(widen<1, 1>(pair & 7)) | (pair & 8) << 28),
          bits_float(float_bits(widen<1, 1>(pair >> 4 & 7)) | (pair >> 4 & 8) << 28)};
#endif
}

}  // namespace moegen

// ---- core/wgmma.cuh --------------------------------------------------------------------------------------
// The asynchronous matrix product of a warpgroup (128 threads, aligned to 128 in the block): d += a * b, 64 x N floats
// over 32 bytes of K, a from shared memory or registers, b from shared memory. sm_90a only.
//
// Wgmma<Element, N> has a body only for the shapes that a kernel uses: the instruction names each of its N / 2
// accumulators, so its text is written by the generator (generator/wgmma.cpp). Thread t of the warpgroup holds row
// 16 * (t / 32) + t % 32 / 4 + 8 * i, column 8 * j + 2 * (t % 4) + k in d[4 * j + 2 * i + k].
//
// Order: wgmma_fence, products, wgmma_commit, wgmma_wait; d is not touched in between. Shared memory written by threads
// is fenced before (fence_proxy_async) and not overwritten until the wait is over.


namespace moegen {

template <class Element, uint32_t N>
struct Wgmma;

/// How 16-byte pieces are permuted in a tile: in spans of so many bytes, repeating after eight.
enum class Swizzle : uint32_t { none = 0, span_128 = 1, span_64 = 2, span_32 = 3 };

/// Descriptor of a matrix in shared memory at `tile`. Strides are in bytes, multiples of 16.
/// K contiguous: rows of 8 x `span` bytes are a unit; `stride` leads to the next 8 rows; `leading` leads to the next 16
/// bytes of K without a swizzle and is unused with one. M or N contiguous (16-bit elements only): a unit is 8 of K by
/// `span` bytes; with a swizzle `stride` leads to the next 8 of K, `leading` to the next span; without one the other
/// way. The tile is aligned to 8 spans; to go on in K inside a span, add to the address (advance_descriptor).
MOEGEN_DEVICE uint64_t matrix_descriptor(const void* tile, Swizzle swizzle, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((shared_address(tile) & 0x3FFFFu) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

/// The same matrix `bytes` further.
MOEGEN_DEVICE uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

/// Orders register accesses before the products that follow: needed before the first, and after d was touched.
MOEGEN_DEVICE void wgmma_fence() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_fence();
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Closes the warpgroup's group of products.
MOEGEN_DEVICE void wgmma_commit() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_commit();
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until at most `Pending` groups are incomplete.
template <uint32_t Pending>
MOEGEN_DEVICE void wgmma_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_wait(Pending);
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace moegen

// ---- core/mbarrier.cuh -----------------------------------------------------------------------------------
// mbarriers: a 64-bit word of shared memory that counts the arrivals of threads and the bytes of asynchronous copies.
// A phase completes when as many have arrived as the barrier was made for and all expected bytes are there; the next
// begins at once. A waiter names a phase by its parity, 0 for the first. sm_90 up.


namespace moegen {

/// Makes a barrier for `count` arrivals a phase, 1 .. 2^20 - 1. One thread does it; mbarrier_fence_init and a barrier
/// of the block (or of the cluster, if others arrive) come before any use.
MOEGEN_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t count) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_init(barrier, count);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
#endif
}

/// Ends a barrier, so that its memory may be used for something else.
MOEGEN_DEVICE void mbarrier_invalidate(uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_invalidate(barrier);
#else
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// Shows this thread's mbarrier_init to the cluster and to asynchronous copies.
MOEGEN_DEVICE void mbarrier_fence_init() {
#ifdef MOEGEN_TARGET_CPU
  // The model has one view of shared memory.
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// Arrives once; what this thread did is seen by those who wait for the phase.
MOEGEN_DEVICE void mbarrier_arrive(uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(barrier, 1, 0);
#else
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// Arrives once, after adding `bytes` to those that asynchronous copies must bring in this phase.
MOEGEN_DEVICE void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(barrier, 1, bytes);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// Adds `bytes` to those that asynchronous copies must bring in this phase.
MOEGEN_DEVICE void mbarrier_expect(uint64_t* barrier, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_expect(barrier, bytes);
#else
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// Arrives once at the barrier that block `rank` of the cluster has where this block has `barrier`.
MOEGEN_DEVICE void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(static_cast<uint64_t*>(cpu::map_cluster_shared(barrier, rank)), 1, 0);
#else
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

/// The same with the order of a block's own arrivals only: enough where the arrival says that reads are over, as a
/// consumer's does. The release of mbarrier_arrive_cluster made a pipeline over two blocks 1.3 to 1.8 times as slow on
/// an H200, as if it were a fence at every stage.
MOEGEN_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(static_cast<uint64_t*>(cpu::map_cluster_shared(barrier, rank)), 1, 0);
#else
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

/// True if the phase of parity `parity` has completed; what was done before it can then be read. Never waits.
MOEGEN_DEVICE bool mbarrier_test(uint64_t* barrier, uint32_t parity) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::mbarrier_test(barrier, parity);
#else
  uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
#endif
}

/// Waits until the phase of parity `parity` has completed; what was done before it can then be read.
MOEGEN_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_wait(barrier, parity);
#else
  uint32_t complete;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (complete == 0);
#endif
}

}  // namespace moegen

// ---- core/shared.cuh -------------------------------------------------------------------------------------
// Shared memory and the barrier of a block.


namespace moegen {

/// All threads of the block have arrived, and what they wrote to shared and global memory is visible to each other.
MOEGEN_DEVICE void block_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(0);
#else
  asm volatile("bar.sync 0;" ::: "memory");
#endif
}

/// The block's dynamic shared memory, 16-byte aligned.
MOEGEN_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char moegen_dynamic_shared[];
  return moegen_dynamic_shared;
}

/// Adds `value` to a word of shared memory; block scope, no ordering.
MOEGEN_DEVICE void shared_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  cpu::shared_add(word, value);
#else
  asm volatile(
      "red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(word))),
      "r"(value)
      : "memory");
#endif
}

}  // namespace moegen

// ---- core/tensor_map.h -----------------------------------------------------------------------------------
// TensorMap: how a tensor lies in global memory, for tensor copies; part of the argument structs of kernels that use
// them. The host fills it (runtime/tensor_map.hpp).


namespace moegen {

/// 128 bytes that only tensor copies look into: CUtensorMap on GPUs. Kernels take it inside a __grid_constant__ struct.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace moegen

// ---- grouped_matmul/args.h -------------------------------------------------------------------------------
// Arguments of grouped_matmul, shared by host and device: what a caller fills (Args), and what a kernel with tensor
// copies takes (TensorArgs: the same, with the maps that the launcher encodes from it).



namespace moegen::grouped_matmul {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };
/// Box heights of the token maps: 8, 16, 32, 64, 128 rows, and one as high as a whole tile's share.
enum : int { kMaxTokenBoxes = 6 };

/// c[r, n] = epilogue(sum_k a[r, k] * b[e(g), n, k]) for rows r in [a_offsets[g], a_offsets[g + 1]), e(g) =
/// expert_ids[g]. Rows of c in no group, and all memory around c, are left as they are.
///
/// Names: R = num_rows, G = num_groups, E = num_groups of the config (<moegen/shapes.hpp>: local experts, then shared
/// slots). K, N, C: the plan's decisions `depth`, `columns`, `output_columns`. "up": K = D, N = 2 * I if gated else I,
/// C = I where the plan says `fuse_activation`, else N. "down": K = I, N = C = D. (D = expert_hidden, I =
/// intermediate.) Row-major, last index innermost; every tensor of rows is dense and starts at a multiple of 16 bytes.
/// All pointers are device memory. Sizes on the host are upper bounds: the groups' rows are read on the device.
///
/// Sums, by scheme. none, tensor, rowwise: the tensor cores' sum over K, float8 with accumulate float32 promoted to
/// float32 every 128 of K; then sum * scale of a * scale of b, each product rounded. block128 and mxfp8, for every 128
/// or 32 of K in turn: sum = fma(fl32(scale of a * scale of b), the tensor cores' sum of these products, sum). The
/// product of two powers of two is exact from 2^-149 to 2^127, beyond it 0 or infinity; code 255 of float8_e8m0fnu is
/// NaN.
struct Args {
  enum : int { kFamily = 4 };  ///< Family::tag

  /// out [R, C] in the plan's `output_dtype`: dtypes.activation (up), finalize.down (down), or float8_e4m3fn where the
  /// plan says `fuse_quantize`.
  void* c;
  /// out scales of a quantised c: block128: quantization.scale [R, ceil(C / 128)], or [ceil(C / 128), c_scales_stride]
  /// with scale_layout column; mxfp8: float8_e8m0fnu [R, ceil(C / 32)]. Null unless the plan says `fuse_quantize`.
  void* c_scales;
  /// in [R, K]; with `gather_a` [T, K]: row r is row order[r] / slots of it. bfloat16 or float16 (scheme none), else
  /// float8_e4m3fn.
  const void* a;
  /// in [E, N, K], the dtype of a. Gated: gate and up as two halves of N or interleaved, as activation.gate_layout
  /// says.
  const void* b;
  /// in scales of a. tensor: float32 [1]; rowwise: float32 [R]; block128: quantization.scale [R, ceil(K / 128)], or
  /// [ceil(K / 128), a_scales_stride] with scale_layout column; mxfp8: float8_e8m0fnu [R, ceil(K / 32)]. With
  /// `gather_a` indexed as a is. Null with scheme none.
  const void* a_scales;
  /// in scales of b. tensor: float32 [1]; rowwise: float32 [E, N]; block128: quantization.scale
  /// [E, ceil(N / 128), ceil(K / 128)]; mxfp8: float8_e8m0fnu [E, N, ceil(K / 32)]. Null with scheme none. Rowwise
  /// scales, 4-byte ones of block128 and those of mxfp8 start at a multiple of 16 bytes, as do those of a.
  const void* b_scales;
  /// in [G + 1], ascending, a_offsets[G] <= R. Any start, no alignment; empty groups cost nothing.
  const uint32_t* a_offsets;
  /// in [G], each in [0, E) or -1: then the group's rows get the epilogue of 0. May repeat, in any order.
  const int32_t* expert_ids;
  /// in [E, N] dtypes.activation; only with experts.bias. A group of expert -1 has none.
  const void* bias;
  /// in [E] float32; only with activation.limit_per_expert, where the plan says `fuse_activation`.
  const float* limits;
  /// in [R] pair indices as create_indices writes them (0xFFFFFFFF: a row of zeros); only where the plan says
  /// `gather_a`.
  const uint32_t* order;
  /// in named inputs of experts.up_epilogue or down_epilogue, in the order of their names. Shapes: scalar [1], rows
  /// [R], columns [C], experts [E], rows_columns [R, C], experts_columns [E, C]. Those by expert read index 0 for
  /// expert -1.
  const void* inputs[kMaxInputs];
  int64_t num_rows;    ///< R, an upper bound of a_offsets[G]; 0 launches nothing
  int64_t num_groups;  ///< G, length of expert_ids; 0 launches nothing
  /// Elements between two blocks of K in a_scales of scale_layout column; at least its rows, a multiple of 16 bytes.
  /// 0: num_rows rounded up to 16 bytes. Ignored otherwise.
  int64_t a_scales_stride;
  int64_t c_scales_stride;  ///< the same for c_scales
  /// Hints that only choose among equal plans; -1: unknown. Never needed for correctness, and never wrong results.
  int64_t max_num_tokens_per_expert;
  int64_t num_active_experts;
};

/// What kernels that use tensor copies take. The launcher fills it at each launch; nothing of it is kept.
struct TensorArgs {
  Args args;
  TensorMap weights;                 ///< b as [E, N, K]
  TensorMap tokens[kMaxTokenBoxes];  ///< a as [R, K], by height of the box; not with gathered rows
  TensorMap stores;                  ///< c as [R, bytes of C]; only for tiles with tensor stores
};

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/tile.cuh -----------------------------------------------------------------------------
// grouped_matmul, scheduler: which tile a block multiplies next, found on the device from the groups' offsets.
//
// Order of tiles: the groups in turn; in a group slabs of `raster` units of columns; in a slab the tiles of tokens; for
// each the units of the slab. A unit is what one cluster multiplies at once, so its blocks share their tokens. Clusters
// take the tiles of that order in turn, `joined_tiles` neighbours at a time (or as they are dealt, deal.cuh). Empty
// groups have no tile.
//
// Where tiles are taken in turn a warp walks together: each lane knows the last token tile of `groups_per_lane`
// neighbouring groups, so that a ballot finds the lane, and a second one the group, however many groups there are.


namespace moegen::grouped_matmul {

/// What all roles must know of a tile.
struct alignas(16) Tile {
  uint32_t row;    // first row of a and c
  uint32_t rows;   // 1 .. max_tokens; 0 ends the work
  uint32_t unit;   // of columns; the block's own, not its cluster's
  int32_t expert;  // -1: none, the products are 0
};

/// Rows of one group, and how they are cut into tiles.
struct Group {
  uint32_t row, rows;
};

/// Token tiles of a group of `rows` rows.
template <class T>
MOEGEN_DEVICE uint32_t count_tiles(uint32_t rows) {
  return ceil_div<uint32_t>(rows, T::max_tokens);
}

/// How a group is cut: `tiles` of `step` rows, the last of those that are left.
struct Cut {
  uint32_t tiles, step;
};

/// Few tiles are made equal: a narrow last one would be bound by its weights' way through L2, not by the tensor cores.
template <class T>
MOEGEN_DEVICE Cut cut(uint32_t rows) {
  const uint32_t tiles = count_tiles<T>(rows);
  if (tiles > T::even_tiles || tiles == 0) return {tiles, T::max_tokens};
  return {tiles, round_up<uint32_t>(ceil_div(rows, tiles), T::token_step)};
}

/// Units of columns of every group.
template <class P, class T>
constexpr uint32_t kUnits = ceil_div<uint32_t>(P::output_columns, T::tile_columns* T::cluster);

/// Rows of group `index`; none past the last group.
MOEGEN_DEVICE Group rows_of_group(const Args& args, uint32_t index) {
  if (index >= static_cast<uint32_t>(args.num_groups)) return {0, 0};
  const uint32_t row = args.a_offsets[index];
  return {row, args.a_offsets[index + 1] - row};
}

/// Division by the places of a slab, by a factor that is made once for a group: the scheduler divides for every tile of
/// all blocks (deal.cuh).
struct SlabDivisor {
  uint32_t places, factor;

  MOEGEN_DEVICE explicit SlabDivisor(uint32_t value) : places(value), factor(0xFFFFFFFFu / value) {}
  /// value / places; the remainder in `value`. The factor is rounded down, so that the first quotient may be 1 too
  /// small.
  MOEGEN_DEVICE uint32_t divide(uint32_t& value) const {
    auto quotient = static_cast<uint32_t>(uint64_t{value} * factor >> 32);
    value -= quotient * places;
    if (value >= places) ++quotient, value -= places;
    return quotient;
  }
};

/// Token tile and unit at place `place` of a group.
struct GroupPlace {
  uint32_t tile, unit;
};
template <class P, class T>
MOEGEN_DEVICE GroupPlace group_place(uint32_t place, const SlabDivisor& slabs) {
  constexpr uint32_t kLast = kUnits<P, T> % T::raster;  // width of the last slab, if it is narrower
  const uint32_t slab = slabs.divide(place), unit = slab * T::raster;
  if (kLast != 0 && slab == kUnits<P, T> / T::raster)
    return {place / max_of<uint32_t>(kLast, 1), unit + place % max_of<uint32_t>(kLast, 1)};
  return {place / T::raster, unit + place % T::raster};
}

/// The tile of `group`, whose number is `index`, at `place` in it, for the block of rank `rank` in its cluster.
template <class T>
MOEGEN_DEVICE Tile tile_of(const Args& args, uint32_t index, const Group& group, uint32_t step, GroupPlace place,
                           uint32_t rank) {
  const uint32_t start = place.tile * step;
  return {group.row + start, min_of(group.rows - start, step), place.unit * T::cluster + rank, args.expert_ids[index]};
}

template <class P, class T>
class TileWalk {
 public:
  MOEGEN_DEVICE TileWalk(const Args& args, uint32_t rank)
      : args_(args),
        rank_(rank),
        next_(block_index() / T::cluster * T::joined_tiles),
        num_groups_(static_cast<uint32_t>(args.num_groups)) {
    load_window();
  }

  /// The next tile of this block's cluster; false at the end. All lanes of the warp call it together.
  MOEGEN_DEVICE bool next(Tile& tile) {
    while (next_ - before_ >= last(kWarpSize - 1) * kUnits<P, T>) {
      if (first_ + kWindow >= num_groups_) return false;
      before_ += last(kWarpSize - 1) * kUnits<P, T>;
      first_ += kWindow;
      load_window();
    }
    tile = find(next_ - before_);
    const bool last_joined = next_ % T::joined_tiles == T::joined_tiles - 1;
    next_ += last_joined ? (num_blocks() / T::cluster - 1) * T::joined_tiles + 1 : 1;
    return true;
  }

 private:
  enum : uint32_t { kWindow = kWarpSize * P::groups_per_lane };
  static_assert(T::joined_tiles == 1 ||
                    (T::cluster == 1 && kUnits<P, T> % T::joined_tiles == 0 && T::raster % T::joined_tiles == 0),
                "joined tiles are neighbours in the order of tiles");

  MOEGEN_DEVICE uint32_t last(uint32_t lane) const { return shuffle(lane_tiles_, lane); }

  /// Sum of `value` over this lane and those below.
  static MOEGEN_DEVICE uint32_t scan(uint32_t value) {
#pragma unroll
    for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) value += shuffle_up(value, delta, 0);
    return value;
  }

  MOEGEN_DEVICE void load_window() {
    uint32_t tiles = 0;
#pragma unroll 1  // all groups at once take registers that loaders of scales need
    for (uint32_t i = 0; i < P::groups_per_lane; ++i)
      tiles += count_tiles<T>(rows_of_group(args_, first_ + lane_index() * P::groups_per_lane + i).rows);
    lane_tiles_ = scan(tiles);
  }

  /// The group of token tile number `tile` of the window, its rows, and how many tiles of the window come before it.
  MOEGEN_DEVICE uint32_t find_group(uint32_t tile, Group& found, uint32_t& tiles_before) const {
    const uint32_t owner = popcount(ballot(lane_tiles_ <= tile));
    tiles_before = owner == 0 ? 0 : last(owner - 1);
    uint32_t index = first_ + owner * P::groups_per_lane;
    const Group mine = rows_of_group(args_, index + min_of<uint32_t>(lane_index(), P::groups_per_lane - 1));
    uint32_t inner = 0;
    if constexpr (P::groups_per_lane > 1) {
      const uint32_t ends = scan(lane_index() < P::groups_per_lane ? count_tiles<T>(mine.rows) : 0);
      inner = popcount(ballot(ends <= tile - tiles_before));
      if (inner > 0) tiles_before += shuffle(ends, inner - 1);
    }
    found = {shuffle(mine.row, inner), shuffle(mine.rows, inner)};
    return index + inner;
  }

  /// The tile at place `place` of the window.
  MOEGEN_DEVICE Tile find(uint32_t place) const {
    Group group;
    uint32_t tiles_before;
    const uint32_t index = find_group(place / kUnits<P, T>, group, tiles_before);
    const Cut rows = cut<T>(group.rows);
    const SlabDivisor slabs(T::raster * rows.tiles);
    const GroupPlace local = group_place<P, T>(place - tiles_before * kUnits<P, T>, slabs);
    return tile_of<T>(args_, index, group, rows.step, local, rank_);
  }

  const Args& args_;
  const uint32_t rank_;  // of this block in its cluster
  uint32_t next_;        // place of the cluster's next tile in the order of all tiles
  const uint32_t num_groups_;
  uint32_t first_ = 0;       // group at the window's start
  uint32_t before_ = 0;      // tiles before the window
  uint32_t lane_tiles_ = 0;  // token tiles of the window up to this lane's last group
};

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/pipeline.cuh -------------------------------------------------------------------------
// grouped_matmul, shared memory of a block and the ring of stages that its warps pass through.
//
// Shared memory, in this order:
//   tiles    [stages] of weight_rows x 128 bytes of b, then max_tokens x 128 bytes of a, 128-byte swizzle
//   staging  [warpgroups] of the rows of c on their way out
//   scales   [stages] block128 only: a factor for each token (gate's and up's apart), or with tokens on M and several
//            scales of weights a scale for each token, then those of the weights; mxfp8: MxScales of mx_scales.cuh
//   tiles'   [stages] Tile, valid in the stage with which a tile begins
//   full, empty [stages] barriers
//   notes    [multiplying warps] with tokens on M: the warp's Tile, until its sum is done
//   queue    [kQueuePlaces] Deal, where tiles are dealt (deal.cuh): those that this block has not begun
//   rows     [32] words of the warp that deals: rows of the groups that follow
//   free_at  [kDealTimes] lists of kMostWorkers bytes, of the same warp
//   dealt, taken [kQueuePlaces] barriers
//
// full[s]:  1 arrival of the loading thread with the bytes of its copies, 1 of each warp that brings scales, 1 of the
//           copies of each thread that gathers tokens.
// empty[s]: 1 arrival of each multiplying warp of every block of the cluster.
// dealt[q]: 1 arrival of the warp that deals. taken[q]: 1 of each warp that loads.
// Loaders wait for empty with the opposite parity, so that their first round through the ring waits for nothing.


namespace moegen::grouped_matmul {

enum : uint32_t {
  kSliceBytes = 128,  // of K in a stage: the widest swizzle
  kWarpgroupThreads = 128,
  kWarpgroupRows = 64,  // of one wgmma
  kQueuePlaces = 4,     // deals that wait for a warp that loads
  kMostWorkers = 160,   // clusters that tiles are dealt to: sm_90a has up to 132 multiprocessors
  kDealTimes = 8,       // for which the warp that deals keeps a list of clusters
};

/// A stage, and the parity of the round through all stages.
template <class T>
struct Ring {
  uint32_t stage = 0, parity = 0;
  MOEGEN_DEVICE void next() {
    stage = stage + 1 == T::stages ? 0 : stage + 1;
    parity ^= stage == 0 ? 1 : 0;
  }
};

/// Tiles that a block is to multiply: `joined_tiles` units of columns, from `unit` on (of the cluster's, which blocks
/// of one share), of a token tile of a group. No rows a tile: the end.
struct alignas(16) Deal {
  uint32_t group, tile, unit, step;  // step: rows of the group's tiles but the last
};

/// A place of the queue of deals, and the parity of the round through all of them.
struct QueueRing {
  uint32_t turn = 0;
  MOEGEN_DEVICE uint32_t place() const { return turn % kQueuePlaces; }
  MOEGEN_DEVICE uint32_t parity() const { return turn / kQueuePlaces % 2; }
  MOEGEN_DEVICE void next() { ++turn; }
};

/// Stages of a tile without an expert, with nothing in them: all of them where tiles begin at stage 0.
template <class T>
constexpr uint32_t kEmptySlices = T::aligned ? T::stages : 1;

/// Arrivals at a full stage.
template <class P, class T>
MOEGEN_DEVICE constexpr uint32_t count_loaders() {
  if constexpr (P::gather_a)
    return 1 + T::scale_warps + T::gather_warps * kWarpSize;
  else
    return 1 + T::scale_warps;
}

template <class P, class T>
struct Layout {
  enum : uint32_t {
    weight_bytes = T::weight_rows * kSliceBytes,
    stage_bytes = weight_bytes + T::max_tokens * kSliceBytes,
    scale_bytes = P::block_scales || P::mx_scales ? T::scale_floats * 4 : 0,
    staging = T::stages * stage_bytes,
    scales = staging + T::warpgroups * T::staging_bytes,
    infos = scales + T::stages * scale_bytes,
    full = infos + T::stages * sizeof(Tile),
    empty = full + T::stages * 8,
    notes = empty + T::stages * 8,
    queue = notes + (T::tokens_on_m ? T::warpgroups * kWarpgroupThreads / kWarpSize * sizeof(Tile) : 0),
    group_rows = queue + (T::dealt ? kQueuePlaces * sizeof(Deal) : 0),
    free_at = group_rows + (T::dealt ? kWarpSize * 4 : 0),
    dealt = free_at + (T::dealt ? kDealTimes * kMostWorkers : 0),
    taken = dealt + (T::dealt ? kQueuePlaces * 8 : 0),
    total = taken + (T::dealt ? kQueuePlaces * 8 : 0),
  };
};

/// The block's shared memory by its parts.
template <class P, class T>
struct Shared {
  using L = Layout<P, T>;
  unsigned char* base;

  MOEGEN_DEVICE unsigned char* weights(uint32_t stage) const { return base + stage * L::stage_bytes; }
  MOEGEN_DEVICE unsigned char* tokens(uint32_t stage) const { return weights(stage) + L::weight_bytes; }
  MOEGEN_DEVICE unsigned char* staging(uint32_t warpgroup) const {
    return base + L::staging + warpgroup * T::staging_bytes;
  }
  MOEGEN_DEVICE float* scales(uint32_t stage) const {
    return reinterpret_cast<float*>(base + L::scales + stage * L::scale_bytes);
  }
  MOEGEN_DEVICE Tile& tile(uint32_t stage) const { return reinterpret_cast<Tile*>(base + L::infos)[stage]; }
  /// This multiplying warp's.
  MOEGEN_DEVICE Tile& note() const {
    return reinterpret_cast<Tile*>(base + L::notes)[warp_index() - kWarpgroupThreads / kWarpSize];
  }
  MOEGEN_DEVICE Deal& deal(uint32_t place) const { return reinterpret_cast<Deal*>(base + L::queue)[place]; }
  MOEGEN_DEVICE uint32_t* group_rows() const { return reinterpret_cast<uint32_t*>(base + L::group_rows); }
  MOEGEN_DEVICE unsigned char* free_at() const { return base + L::free_at; }
  MOEGEN_DEVICE uint64_t* dealt(uint32_t place) const { return reinterpret_cast<uint64_t*>(base + L::dealt) + place; }
  MOEGEN_DEVICE uint64_t* taken(uint32_t place) const { return reinterpret_cast<uint64_t*>(base + L::taken) + place; }
  MOEGEN_DEVICE uint64_t* full(uint32_t stage) const { return reinterpret_cast<uint64_t*>(base + L::full) + stage; }
  MOEGEN_DEVICE uint64_t* empty(uint32_t stage) const { return reinterpret_cast<uint64_t*>(base + L::empty) + stage; }
};

/// Makes the barriers; a barrier of the block or cluster must follow.
template <class P, class T>
MOEGEN_DEVICE void init_barriers(const Shared<P, T>& shared) {
  if (thread_index() != 0) return;
  for (uint32_t stage = 0; stage < T::stages; ++stage) {
    mbarrier_init(shared.full(stage), count_loaders<P, T>());
    mbarrier_init(shared.empty(stage), T::warpgroups * kWarpgroupThreads / kWarpSize * T::cluster);
  }
  if constexpr (T::dealt) {
    for (uint32_t place = 0; place < kQueuePlaces; ++place) {
      mbarrier_init(shared.dealt(place), 1);
      mbarrier_init(shared.taken(place), 1 + T::scale_warps);
    }
  }
  mbarrier_fence_init();
}

/// Gives a stage back to the loaders, as far as this warp goes.
template <class P, class T>
MOEGEN_DEVICE void release_stage(const Shared<P, T>& shared, uint32_t stage) {
  if constexpr (T::cluster == 1) {
    if (lane_index() == 0) mbarrier_arrive(shared.empty(stage));
  } else {
    if (lane_index() < T::cluster) mbarrier_arrive_remote(shared.empty(stage), lane_index());
  }
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/multiply.cuh -------------------------------------------------------------------------
// grouped_matmul, consumers: the sum over K of one tile in a warpgroup's registers. M of the tensor cores' product is
// 64 rows of weights or of tokens, N the other of the two.
//
// The order of K, the interval of promotion (128 of K) and the order of scalings are those of the contract, the same
// for every shape of tile: plans of one kernel agree to the bit.


namespace moegen::grouped_matmul {

/// Ends reads and writes of `d` that come before, begins those that come after: a wait alone does not order registers.
template <uint32_t Count>
MOEGEN_DEVICE void hold(float (&d)[Count]) {
#ifndef MOEGEN_TARGET_CPU
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i])::"memory");
#endif
}

/// Accumulators that were never written would be alive from the kernel's first line, in all widths at once.
template <uint32_t Count>
MOEGEN_DEVICE void clear(float (&d)[Count]) {
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) d[i] = 0.0f;
}

/// The operands of a warpgroup in stage 0.
struct Operands {
  uint64_t a, b;
};

/// Descriptor of rows of 128 bytes, its variable half taken from one lane: then it is computed once and not moved to
/// the tensor cores' registers lane by lane for every product.
MOEGEN_DEVICE uint64_t uniform_descriptor(const unsigned char* tile) {
  const uint64_t descriptor = matrix_descriptor(tile, Swizzle::span_128, 0, 8 * kSliceBytes);
  return (descriptor & ~uint64_t{0xFFFFFFFF}) | shuffle(static_cast<uint32_t>(descriptor), 0);
}

template <class P, class T>
MOEGEN_DEVICE Operands operands(const Shared<P, T>& shared, uint32_t warpgroup) {
  const unsigned char* m = T::tokens_on_m ? shared.tokens(0) : shared.weights(0);
  const unsigned char* n = T::tokens_on_m ? shared.weights(0) : shared.tokens(0);
  return {uniform_descriptor(m + warpgroup * kWarpgroupRows * kSliceBytes), uniform_descriptor(n)};
}

/// Where a stage lies after stage 0. With tokens on M the compiler sees no uniform stage unless it is constant, and
/// would move each descriptor to the tensor cores' registers by itself, 12 to 16 moves a stage.
template <class P, class T>
MOEGEN_DEVICE uint32_t stage_offset(uint32_t stage) {
  const uint32_t offset = stage * Layout<P, T>::stage_bytes;
  return T::tokens_on_m && !T::aligned ? shuffle(offset, 0) : offset;
}

/// Issues the products of one stage as a group.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void multiply_stage(const Operands& first, uint32_t stage, bool accumulate, float (&d)[N / 2]) {
  constexpr uint32_t kStepBytes = 32;  // of K, one instruction
  const uint32_t offset = stage_offset<P, T>(stage);
  if constexpr (P::gather_a) fence_proxy_async();  // tokens came through the generic proxy
  wgmma_fence();
#pragma unroll
  for (uint32_t step = 0; step < kSliceBytes / kStepBytes; ++step)
    Wgmma<typename P::element_dtype, N>::multiply(d, advance_descriptor(first.a, offset + step * kStepBytes),
                                                  advance_descriptor(first.b, offset + step * kStepBytes),
                                                  accumulate || step > 0);
  wgmma_commit();
}

/// The operands `columns` columns further.
MOEGEN_DEVICE Operands next_columns(const Operands& first, uint32_t columns) {
  return {first.a, advance_descriptor(first.b, columns * kSliceBytes)};
}

/// The products of one stage alone, complete; `meanwhile` runs beside them. A sum of more columns than `part` holds
/// takes them one after the other: all at once would not leave registers for the sum.
template <class P, class T, uint32_t Columns, class Meanwhile>
MOEGEN_DEVICE void multiply_part(const Operands& first, uint32_t stage, float (&part)[Columns / 2],
                                 Meanwhile&& meanwhile) {
  multiply_stage<P, T, Columns>(first, stage, false, part);
  meanwhile();
  wgmma_wait<0>();
  hold(part);
}
template <class P, class T, uint32_t Columns>
MOEGEN_DEVICE void multiply_part(const Operands& first, uint32_t stage, float (&part)[Columns / 2]) {
  multiply_part<P, T, Columns>(first, stage, part, [] {});
}

/// work(0), work(1), ...: what a pragma unrolls in one kernel it leaves as a loop in another.
template <uint32_t Count, uint32_t First = 0, class Work>
MOEGEN_DEVICE void for_stages(Work&& work) {
  work(First);
  if constexpr (First + 1 < Count) for_stages<Count, First + 1>(work);
}

/// Goes through the slices of a tile: multiply(stage) when the stage is there, then add(stage) while the next one may
/// already be looked for. Where the stages divide the slices a tile begins at stage 0, and the loop is unrolled over
/// them, so that addresses are constants: 5 to 10 % of promoted sums in the prototype.
template <class P, class T, class Multiply, class Add>
MOEGEN_DEVICE void for_slices(const Shared<P, T>& shared, Ring<T>& ring, Multiply&& multiply, Add&& add) {
  if constexpr (T::aligned) {
    bool ready = true;  // the first was waited for when the tile was read
#pragma unroll 1        // few rounds unrolled, too, cost registers
    for (uint32_t round = 0; round < P::depth_blocks / T::stages; ++round) {
      for_stages<T::stages>([&](uint32_t stage) {
        if (!ready) mbarrier_wait(shared.full(stage), ring.parity);
        multiply(stage);
        const uint32_t next = stage + 1 == T::stages ? 0 : stage + 1;
        ready = mbarrier_test(shared.full(next), ring.parity ^ (next == 0 ? 1 : 0));
        add(stage);
      });
      ring.parity ^= 1;
    }
  } else {
#pragma unroll 1  // a few slices unrolled cost registers
    for (uint32_t block = 0; block < P::depth_blocks; ++block) {
      mbarrier_wait(shared.full(ring.stage), ring.parity);
      multiply(ring.stage);
      add(ring.stage);
      ring.next();
    }
  }
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/sum_in_place.cuh ---------------------------------------------------------------------
// grouped_matmul, scheme: the sum over K stays in the tensor cores' accumulators (16-bit elements; fp8 with accumulate
// "fast"). A stage is given back while the next one is multiplied, so that the tensor cores' queue is never empty.


namespace moegen::grouped_matmul {

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  const Operands first = operands(shared, warpgroup);
  uint32_t previous = 0;
#pragma unroll 1
  for (uint32_t block = 0; block < P::depth_blocks; ++block) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    multiply_stage<P, T, N>(first, ring.stage, block > 0, sum);
    wgmma_wait<1>();
    if (block > 0) release_stage(shared, previous);
    previous = ring.stage;
    ring.next();
  }
  wgmma_wait<0>();
  hold(sum);
  release_stage(shared, previous);
}

}  // namespace moegen::grouped_matmul

// ---- core/convert.cuh ------------------------------------------------------------------------------------
// float <-> storage types, by the hardware's rules: to nearest even, NaN to the canonical NaN.


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

// ---- grouped_matmul/finish.cuh ---------------------------------------------------------------------------
// grouped_matmul, epilogue: from a sum over K to a value of c. In order: scales, bias, activation, user expression, all
// on floats; then one rounding. `Custom` is what a config adds: activate(...) and epilogue(args, value, row, column,
// expert).


namespace moegen::grouped_matmul {

/// Row of b that column `column` of c comes from; `up`: its second one, where gate and up are multiplied together.
template <class P>
MOEGEN_DEVICE uint32_t weight_row(uint32_t column, bool up) {
  if constexpr (!P::gated) return column;
  if constexpr (P::halves) return up ? P::output_columns + column : column;
  return 2 * column + (up ? 1 : 0);
}

/// Row of b at row `row` of a tile with weights in groups of 8 rows of gate and the 8 of up that belong to them; past
/// the last: none.
template <class P, class T>
MOEGEN_DEVICE uint32_t tile_weight_row(const Tile& tile, uint32_t row) {
  const uint32_t first = tile.unit * T::tile_columns;
  if constexpr (!P::gated) return first + row < P::columns ? first + row : kNone;
  const uint32_t column = first + row / 16 * 8 + row % 8;
  return column < P::output_columns ? weight_row<P>(column, row / 8 % 2 == 1) : kNone;
}

/// What the columns of one row of b share. A tile without an expert has neither scale nor bias.
template <class P>
struct ColumnTerms {
  float scale = 1.0f, bias = 0.0f;
  MOEGEN_DEVICE void load(const Args& args, int32_t expert, uint32_t column, bool up) {
    if (expert < 0 || column >= P::output_columns) return;
    const uint64_t index = static_cast<uint64_t>(expert) * P::columns + weight_row<P>(column, up);
    if constexpr (P::rowwise) scale = static_cast<const float*>(args.b_scales)[index];
    if constexpr (P::tensor_scales) scale = *static_cast<const float*>(args.b_scales);
    if constexpr (P::bias) bias = to_float(static_cast<const typename P::bias_dtype*>(args.bias)[index]);
  }
};

/// Row of a of token `token` of the tile; kNone for one past its end, and for an unused place of the order.
template <class P>
MOEGEN_DEVICE uint32_t source_row(const Args& args, const Tile& tile, uint32_t token) {
  if (token >= tile.rows) return kNone;
  if constexpr (!P::gather_a) return tile.row + token;
  const uint32_t pair = args.order[tile.row + token];
  return pair == kNone ? kNone : pair / P::num_slots;
}

/// Scale of a row of a.
template <class P>
MOEGEN_DEVICE float token_scale(const Args& args, const Tile& tile, uint32_t token) {
  const uint32_t row = source_row<P>(args, tile, token);
  if (tile.expert < 0 || row == kNone) return 1.0f;
  if constexpr (P::rowwise) return static_cast<const float*>(args.a_scales)[row];
  if constexpr (P::tensor_scales) return *static_cast<const float*>(args.a_scales);
  return 1.0f;
}

/// Scales and bias of one sum. Products are rounded by themselves, so that all plans have the same bits.
template <class P>
MOEGEN_DEVICE float scaled(float sum, float token, const ColumnTerms<P>& terms) {
  if constexpr (P::rowwise || P::tensor_scales) sum = math::multiply(math::multiply(sum, token), terms.scale);
  if constexpr (P::bias) sum += terms.bias;
  return sum;
}

/// What is stored of token `token` of the tile at `column` of c, from one sum or from gate's and up's. Places outside
/// the tile have values that nobody stores; the user's expression is computed with the last place instead, since a
/// branch for each value would take half of the kernel's compile time.
template <class P, class Custom>
MOEGEN_DEVICE float finished(const Args& args, const Tile& tile, uint32_t token, uint32_t column, float value,
                             float up) {
  if constexpr (P::gated)
    value = Custom::activate(args, value, up, tile.expert);
  else if constexpr (P::fuse_activation)
    value = Custom::activate(value);
  if constexpr (P::epilogue) {
    value = Custom::epilogue(args, value, uint64_t{tile.row} + min_of(token, tile.rows - 1),
                             min_of<uint32_t>(column, P::output_columns - 1), tile.expert);
    if (P::fuse_quantize && column >= P::output_columns) value = 0.0f;  // no part of its group's scale
  }
  return value;
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/finish_tokens_n.cuh ------------------------------------------------------------------
// grouped_matmul, epilogue of tiles with weights on M and tokens on N: a thread holds two rows of weights, 8 apart, and
// pairs of neighbouring tokens. With gate and up in one tile its two rows are gate and up of one column of c.


namespace moegen::grouped_matmul {

/// Scales of the tile's N tokens over the lanes of a warp: loaded at once, before the sum, and fetched from the lane.
template <class P, uint32_t N>
struct TokenScales {
  enum : uint32_t { kCount = P::rowwise || P::tensor_scales ? ceil_div<uint32_t>(N, kWarpSize) : 1 };
  float value[kCount];
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile) {
    if constexpr (P::rowwise || P::tensor_scales) {
#pragma unroll
      for (uint32_t i = 0; i < kCount; ++i) value[i] = token_scale<P>(args, tile, i * kWarpSize + lane_index());
    }
  }
  /// Of token 8 * j + 2 * (lane % 4) + k.
  MOEGEN_DEVICE float get(uint32_t j, uint32_t k) const {
    if constexpr (P::rowwise || P::tensor_scales)
      return shuffle(value[j * 8 / kWarpSize], j * 8 % kWarpSize + lane_index() % 4 * 2 + k);
    return 1.0f;
  }
};

/// A thread's two rows of weights, loaded ahead of the sum.
template <class P, class T>
struct WeightRows {
  uint32_t column;  // of c, of the first
  ColumnTerms<P> terms[2];

  MOEGEN_DEVICE WeightRows(const Args& args, const Tile& tile, uint32_t warpgroup) {
    constexpr uint32_t kWarpColumns = T::warpgroup_columns / 4;
    column = tile.unit * T::tile_columns + warpgroup * T::warpgroup_columns + warp_index() % 4 * kWarpColumns +
             lane_index() / 4;
    terms[0].load(args, tile.expert, column, false);
    terms[1].load(args, tile.expert, P::gated ? column : column + 8, P::gated);
  }
};

/// The epilogue's part of one thread: the scales of N tokens, loaded ahead of the sum, and how a sum becomes values.
template <class P, class T, class Custom, uint32_t N>
struct FinishTokensN {
  using Weights = WeightRows<P, T>;
  const Args& args;
  const Tile& tile;
  const Weights& weights;
  TokenScales<P, N> tokens;

  MOEGEN_DEVICE FinishTokensN(const Args& arguments, const Tile& where, const Weights& rows)
      : args(arguments), tile(where), weights(rows) {
    tokens.load(args, tile);
  }

  /// Values of tokens 8 * j + 2 * (lane % 4) and the next, of column + 8 * half.
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, float (&out)[2]) const {
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float scale = tokens.get(j, k);
      const float first = scaled(sum[4 * j + 2 * half + k], scale, weights.terms[half]);
      const float up = P::gated ? scaled(sum[4 * j + 2 + k], scale, weights.terms[1]) : 0.0f;
      const uint32_t token = 8 * j + lane_index() % 4 * 2 + k;
      out[k] = finished<P, Custom>(args, tile, token, weights.column + 8 * half, first, up);
    }
  }
};

}  // namespace moegen::grouped_matmul

// ---- core/barrier.cuh ------------------------------------------------------------------------------------
// Named barriers: parts of a block meet at one of 16; number 0 is block_sync's.


namespace moegen {

/// Waits at barrier `number` until `threads` threads, whole warps, have arrived there; orders their memory accesses.
MOEGEN_DEVICE void named_sync(uint32_t number, uint32_t threads) {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(number, threads);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

/// Arrives there without waiting; `threads` as those who wait say it.
MOEGEN_DEVICE void named_arrive(uint32_t number, uint32_t threads) {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_arrive(number, threads);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

}  // namespace moegen

// ---- core/matrix.cuh -------------------------------------------------------------------------------------
// Matrices of 8 x 8 16-bit elements between shared memory and the registers of a warp. Row r of matrix m lies at the
// address of lane 8 * m + r, 16-byte aligned; lane l holds the elements 2 * (l % 4) and the next of row l / 4 of each,
// or of its column l / 4 where transposed. All 32 lanes take part.


namespace moegen {

/// Loads Count (1, 2, 4) matrices, one register of each. sm_75 up.
template <bool Transpose = false, uint32_t Count>
MOEGEN_DEVICE void load_matrix(uint32_t (&registers)[Count], const void* row) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "ldmatrix loads 1, 2 or 4 matrices");
#ifdef MOEGEN_TARGET_CPU
  cpu::load_matrix(registers, row, Count, Transpose);
#else
#define MOEGEN_LOAD_MATRIX(count, list, ...)                                       \
  if constexpr (Transpose)                                                         \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".trans.shared.b16 " list ";" \
                 : __VA_ARGS__                                                     \
                 : "r"(source)                                                     \
                 : "memory");                                                      \
  else                                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".shared.b16 " list ";" : __VA_ARGS__ : "r"(source) : "memory")
  const uint32_t source = shared_address(row);
  if constexpr (Count == 1) {
    MOEGEN_LOAD_MATRIX("x1", "{%0}, [%1]", "=r"(registers[0]));
  } else if constexpr (Count == 2) {
    MOEGEN_LOAD_MATRIX("x2", "{%0, %1}, [%2]", "=r"(registers[0]), "=r"(registers[1]));
  } else {
    MOEGEN_LOAD_MATRIX("x4", "{%0, %1, %2, %3}, [%4]", "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
                       "=r"(registers[3]));
  }
#undef MOEGEN_LOAD_MATRIX
#endif
}

/// Stores Count (1, 2, 4) matrices, one register of each. sm_90 up.
template <bool Transpose = false, uint32_t Count>
MOEGEN_DEVICE void store_matrix(void* row, const uint32_t (&registers)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "stmatrix stores 1, 2 or 4 matrices");
#ifdef MOEGEN_TARGET_CPU
  cpu::store_matrix(row, registers, Count, Transpose);
#else
#define MOEGEN_STORE_MATRIX(count, list, ...)                                                                       \
  if constexpr (Transpose)                                                                                          \
    asm volatile("stmatrix.sync.aligned.m8n8." count ".trans.shared.b16 [%0], " list ";" ::"r"(target), __VA_ARGS__ \
                 : "memory");                                                                                       \
  else                                                                                                              \
    asm volatile("stmatrix.sync.aligned.m8n8." count ".shared.b16 [%0], " list ";" ::"r"(target), __VA_ARGS__       \
                 : "memory")
  const uint32_t target = shared_address(row);
  if constexpr (Count == 1) {
    MOEGEN_STORE_MATRIX("x1", "{%1}", "r"(registers[0]));
  } else if constexpr (Count == 2) {
    MOEGEN_STORE_MATRIX("x2", "{%1, %2}", "r"(registers[0]), "r"(registers[1]));
  } else {
    MOEGEN_STORE_MATRIX("x4", "{%1, %2, %3, %4}", "r"(registers[0]), "r"(registers[1]), "r"(registers[2]),
                        "r"(registers[3]));
  }
#undef MOEGEN_STORE_MATRIX
#endif
}

}  // namespace moegen

// ---- core/memory.cuh -------------------------------------------------------------------------------------
// Global memory: accesses of 16 and 8 bytes.


namespace moegen {

/// Loads 16 bytes that nothing writes while the kernel runs. `pointer` is 16-byte aligned.
MOEGEN_DEVICE Vector16 load_constant(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector16*>(pointer);
#else
  Vector16 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
      : "l"(pointer));
  return v;
#endif
}

/// 8 bytes that nothing writes while the kernel runs. `pointer` is 8-byte aligned.
MOEGEN_DEVICE Vector8 load_constant8(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector8*>(pointer);
#else
  Vector8 v;
  asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(pointer));
  return v;
#endif
}

/// Stores 8 bytes. `pointer` is 8-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector8& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector8*>(pointer) = v;
#else
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]) : "memory");
#endif
}

/// Stores 16 bytes. `pointer` is 16-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector16& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector16*>(pointer) = v;
#else
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
#endif
}

}  // namespace moegen

// ---- core/tensor_copy.cuh --------------------------------------------------------------------------------
// Tensor copies: boxes of 1 to 5 dimensions between a tensor in global memory and a dense tile of shared memory, whose
// 16-byte pieces are swizzled as the TensorMap says. The tile is 128-byte aligned. Coordinates are of elements,
// innermost first, and the innermost one times the element's size is a multiple of 16 bytes: an H200 stops with an
// illegal instruction at any other (tests/gpu/test_hardware_pins.cpp). Elements outside the tensor are read as zero and
// not written. One thread issues a copy. sm_90 up.


namespace moegen {

/// Fetches the map itself ahead of its first use.
MOEGEN_DEVICE void prefetch_tensor_map(const TensorMap& map) {
#ifdef MOEGEN_TARGET_CPU
  // Nothing to be early for.
#else
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

#ifndef MOEGEN_TARGET_CPU
// The instruction for a number of dimensions, whose coordinates are asm operands 4 and up.
#define MOEGEN_TENSOR_COPY(rank, at, INSTRUCTION)                                          \
  if constexpr (rank == 1)                                                                 \
    INSTRUCTION("1d", "{%4}", "r"(at[0]));                                                 \
  else if constexpr (rank == 2)                                                            \
    INSTRUCTION("2d", "{%4, %5}", "r"(at[0]), "r"(at[1]));                                 \
  else if constexpr (rank == 3)                                                            \
    INSTRUCTION("3d", "{%4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]));                 \
  else if constexpr (rank == 4)                                                            \
    INSTRUCTION("4d", "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])); \
  else                                                                                     \
    INSTRUCTION("5d", "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))
#define MOEGEN_TENSOR_OPERANDS(barrier, mask) \
  "r"(shared_address(shared)), "l"(&map), "r"(barrier), "h"(static_cast<uint16_t>(mask))
#define MOEGEN_TENSOR_LOAD(rank, coordinates, ...)                                                 \
  asm volatile("cp.async.bulk.tensor." rank                                                        \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " coordinates \
               "], [%2];" ::MOEGEN_TENSOR_OPERANDS(shared_address(barrier), 0),                    \
               __VA_ARGS__                                                                         \
               : "memory")
#define MOEGEN_TENSOR_LOAD_MULTICAST(rank, coordinates, ...)                                                          \
  asm volatile("cp.async.bulk.tensor." rank                                                                           \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, " coordinates \
               "], [%2], %3;" ::MOEGEN_TENSOR_OPERANDS(shared_address(barrier), mask),                                \
               __VA_ARGS__                                                                                            \
               : "memory")
#define MOEGEN_TENSOR_LOAD_ONCE(rank, coordinates, ...)                                                           \
  asm volatile("cp.async.bulk.tensor." rank                                                                       \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, " coordinates \
               "], [%2], %3;" ::"r"(shared_address(shared)),                                                      \
               "l"(&map), "r"(shared_address(barrier)), "l"(policy), __VA_ARGS__                                  \
               : "memory")
#define MOEGEN_TENSOR_STORE(rank, coordinates, ...)                                                 \
  asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%1, " coordinates \
               "], [%0];" ::MOEGEN_TENSOR_OPERANDS(0, 0),                                           \
               __VA_ARGS__                                                                          \
               : "memory")
#endif

/// Copies the box at `index...` to `shared`. The bytes of the whole box, parts outside the tensor included, count on
/// `barrier` when they are there.
template <class... Index>
MOEGEN_DEVICE void tensor_load(void* shared, const TensorMap& map, uint64_t* barrier, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, 0);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD);
#endif
}

/// The same of data that is read once: the first to leave L2.
template <class... Index>
MOEGEN_DEVICE void tensor_load_once(void* shared, const TensorMap& map, uint64_t* barrier, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, 0);
#else
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD_ONCE);
#endif
}

/// The same to every block of the cluster whose rank is set in `mask`: at the same offset, counting on its own barrier.
template <class... Index>
MOEGEN_DEVICE void tensor_load_multicast(void* shared, const TensorMap& map, uint64_t* barrier, uint32_t mask,
                                         Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, mask);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD_MULTICAST);
#endif
}

/// Copies the tile at `shared` to the box at `index...`, none of them negative (an H200 stops there, too), in the
/// thread's open bulk group (bulk_copy.cuh).
template <class... Index>
MOEGEN_DEVICE void tensor_store(const TensorMap& map, const void* shared, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_store(&map, at, kRank, shared);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_STORE);
#endif
}

}  // namespace moegen

// ---- grouped_matmul/store.cuh ----------------------------------------------------------------------------
// grouped_matmul, the way of a warpgroup's part of c to global memory: rows are put together in shared memory
// (`staging`), whole boxes of rows leave by one tensor store each, which nobody waits for until the memory is needed
// again, and the ragged rest in pieces of 16 bytes, whole sectors, and only rows of the tile's group.
//
// With tensor stores (`store_rows` > 0) the staging holds panels of 128 bytes a row, in the copies' swizzle. Without,
// rows lie 16 bytes more than their length apart. Either way the 8 rows of a stored 8 x 8 matrix are in different
// banks.
//
// A bulk copy of each row instead took 0.9 us for every 32 rows of a warpgroup on an H200: the copies of a warp's lanes
// are issued one after another.


namespace moegen::grouped_matmul {

/// Where a warpgroup stages rows of its `warpgroup_columns` columns: `staging_rows` at a time, and with tensor stores
/// `staging_panels` panels of each.
template <class P, class T>
struct Staging {
  using Element = typename P::output_dtype;
  enum : uint32_t {
    kRowBytes = T::warpgroup_columns * sizeof(Element),
    kStride = kRowBytes + 16,  // without panels
    kPanelColumns = T::store_rows > 0 ? kSliceBytes / sizeof(Element) : T::warpgroup_columns,
    kPanels = T::warpgroup_columns / kPanelColumns,
    kPieces = kPanelColumns * sizeof(Element) / 16,
  };
  static_assert(T::staging_bytes >=
                T::staging_rows * (T::store_rows > 0 ? T::staging_panels * kSliceBytes : uint32_t{kStride}));
  static_assert(T::store_rows == 0 || kRowBytes % kSliceBytes == 0);
  unsigned char* base;
  uint32_t warpgroup;

  /// Row `row` of the panel at place `place`: 128 bytes.
  MOEGEN_DEVICE unsigned char* panel(uint32_t place, uint32_t row) const {
    return base + (place * T::staging_rows + row) * kSliceBytes;
  }
  MOEGEN_DEVICE unsigned char* at(uint32_t row, uint32_t column) const {
    const uint32_t byte = column * sizeof(Element);
    if constexpr (T::store_rows == 0) return base + row * kStride + byte;
    return panel(byte / kSliceBytes, row) + ((byte % kSliceBytes) ^ (row % 8 * 16));
  }
  /// This warpgroup's first column, of the tile's.
  MOEGEN_DEVICE uint32_t first_column() const { return warpgroup * T::warpgroup_columns; }
  /// All threads of the warpgroup have written, or read, what they had to.
  MOEGEN_DEVICE void sync() const { named_sync(1 + warpgroup, kWarpgroupThreads); }

  /// Stores a panel's staged rows [first, first + rows) to c in pieces, row `first` to `row`, `column`: thread `thread`
  /// of `Threads`.
  template <uint32_t Threads>
  MOEGEN_DEVICE void send_pieces(const Args& args, uint32_t place, uint32_t first, uint64_t row, uint32_t column,
                                 uint32_t rows, uint32_t thread) const {
    constexpr uint32_t kPieceElements = 16 / sizeof(Element);
    constexpr uint32_t kAcross = min_of<uint32_t>(kPieces & (0u - kPieces), Threads);  // a power of two
#pragma unroll
    for (uint32_t i = 0; i < kPieces / kAcross; ++i) {
      const uint32_t mine = (i * kAcross + thread % kAcross) * kPieceElements;
      if (column + mine >= P::output_columns) continue;
      Element* target = static_cast<Element*>(args.c) + row * P::output_columns + column + mine;
#pragma unroll 4
      for (uint32_t r = thread / kAcross; r < rows; r += Threads / kAcross)
        store(target + uint64_t{r} * P::output_columns,
              *reinterpret_cast<const Vector16*>(at(first + r, place * kPanelColumns + mine)));
    }
  }

  /// Stores the box of `store_rows` staged rows from `first` on, in a bulk group of its own; one thread.
  MOEGEN_DEVICE void send_box(const TensorArgs& args, uint32_t place, uint32_t first, uint32_t row,
                              uint32_t column) const {
    tensor_store(args.stores, panel(place, first), column * sizeof(Element), row);
    bulk_commit();
  }
};

/// The staging may be written again once at most `Pending` of this thread's boxes are still to be read.
template <class T, uint32_t Pending>
MOEGEN_DEVICE void wait_for_boxes(bool issuer) {
  if constexpr (T::store_rows > 0) {
    if (issuer) bulk_wait_read<Pending>();
  }
}

// ---- tokens on M ----

/// Brings a panel of the 16 tokens of this warp on its way: warps need not wait for each other.
template <class P, class T>
MOEGEN_DEVICE void send_warp(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile, uint32_t warpgroup,
                             uint32_t place, uint32_t column) {
  constexpr uint32_t kWarpRows = kWarpgroupRows / 4;
  static_assert(T::store_rows == 0 || T::store_rows == kWarpRows);
  const uint32_t first = warp_index() % 4 * kWarpRows, token = warpgroup * kWarpgroupRows + first;
  const uint32_t rows = tile.rows > token ? min_of<uint32_t>(tile.rows - token, kWarpRows) : 0;
  const bool box = T::store_rows > 0 && rows == kWarpRows;
  if (box) fence_proxy_async();
  warp_sync();
  if (!box)
    staging.template send_pieces<kWarpSize>(args.args, place, first, uint64_t{tile.row} + token, column, rows,
                                            lane_index());
  else if (lane_index() == 0)
    staging.send_box(args, place, first, tile.row + token, column);
  warp_sync();
}

/// stage(panel, place), then the way of that panel, for each panel of this warp's 16 tokens.
template <class P, class T, uint32_t Panel = 0, class Stage>
MOEGEN_DEVICE void store_panels(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile,
                                uint32_t warpgroup, Stage&& stage) {
  using S = Staging<P, T>;
  constexpr uint32_t kPlace = Panel % T::staging_panels;
  if constexpr (Panel == 0 || Panel >= T::staging_panels) {
    wait_for_boxes<T, Panel == 0 ? 0 : T::staging_panels - 1>(lane_index() == 0);
    warp_sync();
  }
  stage(Panel, kPlace);
  send_warp(args, staging, tile, warpgroup, kPlace, tile.unit * T::tile_columns + Panel * S::kPanelColumns);
  if constexpr (Panel + 1 < S::kPanels) store_panels<P, T, Panel + 1>(args, staging, tile, warpgroup, stage);
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/store_tokens_n.cuh -------------------------------------------------------------------
// grouped_matmul, stores of tiles with weights on M and tokens on N: a warpgroup's values are turned round on their way
// into the staging, so that a token's columns lie side by side.


namespace moegen::grouped_matmul {

/// Stages Count 8 x 8 matrices of 16-bit values, transposed: matrix m holds tokens 8 * (first + m / kHalves), columns
/// 8 * (m % kHalves) of this warp's.
template <uint32_t Count, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_matrices(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                  const float (&sum)[N / 2], uint32_t first, uint32_t first_row) {
  constexpr uint32_t kHalves = P::gated ? 1 : 2;
  uint32_t registers[Count];
#pragma unroll
  for (uint32_t m = 0; m < Count; ++m) {
    float pair[2];
    finish.values(sum, first + m / kHalves, m % kHalves, pair);
    registers[m] = pack_pair(typename P::output_dtype{}, pair[0], pair[1]);
  }
  const uint32_t m = lane_index() / 8 % Count;  // lanes beyond the last matrix name no row
  store_matrix<true>(staging.at((first + m / kHalves) * 8 + lane_index() % 8 - first_row,
                                warp_index() % 4 * (T::warpgroup_columns / 4) + m % kHalves * 8),
                     registers);
}

/// Stages tokens [Row, Row + Rows) as 16-bit values, up to four matrices at a time.
template <uint32_t Row, uint32_t Rows, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_narrow(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2]) {
  constexpr uint32_t kHalves = P::gated ? 1 : 2, kStep = 4 / kHalves;  // groups of 8 tokens of four matrices
  constexpr uint32_t kBase = Row / T::staging_rows * T::staging_rows;
  constexpr uint32_t kFirst = Row / 8, kLast = min_of<uint32_t>(N, Row + Rows) / 8;
  constexpr uint32_t kWhole = kFirst + (kLast - kFirst) / kStep * kStep, kRest = kLast - kWhole;
  if constexpr (kWhole > kFirst) {
#pragma unroll
    for (uint32_t j = kFirst; j < kWhole; j += kStep) stage_matrices<4>(finish, staging, sum, j, kBase);
  }
  if constexpr (kRest >= 2) stage_matrices<2 * kHalves>(finish, staging, sum, kWhole, kBase);
  if constexpr (kRest % 2 == 1) stage_matrices<kHalves>(finish, staging, sum, kLast - 1, kBase);
}

/// The same of float values.
template <uint32_t Row, uint32_t Rows, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_wide(const FinishTokensN<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                              const float (&sum)[N / 2]) {
  constexpr uint32_t kLast = min_of<uint32_t>(N, Row + Rows) / 8;
  constexpr uint32_t kBase = Row / T::staging_rows * T::staging_rows;
  const uint32_t mine = warp_index() % 4 * (T::warpgroup_columns / 4) + lane_index() / 4;
#pragma unroll
  for (uint32_t j = Row / 8; j < kLast; ++j) {
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k)
        *reinterpret_cast<float*>(staging.at(8 * j + lane_index() % 4 * 2 + k - kBase, mine + 8 * half)) = pair[k];
    }
  }
}

/// Rows that are staged before they leave, a part of the tile: a box, or the whole staging.
template <class T>
constexpr uint32_t kPartRows = T::store_rows > 0 ? T::store_rows : T::staging_rows;

/// Brings the staged part of the tile at row `row`, of `rows` rows, on its way; with tensor stores the last part of a
/// group alone is ragged.
template <class P, class T>
MOEGEN_DEVICE void send_part(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile, uint32_t row,
                             uint32_t rows) {
  const uint32_t first = row % T::staging_rows, column = tile.unit * T::tile_columns + staging.first_column();
  if (T::store_rows > 0) fence_proxy_async();
  staging.sync();
  if (T::store_rows > 0 && rows == T::store_rows) {
    if (thread_index() % kWarpgroupThreads == 0) {
#pragma unroll
      for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
        staging.send_box(args, i, first, tile.row + row, column + i * Staging<P, T>::kPanelColumns);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < Staging<P, T>::kPanels; ++i)
      staging.template send_pieces<kWarpgroupThreads>(args.args, i, first, uint64_t{tile.row} + row,
                                                      column + i * Staging<P, T>::kPanelColumns, rows,
                                                      thread_index() % kWarpgroupThreads);
  }
}

/// Stages the parts of the tile from row Row on; all but the last also leave.
template <uint32_t Row, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_parts(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                               const Staging<P, T>& staging, const float (&sum)[N / 2]) {
  constexpr uint32_t kRows = kPartRows<T>, kParts = T::staging_rows / kRows;
  if constexpr (Row == 0 || Row >= T::staging_rows) {
    wait_for_boxes<T, Row == 0 ? 0 : (kParts - 1) * Staging<P, T>::kPanels>(thread_index() % kWarpgroupThreads == 0);
    staging.sync();
  }
  if constexpr (sizeof(typename P::output_dtype) == 4)
    stage_wide<Row, kRows>(finish, staging, sum);
  else
    stage_narrow<Row, kRows>(finish, staging, sum);
  if constexpr (Row + kRows < N) {
    if (finish.tile.rows <= Row + kRows) return;
    send_part(args, staging, finish.tile, Row, kRows);
    stage_parts<Row + kRows>(finish, args, staging, sum);
  }
}

/// Brings a finished tile of this warpgroup on its way but for its last part, which is left in the staging.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  stage_parts<0>(finish, args, Staging<P, T>{shared.staging(warpgroup), warpgroup}, sum);
}

/// Brings what stage_tile left on its way.
template <class P, class T>
MOEGEN_DEVICE void send_last_rows(const TensorArgs& args, const Shared<P, T>& shared, const Tile& tile,
                                  uint32_t warpgroup) {
  const uint32_t row = (tile.rows - 1) / kPartRows<T> * kPartRows<T>;
  send_part(args, Staging<P, T>{shared.staging(warpgroup), warpgroup}, tile, row, tile.rows - row);
}

}  // namespace moegen::grouped_matmul

// ---- core/cluster.cuh ------------------------------------------------------------------------------------
// Thread block clusters and distributed shared memory, sm_90 up. On earlier archs a cluster is one block.


namespace moegen {

/// Number of blocks in this cluster; 1 on archs without clusters.
MOEGEN_DEVICE uint32_t cluster_size() {
#ifdef MOEGEN_TARGET_CPU
  return cpu::cluster_size();
#elif __CUDA_ARCH__ < 900
  return 1;
#else
  uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#endif
}

/// Tells the cluster that this thread's writes to shared memory may be read. Pair with cluster_wait.
MOEGEN_DEVICE void cluster_arrive() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_arrive();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/// Waits until every thread of the cluster has arrived; their earlier writes are visible.
MOEGEN_DEVICE void cluster_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_wait();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The word that block `rank` of the cluster has where this block has `word`, as a generic address.
MOEGEN_DEVICE uint32_t* map_cluster_shared(uint32_t* word, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t*>(cpu::map_cluster_shared(word, rank));
#elif __CUDA_ARCH__ < 900
  return word;
#else
  uint32_t* peer;
  asm("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(word), "r"(rank));
  return peer;
#endif
}

}  // namespace moegen

// ---- core/grid.cuh ---------------------------------------------------------------------------------------
// Agreement between all blocks of a grid through words in global memory, and dependent launch.


namespace moegen {

/// Adds to a word of global memory and returns its old value; device scope, acquire and release.
MOEGEN_DEVICE uint32_t global_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::global_add(word, value);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
#endif
}

/// Waits until `*word` is at least `least`, which some other block will make it; device scope, acquire.
MOEGEN_DEVICE void wait_at_least(const uint32_t* word, uint32_t least) {
#ifdef MOEGEN_TARGET_CPU
  cpu::wait_at_least(word, least);
#else
  uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
  } while (seen < least);
#endif
}

/// All threads of all blocks have arrived, and what they wrote is visible to each other. `arrived` counts blocks from
/// 0; every block of the grid must be resident (cooperative launch).
MOEGEN_DEVICE void grid_sync(uint32_t* arrived) {
  block_sync();
  if (thread_index() == 0) {
    global_add(arrived, 1);
    wait_at_least(arrived, num_blocks());
  }
  block_sync();
}

/// Waits until the kernels this one depends on have ended and their writes are visible. Nothing that an earlier kernel
/// may write is read, and nothing that it may read is written, before this. sm_90 up; elsewhere launches are in order.
MOEGEN_DEVICE void wait_for_dependencies() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets kernels that wait for this one be put on the chip early; they still wait for its end before they read.
MOEGEN_DEVICE void launch_dependents() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace moegen

// ---- core/registers.cuh ----------------------------------------------------------------------------------
// Moving registers between the warpgroups of a block. sm_90a up; the kernel is compiled for a fixed block size.


namespace moegen {

/// Gives registers of this warpgroup back, keeping `Registers` a thread (24 .. 256, a multiple of 8).
template <uint32_t Registers>
MOEGEN_DEVICE void release_registers() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
#ifdef MOEGEN_TARGET_CPU
  // The host has its own registers.
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

/// Takes registers that others gave back, up to `Registers` a thread; waits until there are enough.
template <uint32_t Registers>
MOEGEN_DEVICE void acquire_registers() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
#ifdef MOEGEN_TARGET_CPU
  // The host has its own registers.
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

}  // namespace moegen

// ---- grouped_matmul/deal.cuh -----------------------------------------------------------------------------
// grouped_matmul, scheduler of large tiles: each tile, in the order of tile.cuh, goes to the cluster that is free
// first.
//
// Tiles of a group are equal but the last, whose rows are what is left. Taken in turn, that alone leaves some blocks 2
// to 12 % more rows than others. A counter in global memory would balance them, but a launch has no memory of its own
// for one, and must not share one with a launch beside it. So the blocks do not ask each other: one warp of each counts
// through all tiles, by a model of what they cost, and knows which are its own. All count alike, whatever happens on
// the chip, so each tile is dealt once; a wrong model costs time only.
//
// Tiles cost whole units of a warpgroup's rows, so many clusters are free at the same time. Shared memory has a list of
// clusters for each of the times that follow; 32 of a list are served at once, and go to the lists of the times when
// they are free again. That takes a quarter of the time of looking at all clusters for who is free.


namespace moegen::grouped_matmul {

/// Modelled cost of a tile of `rows` rows in a group of `tiles`: one for every 64, and one that does not shrink with
/// them. A tile that is its group's only one waits for its weights from HBM, 16 KiB a slice of a multiprocessor's 20 to
/// 34 bytes a cycle: longer than the tensor cores take for 128 rows. Groups of expert -1, which cost next to nothing,
/// are counted as others are.
MOEGEN_DEVICE uint32_t cost_of(uint32_t rows, uint32_t tiles) {
  const uint32_t warpgroups = ceil_div<uint32_t>(rows, kWarpgroupRows);
  return 1 + (tiles == 1 ? max_of<uint32_t>(warpgroups, 2) : warpgroups);
}

/// The work of the warp that deals: counts through the deals of all clusters and puts those of this one into the queue
/// for the warps that load; then one of no rows, the end. Those warps look up what else they must know of a tile: where
/// three warpgroups multiply, a thread that loads has 32 registers.
template <class P, class T>
class Dealer {
 public:
  MOEGEN_DEVICE Dealer(const Args& args, const Shared<P, T>& shared) : args_(args), shared_(shared) {
    static_assert(T::max_tokens <= (kDealTimes - 2) * kWarpgroupRows, "a cost is less than the times that have a list");
    static_assert(kUnits<P, T> % T::joined_tiles == 0 && T::raster % T::joined_tiles == 0,
                  "joined tiles are neighbours in the order of tiles");
  }

  MOEGEN_DEVICE void run() {
    const uint32_t workers = min_of<uint32_t>(num_blocks() / T::cluster, kMostWorkers);
    for (uint32_t i = lane_index(); i < workers; i += kWarpSize) list(0)[i] = static_cast<unsigned char>(i);
    length_ = lane_index() == 0 ? workers : 0;
    for (uint32_t time = 0; deal(time);) time = (time + 1) % kDealTimes;
    if (lane_index() == 0) push({0, 0, 0, 0});
  }

 private:
  /// The clusters that are free at time `time`, modulo kDealTimes.
  MOEGEN_DEVICE unsigned char* list(uint32_t time) const { return shared_.free_at() + time * kMostWorkers; }
  /// Deals of the group.
  MOEGEN_DEVICE uint32_t places() const { return tiles_ * (kUnits<P, T> / T::joined_tiles); }

  /// Deals to all that are free at `time`. False when everything is dealt.
  MOEGEN_DEVICE bool deal(uint32_t time) {
    warp_sync();  // the list is complete
    const uint32_t length = shuffle(length_, time);
#pragma unroll 1
    for (uint32_t first = 0; first < length; first += kWarpSize)
      if (!deal_some(time, first, min_of<uint32_t>(length - first, kWarpSize))) return false;
    if (lane_index() == time) length_ = 0;
    return true;
  }

  /// The same for `count` of them from `first` on, a lane each.
  MOEGEN_DEVICE bool deal_some(uint32_t time, uint32_t first, uint32_t count) {
    const uint32_t worker = lane_index() < count ? list(time)[first + lane_index()] : kMostWorkers;
#pragma unroll 1
    for (uint32_t done = 0; done < count;) {
      if (place_ == places() && !enter_next_group()) return false;
      const uint32_t more = min_of(count - done, places() - place_), mine = lane_index() - done;
      GroupPlace at = {0, 0};
      if (mine < more) at = group_place<P, T>((place_ + mine) * T::joined_tiles, slabs_);
      const bool own = mine < more && worker == block_index() / T::cluster;
      if (own) push({next_group_ - 1, at.tile, at.unit, step_});
      if (ballot(own) != 0) ring_.next();
      const bool last = at.tile + 1 == tiles_;
      append(time, step_, mine < more && !last, worker);
      append(time, last_rows_, mine < more && last, worker);
      place_ += more;
      done += more;
    }
    return true;
  }

  /// Puts the workers of the lanes with `served`, who got tiles of `rows` rows, where they are free again.
  MOEGEN_DEVICE void append(uint32_t time, uint32_t rows, bool served, uint32_t worker) {
    const uint32_t lanes = ballot(served);
    if (lanes == 0) return;
    const uint32_t then = (time + cost_of(rows, tiles_)) % kDealTimes;
    const uint32_t length = shuffle(length_, then);
    if (served) list(then)[length + popcount(lanes & lanes_below())] = static_cast<unsigned char>(worker);
    if (lane_index() == then) length_ += popcount(lanes);
  }

  /// One lane does it.
  MOEGEN_DEVICE void push(const Deal& deal) const {
    mbarrier_wait(shared_.taken(ring_.place()), ring_.parity() ^ 1);
    shared_.deal(ring_.place()) = deal;
    mbarrier_arrive(shared_.dealt(ring_.place()));
  }

  /// Asks for the rows of 32 groups at once.
  MOEGEN_DEVICE void look_at_groups() const {
    warp_sync();  // all lanes have read those before
    shared_.group_rows()[lane_index()] = rows_of_group(args_, next_group_ + lane_index()).rows;
    warp_sync();
  }

  /// Goes on to the next group with rows; false if there is none.
  MOEGEN_DEVICE bool enter_next_group() {
    while (next_group_ < static_cast<uint32_t>(args_.num_groups)) {
      if (next_group_ % kWarpSize == 0) look_at_groups();
      const uint32_t rows = shared_.group_rows()[next_group_ % kWarpSize];
      ++next_group_;
      if (rows == 0) continue;
      enter_group(rows);
      return true;
    }
    return false;
  }

  MOEGEN_DEVICE void enter_group(uint32_t rows) {
    const Cut cut = grouped_matmul::cut<T>(rows);
    tiles_ = cut.tiles;
    step_ = cut.step;
    last_rows_ = rows - (tiles_ - 1) * step_;
    slabs_ = SlabDivisor(T::raster * tiles_);
    place_ = 0;
  }

  const Args& args_;
  const Shared<P, T>& shared_;
  QueueRing ring_;
  uint32_t length_ = 0;      // of the list of the time that is this lane's number
  uint32_t next_group_ = 0;  // behind the one whose tiles are dealt
  uint32_t tiles_ = 0;       // of tokens, of the group; of `step_` rows each, the last of `last_rows_`
  uint32_t step_ = 0, last_rows_ = 0;
  SlabDivisor slabs_{1};
  uint32_t place_ = 0;  // deals of the group that are out
};

/// The tiles of this block, one after the other, for a warp that loads: dealt by another, or walked through by itself.
template <class P, class T, bool = T::dealt>
class TileSource {
 public:
  MOEGEN_DEVICE TileSource(const Args& args, const Shared<P, T>& shared, uint32_t rank)
      : args_(args), shared_(shared), rank_(rank) {}

  /// False at the end, after which it must not be asked again. All lanes of the warp call it together.
  MOEGEN_DEVICE bool next(Tile& tile) {
    const uint32_t joined = turn_ % T::joined_tiles;
    const QueueRing ring = {turn_ / T::joined_tiles};
    if (joined == 0) mbarrier_wait(shared_.dealt(ring.place()), ring.parity());
    const Deal deal = shared_.deal(ring.place());
    warp_sync();  // all lanes have read it
    if (joined == T::joined_tiles - 1 && lane_index() == 0) mbarrier_arrive(shared_.taken(ring.place()));
    ++turn_;
    if (deal.step == 0) return false;
    const Group group = rows_of_group(args_, deal.group);
    tile = tile_of<T>(args_, deal.group, group, deal.step, {deal.tile, deal.unit + joined}, rank_);
    return true;
  }

 private:
  const Args& args_;
  const Shared<P, T>& shared_;
  const uint32_t rank_;  // of this block in its cluster
  uint32_t turn_ = 0;
};
template <class P, class T>
class TileSource<P, T, false> {
 public:
  MOEGEN_DEVICE TileSource(const Args& args, const Shared<P, T>&, uint32_t rank) : walk_(args, rank) {}
  MOEGEN_DEVICE bool next(Tile& tile) { return walk_.next(tile); }

 private:
  TileWalk<P, T> walk_;
};

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/load.cuh -----------------------------------------------------------------------------
// grouped_matmul, producer: brings the weights and tokens of each tile into the stages by tensor copies. One warp goes
// through the tiles; its first lane issues.
//
// Tokens are read from one map over all rows of a: a tile that is not a multiple of 8 rows reads on into its
// neighbour's, whose products nobody stores; rows past the last read as zero. So segments need no padding. Blocks of a
// cluster share their tokens: each loads a part and multicasts it. Rows that are gathered come another way
// (gather.cuh).


namespace moegen::grouped_matmul {

/// Columns of tokens that are multiplied for a tile of `rows` rows: the first of the plan's widths that holds them.
template <class T, uint32_t Index = 0>
MOEGEN_DEVICE uint32_t width_of(uint32_t rows) {
  if constexpr (Index + 1 < T::num_widths) {
    if (rows > T::width(Index)) return width_of<T, Index + 1>(rows);
  }
  return T::width(Index);
}

/// Loads `count` token rows from `row` on, to `target`: as one box, or as boxes whose heights are the bits of `count`.
template <class T>
MOEGEN_DEVICE void load_tokens(const TensorArgs& args, unsigned char* target, uint64_t* barrier, uint32_t k,
                               uint32_t row, uint32_t count) {
  const auto load = [&](uint32_t box, uint32_t done) {
    if constexpr (T::cluster == 1)
      tensor_load(target + done * kSliceBytes, args.tokens[box], barrier, k, row + done);
    else
      tensor_load_multicast(target + done * kSliceBytes, args.tokens[box], barrier, (1u << T::cluster) - 1, k,
                            row + done);
  };
  if (count == T::max_tokens / T::cluster) return load(kMaxTokenBoxes - 1, 0);
  uint32_t done = 0;
#pragma unroll
  for (uint32_t i = 0; i + 1 < kMaxTokenBoxes; ++i) {
    const uint32_t box = kMaxTokenBoxes - 2 - i, height = 8u << box;
    if ((T::box_heights & height) == 0 || (count & height) == 0) continue;
    load(box, done);
    done += height;
  }
}

/// The box of weights at `place`.
template <class T, class... Place>
MOEGEN_DEVICE void load_box(const TensorArgs& args, unsigned char* target, uint64_t* barrier, Place... place) {
  if constexpr (T::weights_once)
    tensor_load_once(target, args.weights, barrier, place...);
  else
    tensor_load(target, args.weights, barrier, place...);
}

template <class P, class T>
MOEGEN_DEVICE void load_weights(const TensorArgs& args, unsigned char* target, uint64_t* barrier, uint32_t k,
                                const Tile& tile) {
  if constexpr (P::gated)  // 8 rows of gate, the 8 of up that belong to them, and so on
    load_box<T>(args, target, barrier, k, 0u, 0u, tile.unit * (T::tile_columns / 8), tile.expert);
  else
    load_box<T>(args, target, barrier, k, tile.unit * T::tile_columns, tile.expert);
}

/// One stage of a tile: `block` is its number in K.
template <class P, class T>
MOEGEN_DEVICE void load_stage(const TensorArgs& args, const Shared<P, T>& shared, uint32_t stage, const Tile& tile,
                              uint32_t block, uint32_t rank) {
  constexpr uint32_t kDepth = kSliceBytes / sizeof(typename P::element_dtype);
  const uint32_t width = P::gather_a ? 0 : width_of<T>(tile.rows), share = width / T::cluster;
  mbarrier_arrive_expect(shared.full(stage), Layout<P, T>::weight_bytes + width * kSliceBytes);
  load_weights<P, T>(args, shared.weights(stage), shared.full(stage), block * kDepth, tile);
  if constexpr (P::gather_a) return;  // others bring the tokens
  load_tokens<T>(args, shared.tokens(stage) + rank * share * kSliceBytes, shared.full(stage), block * kDepth,
                 tile.row + rank * share, share);
}

/// Leads the stages of one tile. Those of a tile without an expert, and the last of all, carry nothing.
template <class P, class T>
MOEGEN_DEVICE void load_tile(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                             uint32_t rank) {
  const bool empty = tile.expert < 0;
  const uint32_t blocks = tile.rows == 0 ? 1 : empty ? kEmptySlices<T> : P::depth_blocks;
  for (uint32_t block = 0; block < blocks; ++block) {
    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
    if (block == 0) shared.tile(ring.stage) = tile;
    if (empty)
      mbarrier_arrive(shared.full(ring.stage));
    else
      load_stage<P, T>(args, shared, ring.stage, tile, block, rank);
    ring.next();
  }
}

/// The loading warp's work.
template <class P, class T>
MOEGEN_DEVICE void load_tiles(const TensorArgs& args, const Shared<P, T>& shared, uint32_t rank) {
  TileSource<P, T> tiles(args.args, shared, rank);
  Ring<T> ring;
  Tile tile;
  while (tiles.next(tile)) {
    if (lane_index() == 0) load_tile<P, T>(args, shared, ring, tile, rank);
    warp_sync();
  }
  if (lane_index() == 0) load_tile<P, T>(args, shared, ring, {0, 0, 0, -1}, rank);
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/kernel.cuh ---------------------------------------------------------------------------
// grouped_matmul on Hopper: c[r, n] = epilogue(sum_k a[r, k] * b[e(g), n, k]), for groups g of rows that lie anywhere.
//
// Algorithm. Blocks are resident and take tiles in turn (tile.cuh), or as they are dealt (deal.cuh). A tile is
// `weight_rows` rows of b by up to `max_tokens` rows of a; K passes through a ring of stages of 128 bytes, filled by
// tensor copies (load.cuh) and multiplied by warpgroups, 64 rows each (sum_*.cuh). The epilogue works on registers
// (finish*.cuh) and leaves through shared memory (store.cuh), while the loaders already fill the stages for the next
// tile.
//
// Roles: warpgroup 0 loads: its first warp goes through the tiles and issues the copies; with block128 the next
// `scale_warps` bring scales; with gather_a the next `gather_warps` bring tokens (gather.cuh); where tiles are dealt
// the last warp counts (deal.cuh). Warpgroups 1 .. `warpgroups` multiply and store. The loaders give registers back,
// the multipliers take them. Shared memory and barriers: pipeline.cuh. A tile's place travels in the stage with which
// it begins.


namespace moegen::grouped_matmul {

/// Keeps the compiler from merging the ends of different widths, which costs spills and serialises the products.
template <uint32_t N>
MOEGEN_DEVICE void keep_apart() {
#ifndef MOEGEN_TARGET_CPU
  asm volatile("// width %0" ::"n"(N) : "memory");
#endif
}

/// Lets `count` stages pass without a look at them.
template <class P, class T>
MOEGEN_DEVICE void pass_stages(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    warp_sync();  // all lanes are past the barrier, and have read the tile
    release_stage(shared, ring.stage);
    ring.next();
  }
}

/// The sum of one tile, 0 without an expert, whose stages have passed.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_any(const Shared<P, T>& shared, Ring<T>& ring, int32_t expert, uint32_t warpgroup,
                           float (&sum)[N / 2]) {
  clear(sum);
  if (expert >= 0) sum_tile<P, T, N>(shared, ring, warpgroup, sum);
}

/// Multiplies and stores the 64 tokens of a tile that this warpgroup has, if any. What the epilogue must know of the
/// tile waits in shared memory: two sums of 64 floats leave no register for it.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void multiply_tokens_m(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring,
                                     const Tile& tile, uint32_t warpgroup) {
  using Finish = typename T::template Finish<P, T, Custom, N>;
  if (warpgroup * kWarpgroupRows >= tile.rows)
    return pass_stages(shared, ring, tile.expert < 0 ? kEmptySlices<T> : P::depth_blocks);
  if (tile.expert < 0) pass_stages(shared, ring, kEmptySlices<T>);
  if (lane_index() == 0) shared.note() = tile;
  const typename Finish::Ahead ahead(args.args, tile, warpgroup);
  float sum[N / 2];
  sum_any<P, T, N>(shared, ring, tile.expert, warpgroup, sum);
  warp_sync();  // the note is there
  store_tile(Finish(args.args, shared.note(), warpgroup, ahead), args, shared, warpgroup, sum);
}

/// Multiplies a tile and stages its last rows, with the least width that holds it.
template <class P, class T, class Custom, uint32_t Index = 0, class Weights>
MOEGEN_DEVICE void multiply_width(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                                  const Weights& weights, uint32_t warpgroup) {
  if constexpr (Index + 1 < T::num_widths) {
    if (tile.rows > T::width(Index))
      return multiply_width<P, T, Custom, Index + 1>(args, shared, ring, tile, weights, warpgroup);
  }
  constexpr uint32_t kWidth = T::width(Index);
  const typename T::template Finish<P, T, Custom, kWidth> finish(args.args, tile, weights);
  float sum[kWidth / 2];
  sum_any<P, T, kWidth>(shared, ring, tile.expert, warpgroup, sum);
  stage_tile(finish, args, shared, warpgroup, sum);
  keep_apart<kWidth>();
}

/// Multiplies and stores a tile with tokens on N. What does not depend on the width is outside its code, which is there
/// once for each: it decides how long the kernel compiles.
template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tokens_n(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring,
                                     const Tile& tile, uint32_t warpgroup) {
  const typename T::template Finish<P, T, Custom, T::width(0)>::Weights weights(args.args, tile, warpgroup);
  if (tile.expert < 0) pass_stages(shared, ring, kEmptySlices<T>);
  multiply_width<P, T, Custom>(args, shared, ring, tile, weights, warpgroup);
  send_last_rows(args, shared, tile, warpgroup);
}

template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tile(const TensorArgs& args, const Shared<P, T>& shared, Ring<T>& ring, const Tile& tile,
                                 uint32_t warpgroup) {
  if constexpr (T::tokens_on_m)
    multiply_tokens_m<P, T, Custom, T::product_columns(0)>(args, shared, ring, tile, warpgroup);
  else
    multiply_tokens_n<P, T, Custom>(args, shared, ring, tile, warpgroup);
  warp_sync();
}

/// A multiplying warpgroup's work.
template <class P, class T, class Custom>
MOEGEN_DEVICE void multiply_tiles(const TensorArgs& args, const Shared<P, T>& shared, uint32_t warpgroup) {
  Ring<T> ring;
  while (true) {
    mbarrier_wait(shared.full(ring.stage), ring.parity);
    const Tile tile = shared.tile(ring.stage);
    if (tile.rows == 0) break;
    multiply_tile<P, T, Custom>(args, shared, ring, tile, warpgroup);
  }
  wait_for_boxes<T, 0>(lane_index() == 0);  // they read this block's memory
}

template <class P, class T>
MOEGEN_DEVICE void load(const TensorArgs& args, const Shared<P, T>& shared, uint32_t rank) {
  if (warp_index() == 0) load_tiles<P, T>(args, shared, rank);
  if constexpr (T::dealt) {
    static_assert(T::scale_warps <= 2 && !P::gather_a, "the last warp deals and does nothing else");
    if (warp_index() == 3) Dealer<P, T>(args.args, shared).run();
  }
  if constexpr (P::gather_a) {
    if (warp_index() >= 1 && warp_index() <= T::gather_warps) gather<P, T>(args.args, shared, warp_index() - 1);
  } else if constexpr (P::block_scales || P::mx_scales) {
    if (warp_index() >= 1 && warp_index() <= T::scale_warps)
      bring_scales<P, T>(args.args, shared, rank, warp_index() - 1);
  }
}

template <class P, class T, class Custom>
MOEGEN_DEVICE void run(const TensorArgs& args) {
  const Shared<P, T> shared = {dynamic_shared_tiles()};
  static_assert(Layout<P, T>::total <= T::shared_bytes, "the plan reserved less shared memory than the block needs");
  init_barriers(shared);
  launch_dependents();
  if constexpr (T::cluster > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    block_sync();
  }
  wait_for_dependencies();
  const uint32_t rank = T::cluster == 1 ? 0 : block_index() % T::cluster;
  if (warp_index() < kWarpgroupThreads / kWarpSize) {
    release_registers<T::loader_registers>();
    load(args, shared, rank);
  } else {
    acquire_registers<T::multiplier_registers>();
    multiply_tiles<P, T, Custom>(args, shared, warp_index() / 4 - 1);
  }
  if constexpr (T::cluster > 1) {
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace moegen::grouped_matmul

// ---- this kernel -----------------------------------------------------------------------------------------
namespace moegen {

/// What this kernel was specialised for.
struct Params {
  enum : bool { fuse_activation = true };  // derived: gate and up are never written and read again
  enum : bool { fuse_quantize = false };  // derived: c is stored in its own dtype
  using element_dtype = bfloat16;  // config: /dtypes/weight
  using output_dtype = bfloat16;  // config: /dtypes/activation
  using bias_dtype = bfloat16;  // config: /dtypes/activation
  enum : uint32_t { depth = 2880 };  // config: /hidden
  enum : uint32_t { columns = 5760 };  // derived: gate and up, intermediate each
  enum : uint32_t { output_columns = 2880 };  // derived: one of gate and up
  enum : uint32_t { num_matrices = 32 };  // derived: of b: local experts and shared slots
  enum : bool { rowwise = false };  // default: /quantization/scheme
  enum : bool { tensor_scales = false };  // default: /quantization/scheme
  enum : bool { block_scales = false };  // default: /quantization/scheme
  enum : bool { mx_scales = false };  // default: /quantization/scheme
  enum : bool { column_scales = false };  // default: /quantization/scale_layout
  enum : bool { promote = false };  // derived: 16-bit products are summed in float32 by the tensor cores
  enum : bool { bias = true };  // config: /experts/bias
  enum : bool { gated = true };  // derived: gate and up are multiplied in one tile
  enum : bool { halves = false };  // config: /activation/gate_layout
  enum : bool { epilogue = false };  // default: /experts/up_epilogue
  enum : bool { gather_a = false };  // default: /experts/gather_a
  enum : uint32_t { num_slots = 4 };  // derived: top_k and the router's shared slots
  using activation_kind = kinds::swiglu_oai;  // config: /activation/kind
  enum : bool { activation_gated = true };  // default: /activation/gated
  enum : bool { activation_limited = true };  // derived: a limit of the layer or of each expert
  enum : bool { limit_per_expert = false };  // default: /activation/limit_per_expert
  static MOEGEN_DEVICE constexpr float limit() { return 7.0f; }  // config: /activation/limit
  static MOEGEN_DEVICE constexpr float alpha() { return 1.702f; }  // default: /activation/alpha
  enum : uint32_t { depth_blocks = 45 };  // derived: slices of 128 bytes of K
  enum : uint32_t { scales_per_token = 1 };  // derived: a tile's weights share a block of scales
  enum : uint32_t { groups_per_lane = 1 };  // derived: 32 lanes look at all groups at once, up to 256
};

/// What the config adds to a sum.
struct Custom {
  static MOEGEN_DEVICE float activate(const grouped_matmul::Args& args, float gate, float up, int32_t expert) {
    return moegen::activate<Params>(gate, up, activation_limit<Params>(args.limits, expert));
  }
};

/// Tiles of up to 64 tokens.
struct Narrow {
  enum : uint32_t { max_tokens = 64 };
  enum : uint32_t { weight_rows = 128 };
  enum : uint32_t { tile_columns = 64 };
  enum : uint32_t { warpgroup_columns = 32 };
  enum : uint32_t { warpgroups = 2 };
  enum : uint32_t { stages = 9 };
  enum : uint32_t { cluster = 1 };
  enum : uint32_t { scale_warps = 0 };
  enum : uint32_t { staging_rows = 64 };
  enum : uint32_t { staging_bytes = 5120 };
  enum : uint32_t { raster = 4 };
  enum : uint32_t { even_tiles = 8 };
  enum : uint32_t { token_step = 8 };
  enum : uint32_t { box_heights = 56 };
  enum : uint32_t { num_widths = 4 };
  enum : uint32_t { shared_bytes = 231712 };
  enum : uint32_t { threads = 384 };
  enum : uint32_t { joined_tiles = 1 };
  enum : uint32_t { loader_registers = 40 };
  enum : uint32_t { multiplier_registers = 232 };
  enum : uint32_t { store_rows = 0 };
  enum : uint32_t { staging_panels = 0 };
  enum : uint32_t { part_columns = 128 };
  enum : uint32_t { scale_chunks = 1 };
  enum : uint32_t { scale_floats = 64 };
  enum : bool { tokens_on_m = false };
  enum : bool { aligned = false };
  enum : bool { weights_once = true };
  enum : bool { dealt = false };
  /// Columns of tokens that have a loop of their own, and the columns of a sum.
  static MOEGEN_DEVICE constexpr uint32_t width(uint32_t index) { return index == 0 ? 8 : index == 1 ? 16 : index == 2 ? 32 : 64; }
  static MOEGEN_DEVICE constexpr uint32_t product_columns(uint32_t index) { return index == 0 ? 8 : index == 1 ? 16 : index == 2 ? 32 : 64; }
  template <class P, class T, class Custom, uint32_t N>
  using Finish = grouped_matmul::FinishTokensN<P, T, Custom, N>;
};

/// Tiles of up to 256 tokens.
struct Wide {
  enum : uint32_t { max_tokens = 256 };
  enum : uint32_t { weight_rows = 128 };
  enum : uint32_t { tile_columns = 64 };
  enum : uint32_t { warpgroup_columns = 32 };
  enum : uint32_t { warpgroups = 2 };
  enum : uint32_t { stages = 4 };
  enum : uint32_t { cluster = 1 };
  enum : uint32_t { scale_warps = 0 };
  enum : uint32_t { staging_rows = 64 };
  enum : uint32_t { staging_bytes = 5120 };
  enum : uint32_t { raster = 8 };
  enum : uint32_t { even_tiles = 8 };
  enum : uint32_t { token_step = 8 };
  enum : uint32_t { box_heights = 224 };
  enum : uint32_t { num_widths = 8 };
  enum : uint32_t { shared_bytes = 208512 };
  enum : uint32_t { threads = 384 };
  enum : uint32_t { joined_tiles = 1 };
  enum : uint32_t { loader_registers = 40 };
  enum : uint32_t { multiplier_registers = 232 };
  enum : uint32_t { store_rows = 0 };
  enum : uint32_t { staging_panels = 0 };
  enum : uint32_t { part_columns = 128 };
  enum : uint32_t { scale_chunks = 1 };
  enum : uint32_t { scale_floats = 256 };
  enum : bool { tokens_on_m = false };
  enum : bool { aligned = false };
  enum : bool { weights_once = false };
  enum : bool { dealt = true };
  /// Columns of tokens that have a loop of their own, and the columns of a sum.
  static MOEGEN_DEVICE constexpr uint32_t width(uint32_t index) { return index == 0 ? 32 : index == 1 ? 64 : index == 2 ? 96 : index == 3 ? 128 : index == 4 ? 160 : index == 5 ? 192 : index == 6 ? 224 : 256; }
  static MOEGEN_DEVICE constexpr uint32_t product_columns(uint32_t index) { return index == 0 ? 32 : index == 1 ? 64 : index == 2 ? 96 : index == 3 ? 128 : index == 4 ? 160 : index == 5 ? 192 : index == 6 ? 224 : 256; }
  template <class P, class T, class Custom, uint32_t N>
  using Finish = grouped_matmul::FinishTokensN<P, T, Custom, N>;
};

template <>
struct Wgmma<bfloat16, 8> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[4], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 8, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, "
      "%4, %5, accumulate, 1, 1, %7, %8;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 8, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, accumulate, 1, 1, %10;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 16> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[8], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 16, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, accumulate, 1, 1, %11, %12;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[8], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 16, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, accumulate, 1, 1, %14;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 32> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[16], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 32, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, accumulate, 1, 1, %19, %20;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[16], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 32, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, accumulate, 1, 1, %22;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 64> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 64, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1, %35, %36;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 64, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, accumulate, 1, 1, %38;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 96> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[48], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 96, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, accumulate, 1, 1, %51, %52;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[48], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 96, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "{%48, %49, %50, %51}, %52, accumulate, 1, 1, %54;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 128> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 128, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, accumulate, 1, 1, %67, %68;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 128, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, accumulate, 1, 1, %70;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 160> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[80], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 160, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79}, "
      "%80, %81, accumulate, 1, 1, %83, %84;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[80], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 160, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %85, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79}, "
      "{%80, %81, %82, %83}, %84, accumulate, 1, 1, %86;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 192> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[96], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 192, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, accumulate, 1, 1, %99, %100;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[96], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 192, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %101, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95}, "
      "{%96, %97, %98, %99}, %100, accumulate, 1, 1, %102;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 224> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[112], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 224, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %114, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111}, "
      "%112, %113, accumulate, 1, 1, %115, %116;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[112], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 224, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %117, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111}, "
      "{%112, %113, %114, %115}, %116, accumulate, 1, 1, %118;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};

template <>
struct Wgmma<bfloat16, 256> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 256, MOEGEN_CPU_BFLOAT16, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, accumulate, 1, 1, %131, %132;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(a_transposed ? 1 : 0), "n"(b_transposed ? 1 : 0));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[128], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed, "registers have one order");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 256, MOEGEN_CPU_BFLOAT16, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "{%128, %129, %130, %131}, %132, accumulate, 1, 1, %134;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)), "n"(b_transposed ? 1 : 0));
#endif
  }
};


}  // namespace moegen

extern "C" __global__ void __launch_bounds__(384, 1)
moegen_grouped_matmul_narrow(const __grid_constant__ moegen::grouped_matmul::TensorArgs args) {
  using namespace moegen;
  grouped_matmul::run<Params, Narrow, Custom>(args);
}

extern "C" __global__ void __launch_bounds__(384, 1)
moegen_grouped_matmul_wide(const __grid_constant__ moegen::grouped_matmul::TensorArgs args) {
  using namespace moegen;
  grouped_matmul::run<Params, Wide, Custom>(args);
}
