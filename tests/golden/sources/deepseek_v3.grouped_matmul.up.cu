// SPDX-License-Identifier: Apache-2.0
// grouped_matmul.up of deepseek_v3 for sm_90a, written by moegen.

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

// ---- grouped_matmul/factors.cuh --------------------------------------------------------------------------
// grouped_matmul, schemes with scales by blocks of K: where the factors of a stage's tokens lie in shared memory.


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

// ---- grouped_matmul/sum_block128.cuh ---------------------------------------------------------------------
// grouped_matmul, scheme block128: the products of every 128 of K are summed by the tensor cores, multiplied by the
// scale of the token's block times that of the weights' block, and added to a float sum.
//
// The scales come with the stage: `scale_warps` warps of the loading warpgroup write them, having asked for them a
// while ahead; a warp that waits for each gather takes longer than the tensor cores do. They write the product of a
// token's and the weights' scale, rounded once (two where gate and up lie in different blocks); but with tokens on M,
// where the weights of a tile have several, they write them all as they are.


namespace moegen::grouped_matmul {

/// Tokens on N: the columns of a thread each have their factor, read where it is needed.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void add_by_column(const float* factors, const float (&part)[N / 2], float (&sum)[N / 2]) {
  constexpr uint32_t kUp = (P::scales_per_token - 1) * T::max_tokens;  // the lower 8 rows are those of up
  const float* mine = factors + lane_index() % 4 * 4;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; j += 2) {
    const FactorQuad upper = *reinterpret_cast<const FactorQuad*>(mine + 8 * j);
    const FactorQuad lower = kUp == 0 ? upper : *reinterpret_cast<const FactorQuad*>(mine + kUp + 8 * j);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t d = 4 * (j + i / 2) + i % 2;
      if (j + i / 2 >= N / 8) continue;
      sum[d] = math::fma(upper.factor[i], part[d], sum[d]);
      sum[d + 2] = math::fma(lower.factor[i], part[d + 2], sum[d + 2]);
    }
  }
}

/// Scales of the tile's weights in one block of K: of its chunks and, with gate and up apart, of both sides.
template <class P, class T>
constexpr uint32_t kWeightScales = T::scale_chunks * P::scales_per_token;

/// Tokens on M: what a thread needs of a stage's scales. Where the weights have one alone, the products for its two
/// tokens. Where they have more, those of the tokens and of the weights, and each thread multiplies: a few products
/// beside its many sums, where one warp for all tokens would have to store them for every part of the weights.
template <class P, class T>
struct StageScales {
  enum : bool { kApart = kWeightScales<P, T> > 1 };
  float token[2], weights[kWeightScales<P, T>];
  MOEGEN_DEVICE void load(const float* scales, uint32_t warpgroup) {
    const uint32_t row = warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) token[i] = scales[row + 8 * i];
    if constexpr (kApart) {
#pragma unroll
      for (uint32_t i = 0; i < kWeightScales<P, T>; ++i) weights[i] = scales[T::max_tokens + i];
    }
  }
  MOEGEN_DEVICE float factor(uint32_t token_index, uint32_t chunk, uint32_t side) const {
    if constexpr (!kApart) return token[token_index];
    return token[token_index] * weights[chunk * P::scales_per_token + side];
  }
};

/// Adds the partial sums of Columns columns from First on, whose scales are those of one chunk.
template <class P, class T, uint32_t First, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void add_chunk(const StageScales<P, T>& scales, uint32_t begin, const float (&part)[Columns / 2],
                             float (&sum)[N / 2]) {
  constexpr uint32_t kChunk = N / T::scale_chunks, kSides = P::scales_per_token;
  float factor[2][kSides];
#pragma unroll
  for (uint32_t i = 0; i < 2 * kSides; ++i)
    factor[i / kSides][i % kSides] = scales.factor(i / kSides, (First + begin) / kChunk, i % kSides);
#pragma unroll
  for (uint32_t i = begin / 2; i < min_of<uint32_t>(begin + kChunk, Columns) / 2; ++i) {
    const uint32_t side = kSides == 1 ? 0 : i / 4 % 2;  // 8 columns of gate, 8 of up
    sum[First / 2 + i] = math::fma(factor[i / 2 % 2][side], part[i], sum[First / 2 + i]);
  }
}

/// Adds the partial sums of columns from First on.
template <class P, class T, uint32_t First, uint32_t N, uint32_t Columns>
MOEGEN_DEVICE void add_by_row(const StageScales<P, T>& scales, const float (&part)[Columns / 2], float (&sum)[N / 2]) {
#pragma unroll
  for (uint32_t begin = 0; begin < Columns; begin += N / T::scale_chunks)
    add_chunk<P, T, First, N, Columns>(scales, begin, part, sum);
}

template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_tile(const Shared<P, T>& shared, Ring<T>& ring, uint32_t warpgroup, float (&sum)[N / 2]) {
  constexpr uint32_t kColumns = T::tokens_on_m ? T::part_columns : N;
  const Operands first = operands(shared, warpgroup);
  float part[kColumns / 2];
  clear(part);
  StageScales<P, T> scales;
  const auto multiply = [&](uint32_t stage) {
    multiply_part<P, T, kColumns>(first, stage, part, [&] {
      if constexpr (T::tokens_on_m) {
        scales.load(shared.scales(stage), warpgroup);
        warp_sync();  // all lanes have read theirs before one gives the stage back
      }
    });
    if constexpr (T::tokens_on_m) {
      if constexpr (kColumns < N) {
        add_by_row<P, T, 0, N, kColumns>(scales, part, sum);
        multiply_part<P, T, kColumns>(next_columns(first, kColumns), stage, part);
      }
      release_stage(shared, stage);
    }
  };
  const auto add = [&](uint32_t stage) {
    if constexpr (T::tokens_on_m) {
      add_by_row<P, T, N - kColumns, N, kColumns>(scales, part, sum);
    } else {
      add_by_column<P, T, N>(shared.scales(stage), part, sum);
      warp_sync();  // all lanes have read their factors
      release_stage(shared, stage);
    }
  };
  for_slices(shared, ring, multiply, add);
}

MOEGEN_DEVICE void load_words(const void* from, uint32_t (&words)[4]) {
  const Vector16 four = load_constant(from);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) words[i] = four.word[i];
}
MOEGEN_DEVICE void load_words(const void* from, uint32_t (&words)[2]) {
  const Vector8 two = load_constant8(from);
  words[0] = two.word[0], words[1] = two.word[1];
}

/// Where the scales of a tile lie.
template <class P, class T>
struct TileScales {
  using Scale = typename P::scale_dtype;
  enum : uint32_t {
    kRowBlocks = ceil_div<uint32_t>(P::columns, 128),
    kRowsOfColumn = P::gated && !P::halves ? 2 : 1,  // of b, before the next column's in one side
  };
  const Scale* a;  // of the tile's first row, block 0; of a's, where rows are gathered
  const Scale* b;  // of the chunk and side that this lane brings, of them all in turn
  bool any;        // the tile has scales

  MOEGEN_DEVICE TileScales(const Args& args, const Tile& tile, uint32_t lane) {
    any = tile.expert >= 0;
    const uint32_t first = P::gather_a ? 0 : tile.row;
    a = static_cast<const Scale*>(args.a_scales) + (P::column_scales ? first : first * uint64_t{P::depth_blocks});
    const uint32_t chunk = lane / P::scales_per_token % T::scale_chunks, side = lane % P::scales_per_token;
    const uint32_t column = tile.unit * T::tile_columns + chunk * (T::tile_columns / T::scale_chunks);
    const uint32_t row = side * P::output_columns + column * kRowsOfColumn;
    b = static_cast<const Scale*>(args.b_scales) +
        (static_cast<uint64_t>(any ? tile.expert : 0) * kRowBlocks + min_of<uint32_t>(row / 128, kRowBlocks - 1)) *
            P::depth_blocks;
  }
  /// Scales of Count blocks of K from `block` on; 0 where there are none. Those of a row that begins at a multiple of
  /// 16 (or 8) bytes come four (or two) at a time: each access of a warp whose lanes are in different rows takes the
  /// shared memory's path for 32 cycles, and the tensor cores need most of it.
  template <uint32_t Count>
  MOEGEN_DEVICE void of_token(uint32_t token, uint32_t block, uint64_t stride, bool inside,
                              float (&scale)[Count]) const {
    constexpr bool kTogether = !P::column_scales && sizeof(Scale) == 4 && P::depth_blocks % Count == 0;
    if constexpr (kTogether) {
      uint32_t words[Count] = {};
      if (inside && block < P::depth_blocks) load_words(a + token * uint64_t{P::depth_blocks} + block, words);
#pragma unroll
      for (uint32_t k = 0; k < Count; ++k) scale[k] = bits_float(words[k]);
    } else {
#pragma unroll
      for (uint32_t k = 0; k < Count; ++k) {
        const Scale* from =
            P::column_scales ? a + (block + k) * stride + token : a + token * uint64_t{P::depth_blocks} + block + k;
        scale[k] = inside && block + k < P::depth_blocks ? to_float(*from) : 0.0f;
      }
    }
  }
};

/// Scales of a few blocks of K on their way: of this lane's tokens, and of one chunk and side of the weights in one of
/// the blocks.
template <class P, class T>
struct ScaleBatch {
  enum : uint32_t {
    kTokens = ceil_div<uint32_t>(T::max_tokens, kWarpSize* T::scale_warps),
    // 12 scales, each at an address of its own or beside those of several parts of the weights, spill.
    kBlocks = kTokens > 2 && (P::column_scales || kWeightScales<P, T> > 1) ? 2 : 4,
  };
  float token[kTokens][kBlocks], weight;

  /// Chunk and side, in turns; the lane's block.
  static MOEGEN_DEVICE uint32_t place() { return lane_index() / kBlocks; }

  MOEGEN_DEVICE void load(const Args& args, const Tile& tile, uint32_t warp, uint32_t first) {
    const TileScales<P, T> from(args, tile, place());
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = token_of(warp, i);
      from.of_token(row, first, static_cast<uint64_t>(args.a_scales_stride), from.any && row < tile.rows, token[i]);
    }
    load_weight(from, first);
  }
  /// The same of a tile whose rows of a lie anywhere.
  template <class Gathered>
  MOEGEN_DEVICE void load(const Args& args, const Gathered& gathered, uint32_t warp, uint32_t first) {
    const TileScales<P, T> from(args, gathered.tile, place());
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = gathered.rows.row(i);
      from.of_token(row, first, static_cast<uint64_t>(args.a_scales_stride), from.any && row != kNone, token[i]);
    }
    load_weight(from, first);
  }
  MOEGEN_DEVICE void load_weight(const TileScales<P, T>& from, uint32_t first) {
    const uint32_t mine = first + lane_index() % kBlocks;
    weight = from.any && mine < P::depth_blocks ? to_float(from.b[mine]) : 0.0f;
  }
  static MOEGEN_DEVICE uint32_t token_of(uint32_t warp, uint32_t i) {
    return (i * T::scale_warps + warp) * kWarpSize + lane_index();
  }
  /// The products for each side of the weights.
  MOEGEN_DEVICE void store_products(float* factors, uint32_t warp, uint32_t k) const {
#pragma unroll
    for (uint32_t s = 0; s < P::scales_per_token; ++s) {
      const float of_weights = shuffle(weight, s * kBlocks + k);
#pragma unroll
      for (uint32_t i = 0; i < kTokens; ++i) {
        const uint32_t row = token_of(warp, i);
        if (row < T::max_tokens) factors[s * T::max_tokens + factor_place<T>(row)] = token[i][k] * of_weights;
      }
    }
  }
  /// The scales as they are.
  MOEGEN_DEVICE void store_apart(float* scales, uint32_t warp, uint32_t k) const {
    static_assert(kWeightScales<P, T> * kBlocks <= kWarpSize, "a lane brings one scale of the weights");
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t row = token_of(warp, i);
      if (row < T::max_tokens) scales[row] = token[i][k];
    }
    if (warp == 0 && lane_index() % kBlocks == k && place() < kWeightScales<P, T>)
      scales[T::max_tokens + place()] = weight;
  }
  MOEGEN_DEVICE void store(float* scales, uint32_t warp, uint32_t k) const {
    if constexpr (T::tokens_on_m && kWeightScales<P, T> > 1)
      store_apart(scales, warp, k);
    else
      store_products(scales, warp, k);
  }
};

/// One stage's scales of this warp.
template <class P, class T>
MOEGEN_DEVICE void bring_stage(const Shared<P, T>& shared, Ring<T>& ring, const ScaleBatch<P, T>& batch, uint32_t warp,
                               uint32_t k) {
  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
  batch.store(shared.scales(ring.stage), warp, k);
  warp_sync();
  if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
  ring.next();
}

/// Stages that carry no scales: the end, or a tile without an expert.
template <class P, class T>
MOEGEN_DEVICE void bring_nothing(const Shared<P, T>& shared, Ring<T>& ring, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
    warp_sync();
    if (lane_index() == 0) mbarrier_arrive(shared.full(ring.stage));
    ring.next();
  }
}

/// Biases take a register each.
template <class P>
MOEGEN_DEVICE constexpr bool wide_bias() {
  if constexpr (P::bias)
    return sizeof(typename P::bias_dtype) == 4;
  else
    return false;
}

/// A tile's scales, of which `now` are the first; leaves the first ones of the tile that follows, found by `tiles`, in
/// their place: they are on their way while this tile's last stages are still to be filled. Returns whether there is
/// one, in `tile`.
template <class P, class T>
MOEGEN_DEVICE bool bring_tile(const Args& args, const Shared<P, T>& shared, Ring<T>& ring, TileSource<P, T>& tiles,
                              Tile& tile, ScaleBatch<P, T>& now, uint32_t warp) {
  using Batch = ScaleBatch<P, T>;
  // A walk through more groups, column scales, many tokens or biases of 32 bits leave too few registers, but for three
  // warpgroups and one scale of weights; two of these leave too few there, too.
  constexpr uint32_t kHeavy = (!T::dealt && P::groups_per_lane > 1 ? 1 : 0) +
                              (P::column_scales && Batch::kBlocks > 2 ? 1 : 0) + (Batch::kTokens > 2 ? 1 : 0) +
                              (wide_bias<P>() ? 1 : 0);
  constexpr bool kAhead = kHeavy == 0 || (kHeavy == 1 && T::warpgroups == 3 && kWeightScales<P, T> == 1);
  const uint32_t blocks = tile.expert < 0 ? 0 : P::depth_blocks;
  if (blocks == 0) bring_nothing(shared, ring, kEmptySlices<T>);
  bool follows = false;
  uint32_t first = 0;
#pragma unroll 1
  do {
    const bool last = first + Batch::kBlocks >= blocks;
    if (kAhead && last) follows = tiles.next(tile);
    Batch later;
    if (!last || (kAhead && follows)) later.load(args, tile, warp, last ? 0 : first + Batch::kBlocks);
#pragma unroll
    for (uint32_t k = 0; k < Batch::kBlocks; ++k)
      if (first + k < blocks) bring_stage(shared, ring, now, warp, k);
    now = later;
    first += Batch::kBlocks;
  } while (first < blocks);
  if constexpr (!kAhead) {
    follows = tiles.next(tile);
    if (follows) now.load(args, tile, warp, 0);
  }
  return follows;
}

/// The work of one of the warps that bring scales.
template <class P, class T>
MOEGEN_DEVICE void bring_scales(const Args& args, const Shared<P, T>& shared, uint32_t rank, uint32_t warp) {
  TileSource<P, T> tiles(args, shared, rank);
  Ring<T> ring;
  Tile tile;
  ScaleBatch<P, T> batch;
  bool more = tiles.next(tile);
  if (more) batch.load(args, tile, warp, 0);
  while (more) more = bring_tile(args, shared, ring, tiles, tile, batch, warp);
  bring_nothing(shared, ring, 1);
}

}  // namespace moegen::grouped_matmul

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

// ---- core/quantize.cuh -----------------------------------------------------------------------------------
// Quantisers: scales of groups of floats, and their codes. Permute, activation, quantize and matmul epilogues share
// them, so that the same floats give the same bytes wherever they are quantised.
//
// Definition, at two roundings. absmax: the largest finite magnitude of a group (0 if there is none).
//   float32 scale   = fl32(max(absmax, floor) / 448), correctly rounded
//   e8m0 scale      = 2^ceil(log2 of that), with 448 (e4m3 codes) or 6 (e2m1 codes)
//   nvfp4           : e4m3 scale = e4m3(fl32(fl32(global * absmax) / 6)), divisor fl32(scale / global)
//   code            = to nearest even, saturating, of fl32(x / scale)
// +-infinity saturates. NaN stays NaN in e4m3; in e2m1 a NaN makes the scale of its group NaN and its codes 7. Where
// the e4m3 scale of nvfp4 is 0 all codes are 0.
//
// Division. IEEE division takes about ten instructions; Quotient takes three and gives the same code: what its inverse
// misses of 1 / scale is added to the product before that is rounded, which leaves less than 2^-24 ulp, so it can
// differ from fl32(x / s) only beside a rounding boundary of the code, a number of five significant bits.
// tests/unit/test_quantize.cpp tries every significand of s against every such boundary, whichever way the correction
// is rounded. (It needs the nearest float to 1 / s, once a group, and the square of its error: without either, a few
// significands fail.) Infinities have no such quotient: a thread that has one bounds its values first.


namespace moegen {

/// Largest finite number.
constexpr float kLargestFloat = 3.40282347e38f;

/// What the scale of a group depends on, and what its quotients do.
struct Magnitude {
  float largest;  // of the finite values, 0 if there is none
  bool finite;    // all values are
  bool nan;       // there is a NaN
};

/// Of `Count` values of this thread.
template <uint32_t Count>
MOEGEN_DEVICE Magnitude finite_magnitude(const float (&value)[Count]) {
  float largest = 0.0f;
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) largest = math::max(largest, math::abs(value[i]));
  if (largest <= kLargestFloat) return {largest, true, false};
  const bool nan = largest != largest;
  largest = 0.0f;
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) {
    const float magnitude = math::abs(value[i]);
    if (magnitude <= kLargestFloat) largest = math::max(largest, magnitude);
  }
  return {largest, false, nan};
}

/// Of no value.
constexpr Magnitude kNothing = {0.0f, true, false};

/// Of the values of both.
MOEGEN_DEVICE Magnitude larger_of(const Magnitude& a, const Magnitude& b) {
  return {max_of(a.largest, b.largest), a.finite && b.finite, a.nan || b.nan};
}

/// Bounds all values, infinities too, to `limit`; NaN stays NaN.
template <uint32_t Count>
MOEGEN_DEVICE void bound_values(float (&value)[Count], float limit) {
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) value[i] = math::clamp(value[i], -limit, limit);
}

/// limit / Largest, correctly rounded, for finite limits from 2^-100 on: multiplied, and the remainder put right
/// (every significand is tried in tests/unit/test_quantize.cpp). Largest: 448 or 6.
template <uint32_t Largest>
MOEGEN_DEVICE float scale_of(float limit) {
  constexpr float kInverse = 1.0f / static_cast<float>(Largest);
  const float quotient = limit * kInverse;
  return math::fma(math::fma(-quotient, static_cast<float>(Largest), limit), kInverse, quotient);
}

/// a * b, rounded to negative infinity, where a zero is -0 and a subnormal one becomes 0. fma.rm.ftz.f32
MOEGEN_DEVICE float product_down(float a, float b) {
#ifdef MOEGEN_TARGET_CPU
  const float product = a * b;  // to nearest otherwise: no code depends on how a correction is rounded
  return math::abs(product) < 1.17549435e-38f ? -0.0f : product;
#else
  float result;
  asm("fma.rm.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(-0.0f));
  return result;
#endif
}

/// 1 / x, rounded once, for x from 2^-120 to 2^120: the instructions of rcp.rn.f32 without its cases for other numbers.
MOEGEN_DEVICE float reciprocal_in_range(float x) {
#ifdef MOEGEN_TARGET_CPU
  return 1.0f / x;
#else
  const float estimate = approx::reciprocal(x);
  return math::fma(math::fma(-estimate, x, 1.0f), estimate, estimate);
#endif
}

/// x / scale, for codes (see above); finite x. Scale in [2^-120, 2^120].
struct Quotient {
  float inverse;  // 1 / scale, rounded once
  float missing;  // 1 / scale = inverse (1 + missing)

  MOEGEN_DEVICE explicit Quotient(float scale) : inverse(reciprocal_in_range(scale)) {
    const float error = math::fma(-inverse, scale, 1.0f);
    missing = math::fma(error, error, error);
  }
  MOEGEN_DEVICE float operator()(float x) const {
    // A correction of -0 keeps the sign of a quotient of -0.
    return math::fma(x, inverse, product_down(x * inverse, missing));
  }
};

/// x / scale for any scale.
struct Divided {
  float scale;
  MOEGEN_DEVICE float operator()(float x) const { return math::divide(x, scale); }
};

/// x * factor, exact where the factor is a power of two.
struct Multiplied {
  float factor;
  MOEGEN_DEVICE float operator()(float x) const { return x * factor; }
};

/// True if Quotient may stand for a division by `scale`, and 2^9 times that bound what is divided: 2^-90 to 2^110.
MOEGEN_DEVICE bool has_quotient(float scale) { return scale >= 8.0779357e-28f && scale <= 1.29807421e33f; }

/// Codes of `Count` values, four a word, the first in the low byte.
template <class Quotient, uint32_t Count>
MOEGEN_DEVICE void encode_e4m3(const float (&value)[Count], const Quotient& quotient, uint32_t (&word)[Count / 4]) {
#pragma unroll
  for (uint32_t i = 0; i < Count / 4; ++i)
    word[i] = pack_e4m3(quotient(value[4 * i]), quotient(value[4 * i + 1])) |
              pack_e4m3(quotient(value[4 * i + 2]), quotient(value[4 * i + 3])) << 16;
}

/// x / (2 divisor), for e2m1 codes; finite x, whose sign a zero may lose. Divisor in [2^-90, 2^90]: there, what is
/// missing of the inverse has bits enough by itself, which saves an instruction.
struct HalfQuotient {
  float inverse, missing;  // 1 / (2 divisor), rounded once, and the rest of it

  MOEGEN_DEVICE explicit HalfQuotient(float divisor) {
    const Quotient by(2.0f * divisor);
    inverse = by.inverse;
    missing = by.inverse * by.missing;
  }
  MOEGEN_DEVICE float operator()(float x) const { return math::fma(x, inverse, x * missing); }
};

/// 2^23 and the e2m1 code of the magnitude 2 |half|: to nearest even, above 6: 7. The code is linear in the magnitude
/// below 2, from 2 to 4 and above, with 2, 1 and 0.5 steps a unit; of the three parts only one is no whole number, so
/// one of the sums rounds. All of them are float instructions, which come at twice the rate of integer ones.
MOEGEN_DEVICE float round_to_e2m1(float half) {
  const float magnitude = math::abs(half);
  const float below_2 = approx::add_saturated(magnitude, 0.0f), below_4 = approx::add_saturated(magnitude, -1.0f);
  const float above_4 = approx::add_saturated(magnitude, -2.0f);
  return math::fma(below_4, 2.0f, math::fma(below_2, 4.0f, 8388608.0f)) + above_4;
}

/// Codes of eight of `value` from `First` on, the first in the low half of the low byte. half(x): x / (2 scale); the
/// sign is that of the value.
template <uint32_t First, class Half, uint32_t Count>
MOEGEN_DEVICE uint32_t encode_e2m1(const float (&value)[Count], const Half& half) {
  constexpr uint32_t kOffsets = 0x4B000000u * 0x11u;  // of 2^23 in all eight sums
  uint32_t codes = 0, signs = 0;
#pragma unroll
  for (uint32_t i = 8; i-- > 0;) {
    const float x = value[First + i];
    codes = codes * 16 + float_bits(round_to_e2m1(half(x)));
    signs = signs << 4 | float_bits(x) >> 28;
  }
  return ((codes - kOffsets) & 0x77777777u) | (signs & 0x88888888u);
}

/// The e8m0 scale of a group: the bits of the smallest power of two that is at least limit / Largest, for what scale_of
/// takes; at most 2^126.
template <uint32_t Largest>
MOEGEN_DEVICE uint32_t e8m0_scale_of(float limit) {
  return (float_bits(scale_of<Largest>(limit)) + 0x7FFFFFu) >> 23;
}

/// x / 2^e of the bits of such a scale.
MOEGEN_DEVICE Multiplied inverse_of_e8m0(uint32_t scale) { return {bits_float((254 - scale) << 23)}; }

/// The float32 scale and the codes of values of a group. `group` is the magnitude of all of it, but `finite` need only
/// be that of these values.
template <class P, uint32_t Count>
MOEGEN_DEVICE float quantize_float32(float (&value)[Count], const Magnitude& group, uint32_t (&word)[Count / 4]) {
  const float limit = math::max(group.largest, P::floor());
  const float scale = scale_of<448>(limit);
  if (!group.finite) bound_values(value, limit);
  encode_e4m3(value, Quotient(scale), word);
  return scale;
}

/// The e8m0 scale and the e4m3 codes of such a group.
template <class P, uint32_t Count>
MOEGEN_DEVICE uint32_t quantize_e8m0(const float (&value)[Count], const Magnitude& group, uint32_t (&word)[Count / 4]) {
  const uint32_t scale = e8m0_scale_of<448>(math::max(group.largest, P::floor()));
  encode_e4m3(value, inverse_of_e8m0(scale), word);
  return scale;
}

/// The same with the e2m1 codes of 16 values. A NaN in the group makes the scale NaN and all codes 7.
template <class P>
MOEGEN_DEVICE uint32_t quantize_mxfp4(const float (&value)[16], const Magnitude& group, uint32_t (&word)[2]) {
  const uint32_t scale = e8m0_scale_of<6>(math::max(group.largest, P::floor()));
  const Multiplied half{0.5f * inverse_of_e8m0(scale).factor};
  word[0] = group.nan ? 0x77777777u : encode_e2m1<0>(value, half);
  word[1] = group.nan ? 0x77777777u : encode_e2m1<8>(value, half);
  return group.nan ? 0xFF : scale;
}

/// scale / global, rounded once: a product by the inverse, put right by its remainder (Markstein's division; every
/// significand of global is tried with each of scale, an e4m3 number, in tests/unit/test_quantize.cpp).
MOEGEN_DEVICE float divisor_of(float scale, float global) {
  const float inverse = reciprocal_in_range(global), quotient = scale * inverse;
  return math::fma(math::fma(-quotient, global, scale), inverse, quotient);
}

/// The e4m3 scale and the e2m1 codes of a group of 16. A factor of 2^-80 to 2^80 leaves every divisor where
/// HalfQuotient is exact.
MOEGEN_DEVICE uint32_t quantize_nvfp4(float (&value)[16], float global, uint32_t (&word)[2]) {
  const Magnitude group = finite_magnitude(value);
  // Products below what scale_of takes have a scale of 0 in any case.
  const uint32_t scale = pack_e4m3(scale_of<6>(math::min(global * group.largest, kLargestFloat)), 0.0f) & 0xFF;
  const float divisor = divisor_of(unpack_e4m3(scale).low, global);
  if (!group.finite || group.largest > 16.0f * divisor) bound_values(value, 8.0f * divisor);
  const HalfQuotient half(divisor);
  word[0] = encode_e2m1<0>(value, half);
  word[1] = encode_e2m1<8>(value, half);
  const bool special = group.nan || scale == 0;
  if (special) word[0] = word[1] = group.nan ? 0x77777777u : 0;
  return group.nan ? 0x7F : scale;
}

}  // namespace moegen

// ---- core/group_magnitude.cuh ----------------------------------------------------------------------------
// Magnitudes of groups whose values lie in neighbouring lanes of a warp. All its lanes take part.


namespace moegen {

/// Magnitude of the group of `Width` values that this thread's are part of; `finite` and `nan` are those of its own.
template <uint32_t Width, uint32_t Count>
MOEGEN_DEVICE Magnitude group_magnitude(const float (&value)[Count]) {
  Magnitude group = finite_magnitude(value);
  group.largest = lanes_max<Width / Count>(group.largest);
  return group;
}

/// The same where a NaN is one of the whole group, whose largest value then means nothing.
template <uint32_t Width, uint32_t Count>
MOEGEN_DEVICE Magnitude group_magnitude_or_nan(const float (&value)[Count]) {
  Magnitude group = finite_magnitude(value);
  group.largest = lanes_max<Width / Count>(group.nan ? bits_float(0x7FFFFFFFu) : group.largest);
  group.nan = group.largest != group.largest;
  return group;
}

}  // namespace moegen

// ---- grouped_matmul/quantize.cuh -------------------------------------------------------------------------
// grouped_matmul, quantised output: groups of columns of a row of c (128 of block128, 32 of mxfp8) become e4m3 codes
// and one scale, by the quantiser that all kernels share. A tile holds whole groups.


namespace moegen::grouped_matmul {

/// Columns of c that share a scale.
template <class P>
constexpr uint32_t kGroupColumns = P::mx_scales ? 32 : 128;

/// Codes of `Count` values of a group, which neighbouring lanes hold; returns the scale as it is stored.
template <class P, uint32_t Count>
MOEGEN_DEVICE typename P::scale_dtype quantize_group(float (&value)[Count], uint32_t (&word)[Count / 4]) {
  const Magnitude group = group_magnitude<kGroupColumns<P>>(value);
  if constexpr (sizeof(typename P::scale_dtype) == 4)
    return quantize_float32<P>(value, group, word);
  else
    return {static_cast<uint8_t>(quantize_e8m0<P>(value, group, word))};
}

/// Stores the scale of group `group` of row `row` of c.
template <class P>
MOEGEN_DEVICE void store_scale(const Args& args, uint64_t row, uint32_t group, typename P::scale_dtype scale) {
  constexpr uint32_t kGroups = ceil_div<uint32_t>(P::output_columns, kGroupColumns<P>);
  const uint64_t index =
      P::column_scales ? group * static_cast<uint64_t>(args.c_scales_stride) + row : row * kGroups + group;
  static_cast<typename P::scale_dtype*>(args.c_scales)[index] = scale;
}

/// Quantises and stores the four values at `four`, which belong to row `row` of c from column `column` on; `inside`:
/// they are there. All lanes of a warp take part, neighbours with neighbouring columns.
template <class P>
MOEGEN_DEVICE void send_four(const Args& args, const float* four, uint64_t row, uint32_t column, bool inside) {
  const Vector16 loaded = *reinterpret_cast<const Vector16*>(four);
  float value[4];
  uint32_t word[1];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) value[i] = bits_float(loaded.word[i]);
  const auto scale = quantize_group<P>(value, word);
  if (!inside || column >= P::output_columns) return;
  *reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(args.c) + row * P::output_columns + column) = word[0];
  if (column % kGroupColumns<P> == 0) store_scale<P>(args, row, column / kGroupColumns<P>, scale);
}

/// Floats between two staged rows: 16 bytes more than their length, against bank conflicts.
template <class T>
constexpr uint32_t kFloatStride = T::tile_columns + 4;

/// Quantises and stores `rows` staged rows of floats of a tile, the first of them row `row` of c: warp `warp` of
/// `Warps`, a row of 128 columns at a time, or two of 64.
template <class P, class T, uint32_t Warps>
MOEGEN_DEVICE void send_quantised(const Args& args, const Tile& tile, const float* staging, uint32_t row, uint32_t rows,
                                  uint32_t warp) {
  static_assert(T::tile_columns == 64 || T::tile_columns == 128, "of a tile in whole warps");
  static_assert(T::tile_columns % kGroupColumns<P> == 0, "a tile holds whole groups");
  constexpr uint32_t kFours = T::tile_columns / 4, kRows = kWarpSize / kFours;
  const uint32_t mine = lane_index() % kFours * 4, column = tile.unit * T::tile_columns + mine;
#pragma unroll 1
  for (uint32_t first = warp * kRows; first < rows; first += Warps * kRows) {
    const uint32_t at = first + lane_index() / kFours;
    send_four<P>(args, staging + at * kFloatStride<T> + mine, uint64_t{row} + at, column, at < rows);
  }
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/quantize_tokens_n.cuh ----------------------------------------------------------------
// grouped_matmul, quantised stores of tiles with tokens on N: a group of columns lies across several warps, so the
// tile's floats meet in shared memory, and a warp quantises a row at a time.


namespace moegen::grouped_matmul {

/// The values of `staging_rows` tokens by the tile's columns, of the whole block.
template <class T>
struct FloatStaging {
  enum : uint32_t { kThreads = T::warpgroups * kWarpgroupThreads };
  static_assert(T::warpgroups * T::staging_bytes >= T::staging_rows * kFloatStride<T> * 4);
  float* base;
  MOEGEN_DEVICE float* row(uint32_t index) const { return base + index * kFloatStride<T>; }
  MOEGEN_DEVICE void sync() const { named_sync(1, kThreads); }
};

/// Stages tokens [first, first + staging_rows) of the tile.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_floats(const FinishTokensN<P, T, Custom, N>& finish, const FloatStaging<T>& staging,
                                const float (&sum)[N / 2], uint32_t first) {
  const uint32_t mine = finish.weights.column - finish.tile.unit * T::tile_columns;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; ++j) {
    if (8 * j < first || 8 * j >= first + T::staging_rows) continue;
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k) staging.row(8 * j - first + lane_index() % 4 * 2 + k)[mine + 8 * half] = pair[k];
    }
  }
}

/// Brings staged tokens [first, first + rows) of the tile on their way, with all multiplying warpgroups together.
template <class P, class T>
MOEGEN_DEVICE void send_floats(const Args& args, const FloatStaging<T>& staging, const Tile& tile, uint32_t first,
                               uint32_t rows) {
  staging.sync();
  send_quantised<P, T, FloatStaging<T>::kThreads / kWarpSize>(args, tile, staging.base, tile.row + first, rows,
                                                              warp_index() - kWarpgroupThreads / kWarpSize);
  staging.sync();
}

/// Brings a finished tile on its way but for its last rows, which are left in the staging.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_tile(const FinishTokensN<P, T, Custom, N>& finish, const TensorArgs&,
                              const Shared<P, T>& shared, uint32_t, const float (&sum)[N / 2]) {
  const FloatStaging<T> staging = {reinterpret_cast<float*>(shared.staging(0))};
#pragma unroll
  for (uint32_t first = 0; first < N; first += T::staging_rows) {
    stage_floats(finish, staging, sum, first);
    if (finish.tile.rows <= first + T::staging_rows) break;
    send_floats<P>(finish.args, staging, finish.tile, first, T::staging_rows);
  }
}

/// Brings what stage_tile left on its way.
template <class P, class T>
MOEGEN_DEVICE void send_last_rows(const TensorArgs& args, const Shared<P, T>& shared, const Tile& tile, uint32_t) {
  const FloatStaging<T> staging = {reinterpret_cast<float*>(shared.staging(0))};
  const uint32_t first = (tile.rows - 1) / T::staging_rows * T::staging_rows;
  send_floats<P>(args.args, staging, tile, first, tile.rows - first);
}

}  // namespace moegen::grouped_matmul

// ---- grouped_matmul/finish_tokens_m.cuh ------------------------------------------------------------------
// grouped_matmul, epilogue of tiles with tokens on M and weights on N: a thread holds two tokens, 8 apart, and pairs of
// neighbouring rows of weights. With gate and up in one tile 8 columns of gate and 8 of up take turns.


namespace moegen::grouped_matmul {

/// One bias, or two of 16 bits, in a register. Any: there are biases.
template <class P, bool Any>
struct PackedBias {
  enum : uint32_t { kCount = 1 };
};
template <class P>
struct PackedBias<P, true> {
  enum : uint32_t { kCount = 4 / sizeof(typename P::bias_dtype) };
  uint32_t word = 0;
  MOEGEN_DEVICE void put(uint32_t index, float bias) {
    if constexpr (kCount == 1)
      word = float_bits(bias);
    else
      word |= pack_pair(typename P::bias_dtype{}, bias, 0.0f) << 16 * index;  // exact: it was one
  }
  /// The lane's.
  MOEGEN_DEVICE float get(uint32_t index, uint32_t lane) const {
    const uint32_t got = shuffle(word, lane);
    if constexpr (kCount == 1)
      return bits_float(got);
    else
      return to_float(typename P::bias_dtype{static_cast<uint16_t>(got >> 16 * index)});
  }
};

/// Scales and biases of the tile's N rows of weights over the lanes of a warp, fetched from the lane: row r in lane
/// r % 32. They are there while the tile is multiplied, so 16-bit biases share a register, those of row r and r + 32.
template <class P, class T, uint32_t N>
struct WeightTerms {
  enum : uint32_t {
    kCount = ceil_div<uint32_t>(N, kWarpSize),
    kScales = P::rowwise || P::tensor_scales ? kCount : 1,
    kShare = PackedBias<P, P::bias>::kCount,
    kBiases = P::bias ? ceil_div<uint32_t>(kCount, kShare) : 1,
  };
  float scale[kScales];
  PackedBias<P, P::bias> bias[kBiases];
  MOEGEN_DEVICE void load(const Args& args, const Tile& tile) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t row = i * kWarpSize + lane_index(), first = tile.unit * T::tile_columns;
      ColumnTerms<P> terms;
      terms.load(args, tile.expert, first + (P::gated ? row / 16 * 8 + row % 8 : row), P::gated && row / 8 % 2 == 1);
      if constexpr (P::rowwise || P::tensor_scales) scale[i] = terms.scale;
      if constexpr (P::bias) bias[i / kShare].put(i % kShare, terms.bias);
    }
  }
  /// Of row 8 * j + 2 * (lane % 4) + k of the tile.
  MOEGEN_DEVICE ColumnTerms<P> get(uint32_t j, uint32_t k) const {
    const uint32_t i = j * 8 / kWarpSize, lane = j * 8 % kWarpSize + lane_index() % 4 * 2 + k;
    ColumnTerms<P> got;
    if constexpr (P::rowwise || P::tensor_scales) got.scale = shuffle(scale[i], lane);
    if constexpr (P::bias) got.bias = bias[i / kShare].get(i % kShare, lane);
    return got;
  }
};

/// The first of a thread's two tokens in the tile; the second lies 8 further.
MOEGEN_DEVICE uint32_t first_token(uint32_t warpgroup) {
  return warpgroup * kWarpgroupRows + warp_index() % 4 * 16 + lane_index() / 4;
}

/// What a thread loads ahead of the sum.
template <class P, class T, uint32_t N>
struct TermsAhead {
  float scale[2];  // of its tokens
  WeightTerms<P, T, N> weights;

  MOEGEN_DEVICE TermsAhead(const Args& args, const Tile& tile, uint32_t warpgroup) {
    scale[0] = token_scale<P>(args, tile, first_token(warpgroup));
    scale[1] = token_scale<P>(args, tile, first_token(warpgroup) + 8);
    weights.load(args, tile);
  }
};

/// Terms of two neighbouring columns, for both tokens of a thread; with gate and up those of both.
template <class P>
struct PairTerms {
  ColumnTerms<P> first[2], up[P::gated ? 2 : 1];
};

/// The epilogue's part of one thread: how a sum becomes values.
template <class P, class T, class Custom, uint32_t N>
struct FinishTokensM {
  using Ahead = TermsAhead<P, T, N>;
  const Args& args;
  const Tile tile;
  const uint32_t token;  // of the tile, of this thread's first
  const Ahead& ahead;

  MOEGEN_DEVICE FinishTokensM(const Args& arguments, const Tile& where, uint32_t warpgroup, const Ahead& terms)
      : args(arguments), tile(where), token(first_token(warpgroup)), ahead(terms) {}

  /// Of columns 8 * j + 2 * (lane % 4) and the next of the tile. All lanes ask together.
  MOEGEN_DEVICE PairTerms<P> terms(uint32_t j) const {
    PairTerms<P> got;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      got.first[k] = ahead.weights.get(P::gated ? 2 * j : j, k);
      if constexpr (P::gated) got.up[k] = ahead.weights.get(2 * j + 1, k);
    }
    return got;
  }

  /// Values of token + 8 * half in these columns.
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, float (&out)[2]) const {
    values(sum, j, half, terms(j), out);
  }
  MOEGEN_DEVICE void values(const float (&sum)[N / 2], uint32_t j, uint32_t half, const PairTerms<P>& terms,
                            float (&out)[2]) const {
    const uint32_t group = P::gated ? 2 * j : j;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const float first = scaled(sum[4 * group + 2 * half + k], ahead.scale[half], terms.first[k]);
      float up = 0.0f;
      if constexpr (P::gated) up = scaled(sum[4 * group + 4 + 2 * half + k], ahead.scale[half], terms.up[k]);
      const uint32_t column = tile.unit * T::tile_columns + 8 * j + lane_index() % 4 * 2 + k;
      out[k] = finished<P, Custom>(args, tile, token + 8 * half, column, first, up);
    }
  }
};

}  // namespace moegen::grouped_matmul

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

// ---- grouped_matmul/quantize_tokens_m.cuh ----------------------------------------------------------------
// grouped_matmul, quantised stores of tiles with tokens on M: a group of 128 columns of a token lies in four lanes,
// which quantise it in registers.
//
// A tile of 64 columns holds half a group. The block takes both halves one after the other (`joined_tiles`): a thread
// parks its values of the first in the staging, and quantises them with those of the second.


namespace moegen::grouped_matmul {

/// This thread's values of token + 8 * half, `Columns` columns of c, to `value` from First on.
template <uint32_t First, uint32_t Columns, uint32_t Count, class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void take_values(const FinishTokensM<P, T, Custom, N>& finish, const float (&sum)[N / 2], uint32_t half,
                               float (&value)[Count]) {
#pragma unroll
  for (uint32_t j = 0; j < Columns / 8; ++j) {
    float pair[2];
    finish.values(sum, j, half, pair);
    value[First + 2 * j] = pair[0];
    value[First + 2 * j + 1] = pair[1];
  }
}

/// Quantises token + 8 * half of this thread, with its neighbours, stages the codes and stores the scale.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_codes(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               float (&value)[32], uint32_t half) {
  uint32_t word[8];
  const auto scale = quantize_group<P>(value, word);
  const uint32_t row = finish.token % kWarpgroupRows + 8 * half;
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    *reinterpret_cast<uint16_t*>(staging.at(row, 8 * i + lane_index() % 4 * 2)) =
        static_cast<uint16_t>(word[i / 2] >> 16 * (i % 2));
  const uint32_t token = finish.token + 8 * half, group = finish.tile.unit / T::joined_tiles;
  if (lane_index() % 4 == 0 && token < finish.tile.rows && group * 128 < P::output_columns)
    store_scale<P>(finish.args, uint64_t{finish.tile.row} + token, group, scale);
}

/// Where a thread parks its values of half a group: pieces of 16 bytes, those of a warp side by side, in memory that
/// this warp alone uses. Those of its first token lie where the warp's codes are staged.
template <class P, class T>
struct Parking {
  enum : uint32_t { kTokenPieces = 4, kWarpBytes = kTokenPieces * kWarpSize * 16 };
  static_assert(T::tile_columns == 64 && T::staging_bytes >= 2 * 4 * kWarpBytes);
  static_assert(kWarpBytes == 16 * kSliceBytes, "the codes of a warp's 16 tokens");
  unsigned char* base;

  MOEGEN_DEVICE Vector16& piece(uint32_t half, uint32_t i) const {
    unsigned char* warp = base + (half * 4 + warp_index() % 4) * kWarpBytes;
    return reinterpret_cast<Vector16*>(warp)[i * kWarpSize + lane_index()];
  }
  MOEGEN_DEVICE void put(uint32_t half, const float (&value)[16]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTokenPieces; ++i)
      piece(half, i) = {{float_bits(value[4 * i]), float_bits(value[4 * i + 1]), float_bits(value[4 * i + 2]),
                         float_bits(value[4 * i + 3])}};
  }
  template <uint32_t Count>
  MOEGEN_DEVICE void get(uint32_t half, float (&value)[Count]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTokenPieces; ++i) {
      const Vector16 four = piece(half, i);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) value[4 * i + k] = bits_float(four.word[k]);
    }
  }
};

/// Parks the first half of a group, once the codes that were staged there before have left.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void park_values(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               const float (&sum)[N / 2]) {
  const Parking<P, T> parking = {staging.base};
  wait_for_boxes<T, 0>(lane_index() == 0);
  warp_sync();
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[16];
    take_values<0, 64>(finish, sum, half, value);
    parking.put(half, value);
  }
}

/// Stages the codes of a whole group, whose first half was parked.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_joined(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                                const float (&sum)[N / 2]) {
  const Parking<P, T> parking = {staging.base};
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[32];
    parking.get(half, value);
    warp_sync();  // codes lie where another lane's values were
    take_values<16, 64>(finish, sum, half, value);
    stage_codes(finish, staging, value, half);
  }
}

/// Stages the codes of a tile of a whole group, of one token after the other.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_whole(const FinishTokensM<P, T, Custom, N>& finish, const Staging<P, T>& staging,
                               const float (&sum)[N / 2]) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float value[32];
    take_values<0, 128>(finish, sum, half, value);
    stage_codes(finish, staging, value, half);
  }
}

/// Brings a finished tile of this warpgroup on its way: its 64 tokens.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void store_tile(const FinishTokensM<P, T, Custom, N>& finish, const TensorArgs& args,
                              const Shared<P, T>& shared, uint32_t warpgroup, const float (&sum)[N / 2]) {
  static_assert(T::tile_columns * T::joined_tiles == 128, "joined tiles are one group of columns");
  const Staging<P, T> staging = {shared.staging(warpgroup), warpgroup};
  if constexpr (T::joined_tiles == 1) {
    store_panels(args, staging, finish.tile, warpgroup, [&](uint32_t, uint32_t) { stage_whole(finish, staging, sum); });
  } else if (finish.tile.unit % 2 == 0) {
    park_values(finish, staging, sum);
  } else {
    stage_joined(finish, staging, sum);
    send_warp(args, staging, finish.tile, warpgroup, 0, finish.tile.unit / 2 * 128);
  }
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
  enum : bool { fuse_quantize = true };  // derived: c is what the down projection reads
  using element_dtype = float8_e4m3fn;  // config: /dtypes/weight
  using output_dtype = float8_e4m3fn;  // derived: the element of the down projection
  using scale_dtype = float;  // config: /quantization/scale
  enum : uint32_t { depth = 7168 };  // config: /hidden
  enum : uint32_t { columns = 4096 };  // derived: gate and up, intermediate each
  enum : uint32_t { output_columns = 2048 };  // derived: one of gate and up
  enum : uint32_t { num_matrices = 256 };  // derived: of b: local experts and shared slots
  enum : bool { rowwise = false };  // config: /quantization/scheme
  enum : bool { tensor_scales = false };  // config: /quantization/scheme
  enum : bool { block_scales = true };  // config: /quantization/scheme
  enum : bool { mx_scales = false };  // config: /quantization/scheme
  enum : bool { column_scales = false };  // default: /quantization/scale_layout
  enum : bool { promote = true };  // derived: every 128 of K have their own scales
  enum : bool { bias = false };  // default: /experts/bias
  enum : bool { gated = true };  // derived: gate and up are multiplied in one tile
  enum : bool { halves = true };  // default: /activation/gate_layout
  enum : bool { epilogue = false };  // default: /experts/up_epilogue
  enum : bool { gather_a = false };  // default: /experts/gather_a
  enum : uint32_t { num_slots = 8 };  // derived: top_k and the router's shared slots
  using activation_kind = kinds::silu;  // config: /activation/kind
  enum : bool { activation_gated = true };  // default: /activation/gated
  enum : bool { activation_limited = false };  // derived: a limit of the layer or of each expert
  enum : bool { limit_per_expert = false };  // default: /activation/limit_per_expert
  static MOEGEN_DEVICE constexpr float floor() { return 1e-10f; }  // default: /quantization/floor
  enum : uint32_t { depth_blocks = 56 };  // derived: slices of 128 bytes of K
  enum : uint32_t { scales_per_token = 2 };  // derived: gate's and up's
  enum : uint32_t { groups_per_lane = 8 };  // derived: 32 lanes look at all groups at once, up to 256
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
  enum : uint32_t { weight_rows = 256 };
  enum : uint32_t { tile_columns = 128 };
  enum : uint32_t { warpgroup_columns = 32 };
  enum : uint32_t { warpgroups = 4 };
  enum : uint32_t { stages = 4 };
  enum : uint32_t { cluster = 1 };
  enum : uint32_t { scale_warps = 2 };
  enum : uint32_t { staging_rows = 64 };
  enum : uint32_t { staging_bytes = 8448 };
  enum : uint32_t { raster = 4 };
  enum : uint32_t { even_tiles = 8 };
  enum : uint32_t { token_step = 8 };
  enum : uint32_t { box_heights = 56 };
  enum : uint32_t { num_widths = 4 };
  enum : uint32_t { shared_bytes = 199808 };
  enum : uint32_t { threads = 640 };
  enum : uint32_t { joined_tiles = 1 };
  enum : uint32_t { loader_registers = 56 };
  enum : uint32_t { multiplier_registers = 104 };
  enum : uint32_t { store_rows = 0 };
  enum : uint32_t { staging_panels = 0 };
  enum : uint32_t { part_columns = 128 };
  enum : uint32_t { scale_chunks = 1 };
  enum : uint32_t { scale_floats = 128 };
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

/// Tiles of up to 192 tokens.
struct Tall {
  enum : uint32_t { max_tokens = 192 };
  enum : uint32_t { weight_rows = 128 };
  enum : uint32_t { tile_columns = 64 };
  enum : uint32_t { warpgroup_columns = 128 };
  enum : uint32_t { warpgroups = 3 };
  enum : uint32_t { stages = 4 };
  enum : uint32_t { cluster = 1 };
  enum : uint32_t { scale_warps = 2 };
  enum : uint32_t { staging_rows = 64 };
  enum : uint32_t { staging_bytes = 16384 };
  enum : uint32_t { raster = 8 };
  enum : uint32_t { even_tiles = 2 };
  enum : uint32_t { token_step = 64 };
  enum : uint32_t { box_heights = 192 };
  enum : uint32_t { num_widths = 3 };
  enum : uint32_t { shared_bytes = 217984 };
  enum : uint32_t { threads = 512 };
  enum : uint32_t { joined_tiles = 2 };
  enum : uint32_t { loader_registers = 56 };
  enum : uint32_t { multiplier_registers = 152 };
  enum : uint32_t { store_rows = 16 };
  enum : uint32_t { staging_panels = 1 };
  enum : uint32_t { part_columns = 128 };
  enum : uint32_t { scale_chunks = 1 };
  enum : uint32_t { scale_floats = 196 };
  enum : bool { tokens_on_m = true };
  enum : bool { aligned = true };
  enum : bool { weights_once = false };
  enum : bool { dealt = true };
  /// Columns of tokens that have a loop of their own, and the columns of a sum.
  static MOEGEN_DEVICE constexpr uint32_t width(uint32_t index) { return index == 0 ? 64 : index == 1 ? 128 : 192; }
  static MOEGEN_DEVICE constexpr uint32_t product_columns(uint32_t) { return 128; }
  template <class P, class T, class Custom, uint32_t N>
  using Finish = grouped_matmul::FinishTokensM<P, T, Custom, N>;
};

template <>
struct Wgmma<float8_e4m3fn, 8> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[4], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 8, MOEGEN_CPU_E4M3, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3}, "
      "%4, %5, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 8, MOEGEN_CPU_E4M3, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
};

template <>
struct Wgmma<float8_e4m3fn, 16> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[8], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 16, MOEGEN_CPU_E4M3, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[8], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 16, MOEGEN_CPU_E4M3, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
};

template <>
struct Wgmma<float8_e4m3fn, 32> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[16], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 32, MOEGEN_CPU_E4M3, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[16], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 32, MOEGEN_CPU_E4M3, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
};

template <>
struct Wgmma<float8_e4m3fn, 64> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 64, MOEGEN_CPU_E4M3, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 64, MOEGEN_CPU_E4M3, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
};

template <>
struct Wgmma<float8_e4m3fn, 128> {
  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 128, MOEGEN_CPU_E4M3, a, nullptr, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
  /// The same with this thread's part of A in registers, as mma has it.
  template <bool a_transposed = false, bool b_transposed = false>
  static MOEGEN_DEVICE void multiply(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(!a_transposed && !b_transposed, "8-bit elements have K contiguous");
#ifdef MOEGEN_TARGET_CPU
    cpu::wgmma(d, 128, MOEGEN_CPU_E4M3, 0, a, b, accumulate | a_transposed << 3 | b_transposed << 4);
#else
    asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, accumulate, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
#endif
  }
};


}  // namespace moegen

extern "C" __global__ void __launch_bounds__(640, 1)
moegen_grouped_matmul_narrow(const __grid_constant__ moegen::grouped_matmul::TensorArgs args) {
  using namespace moegen;
  grouped_matmul::run<Params, Narrow, Custom>(args);
}

extern "C" __global__ void __launch_bounds__(512, 1)
moegen_grouped_matmul_tall(const __grid_constant__ moegen::grouped_matmul::TensorArgs args) {
  using namespace moegen;
  grouped_matmul::run<Params, Tall, Custom>(args);
}
