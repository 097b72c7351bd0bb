// SPDX-License-Identifier: Apache-2.0
// router of gpt_oss_20b for sm_90a, written by moegen.

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

// ---- core/lanes.cuh --------------------------------------------------------------------------------------
// Exchange inside teams of lanes: a warp is cut into 32 / Lanes teams of `Lanes` neighbours, a power of two. All lanes
// of the warp take part in every call.


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

// ---- router/args.h ---------------------------------------------------------------------------------------
// Arguments of router, shared by host and device.


namespace moegen::router {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };

/// Chooses top_k of N = num_experts + num_zero_experts experts for each token, and their weights. S = the config's
/// shared slots, 0 by default. All pointers are device memory.
struct Args {
  enum : int { kFamily = 1 };  ///< Family::tag

  int32_t* expert_indices;  ///< out [T, top_k + S], descending by choice key; then the shared slots, ids from N on
  void* expert_weights;     ///< out [T, top_k + S] router.weights
  const void* logits;       ///< in  [T, N] router.logits, rows `row_stride` elements apart, aligned to the element
  int64_t row_stride;       ///< elements, >= N; what lies between rows is never read
  const void* bias;         ///< in  [N] router.bias; null where the config has none
  const void* token_ids;    ///< in  [T] router.hash.token_id; null without hash routing
  const int32_t* table;     ///< in  [router.hash.vocab, top_k] expert ids in [0, N); null without hash routing
  const void* inputs[kMaxInputs];  ///< in  named inputs of router.scores, in the order of their names
  int64_t num_tokens;              ///< T, 0 .. 2^31 - 1; 0 is legal and launches nothing
  float scale;                     ///< factor on the k weights, once, after everything else (config: router.scale)
};

}  // namespace moegen::router

// ---- router/place.cuh ------------------------------------------------------------------------------------
// Which experts a lane of a team holds, and how their logits and biases come into its registers.
//
// A team of `lanes` lanes has one token. With num_groups <= lanes each group of experts has `group_lanes` lanes of its
// own, `group_share` experts each; else each lane has `lane_groups` whole groups. Zero experts belong to no group: each
// lane has `zero_share` of them after its others. Ids ascend inside a lane.


namespace moegen::router {

/// Experts that one lane holds: `count` from `first` on, then `zero_count` from `zero_first` on.
struct Place {
  uint32_t first, count, zero_first, zero_count;
};

/// Signed, so that lanes past the last expert have none.
MOEGEN_DEVICE uint32_t share_of(int32_t left, uint32_t most) {
  return left <= 0 ? 0 : min_of(static_cast<uint32_t>(left), most);
}

/// Place of lane `lane` of a team.
template <class P>
MOEGEN_DEVICE Place place_of(uint32_t lane) {
  Place place;
  if constexpr (P::lane_groups == 1) {
    const uint32_t group = lane / P::group_lanes, part = lane % P::group_lanes;
    const uint32_t begin = part * P::group_share;
    place.first = group * P::group_size + begin;
    place.count = group < P::num_groups ? share_of(static_cast<int32_t>(P::group_size - begin), P::group_share) : 0;
  } else {
    place.first = lane * P::group_share;
    place.count = share_of(static_cast<int32_t>(P::num_experts - place.first), P::group_share);
  }
  const uint32_t zero_begin = lane * P::zero_share;
  place.zero_first = P::num_experts + zero_begin;
  place.zero_count = share_of(static_cast<int32_t>(P::num_zero_experts - zero_begin), P::zero_share);
  return place;
}

/// True if element `index` of the lane is an expert. A constant where every lane is full.
template <class P>
MOEGEN_DEVICE bool holds(const Place& place, uint32_t index) {
  if constexpr (P::full_lanes) return true;
  return index < P::group_share ? index < place.count : index - P::group_share < place.zero_count;
}

/// Id of element `index`.
template <class P>
MOEGEN_DEVICE uint32_t expert_at(const Place& place, uint32_t index) {
  return index < P::group_share ? place.first + index : place.zero_first + index - P::group_share;
}

/// One float for each expert of a lane; unspecified where it holds none.
template <class P>
struct Lane {
  float value[P::per_lane];
};

/// The words of one load, 4, 8 or 16 bytes. Nothing writes them while the kernel runs. `pointer` is aligned to them.
template <uint32_t Words>
MOEGEN_DEVICE void load_words(const void* pointer, uint32_t (&word)[Words]) {
#ifdef MOEGEN_TARGET_CPU
  struct alignas(4 * Words) Piece {
    uint32_t word[Words];
  };
  const Piece piece = *static_cast<const Piece*>(pointer);
  for (uint32_t i = 0; i < Words; ++i) word[i] = piece.word[i];
#else
  if constexpr (Words == 4)
    asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
        : "l"(pointer));
  else if constexpr (Words == 2)
    asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "l"(pointer));
  else
    asm("ld.global.nc.b32 %0, [%1];" : "=r"(word[0]) : "l"(pointer));
#endif
}

/// Element `index` of packed `word`s; a constant after unrolling.
template <class T, uint32_t Words>
MOEGEN_DEVICE float element(const uint32_t (&word)[Words], uint32_t index) {
  if constexpr (sizeof(T) == 4) {
    return bits_float(word[index]);
  } else {
    const uint32_t pair = word[index / 2];
    return to_float(T{static_cast<uint16_t>(index % 2 == 0 ? pair & 0xFFFFu : pair >> 16)});
  }
}

/// True if every lane's experts in a row at `row` can be loaded in pieces of `vector` elements.
template <class P, class T>
MOEGEN_DEVICE bool in_pieces(const void* row) {
  return P::vector * sizeof(T) >= 4 && reinterpret_cast<uint64_t>(row) % (P::vector * sizeof(T)) == 0;
}

/// Elements [begin, begin + Count) of a row of T into `lane` from element `At` on, in pieces of `vector`.
template <class P, class T, uint32_t At, uint32_t Count>
MOEGEN_DEVICE void load_pieces(const T* row, uint32_t begin, Lane<P>& lane) {
  constexpr uint32_t kVector = P::vector, kWords = max_of<uint32_t>(kVector * sizeof(T) / 4, 1);
#pragma unroll
  for (uint32_t i = 0; i < Count; i += kVector) {
    uint32_t word[kWords];
    load_words(row + begin + i, word);
#pragma unroll
    for (uint32_t e = 0; e < kVector; ++e) lane.value[At + i + e] = element<T>(word, e);
  }
}

/// Loads a lane's elements of a row of T. What lies outside the row's experts is never read.
template <class P, class T>
MOEGEN_DEVICE void load_lane(const T* row, const Place& place, Lane<P>& lane) {
  const bool whole = P::full_lanes || (place.count == P::group_share && P::zero_share == 0);
  if constexpr (P::vector * sizeof(T) >= 4 && P::vector * sizeof(T) <= 16) {
    if (in_pieces<P, T>(row) && whole) {
      load_pieces<P, T, 0, P::group_share>(row, place.first, lane);
      if constexpr (P::full_lanes && P::zero_share > 0)
        load_pieces<P, T, P::group_share, P::zero_share>(row, place.zero_first, lane);
      return;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i)
    lane.value[i] = holds<P>(place, i) ? to_float(row[expert_at<P>(place, i)]) : 0.0f;
}

/// Row of logits of `token`.
template <class P>
MOEGEN_DEVICE const typename P::logits_dtype* logits_row(const Args& args, uint32_t token) {
  return static_cast<const typename P::logits_dtype*>(args.logits) + token * static_cast<uint64_t>(args.row_stride);
}

}  // namespace moegen::router

// ---- router/scores.cuh -----------------------------------------------------------------------------------
// Logit -> score -> choice key. Everything is float32 whatever the dtypes; errors are relative.


namespace moegen::router {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147182f;

MOEGEN_DEVICE float negative_infinity() { return bits_float(0xFF800000u); }

/// The order of floats as unsigned integers; -0 comes below +0, NaN is not asked for.
MOEGEN_DEVICE uint32_t order_of(float value) {
  const uint32_t bits = float_bits(value);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

MOEGEN_DEVICE float of_order(uint32_t order) {
  return bits_float(order ^ (static_cast<uint32_t>(static_cast<int32_t>(~order) >> 31) | 0x80000000u));
}

/// Largest `value` of the team; none is NaN.
template <class P>
MOEGEN_DEVICE float largest_of(float value) {
  return of_order(team_max<P::lanes>(order_of(value)));
}

/// `score`, or NaN where `logit` is not finite.
MOEGEN_DEVICE float spoil(float score, float logit) { return math::fma(logit, 0.0f, score); }

/// e^(x + rest) for x <= 0 and a rest that rounding has lost; 0 below -120. Error below 5e-7: what rounding x log2(e)
/// loses is added to the result.
MOEGEN_DEVICE float exp_below_0(float x, float rest = 0.0f) {
  x = approx::max_number(x, -120.0f);
  const float y = x * kLog2E;
  const float e = approx::exp2(y);
  return math::fma(e, math::fma(y, -kLn2, x) + rest, e);
}

/// e^(a - b) for a <= b, with what the subtraction loses; where it overflows there is nothing to lose.
MOEGEN_DEVICE float exp_of_difference(float a, float b) {
  const float difference = a - b;
  return exp_below_0(difference, difference > -120.0f ? (a - difference) - b : 0.0f);
}

/// 1 / (1 + e^-x). Error below 1e-6 down to -87, 0 below. As in exp_below_0, but to the result: the derivative by x is
/// s - s * s, and 0 where x is so large that the loss cannot be told (the saturating addition then bounds it).
MOEGEN_DEVICE float sigmoid(float x) {
  const float y = x * -kLog2E;
  const float s = approx::reciprocal(1.0f + approx::exp2(y));
  const float loss = approx::add_saturated(math::fma(y, kLn2, x), 0.5f);
  const float slope = math::fma(s, s, -s);
  return math::fma(-slope, loss, math::fma(0.5f, slope, s));
}

/// log(1 + x) / x for 0 <= x <= 1. Error below 1e-7: interpolation at Chebyshev nodes.
MOEGEN_DEVICE float log1p_over(float x) {
  float p = -0.00317605701f;
  p = math::fma(p, x, 0.0195425265f);
  p = math::fma(p, x, -0.0563736111f);
  p = math::fma(p, x, 0.105436236f);
  p = math::fma(p, x, -0.152696669f);
  p = math::fma(p, x, 0.196632743f);
  p = math::fma(p, x, -0.249516159f);
  p = math::fma(p, x, 0.333297104f);
  p = math::fma(p, x, -0.499998927f);
  return math::fma(p, x, 1.0f);
}

/// sqrt(log(1 + e^x)) without its factor e^(min(x, 0) / 2); `root` is e^(-|x| / 2).
MOEGEN_DEVICE float sqrt_softplus_part(float x, float root) {
  const float e = root * root;
  const float p = log1p_over(e);
  return approx::sqrt(x < 0.0f ? p : math::fma(e, p, x));
}

/// sqrt(log(1 + e^x)). Error below 1e-6 down to -174, 0 below.
MOEGEN_DEVICE float sqrt_softplus(float x) {
  const float root = exp_below_0(-0.5f * math::abs(x));
  return sqrt_softplus_part(x, root) * (x < 0.0f ? root : 1.0f);
}

/// What the scores of a row have in common: the largest finite logit and 1 / sum of e^(logit - largest).
struct Row {
  float largest, inverse_sum;
};

/// Balanced sum of `Count` terms.
template <uint32_t First, uint32_t Count, uint32_t Size>
MOEGEN_DEVICE float balanced_sum(const float (&term)[Size]) {
  if constexpr (First >= Size)
    return 0.0f;
  else if constexpr (Count == 1)
    return term[First];
  else
    return balanced_sum<First, Count / 2>(term) + balanced_sum<First + Count / 2, Count / 2>(term);
}

/// Smallest power of two that is at least `count`.
MOEGEN_DEVICE constexpr uint32_t power_of_two_from(uint32_t count) {
  uint32_t power = 1;
  while (power < count) power *= 2;
  return power;
}

template <class P>
MOEGEN_DEVICE Row sum_row(const Lane<P>& logits, const Place& place) {
  float term[P::per_lane];
  float largest = negative_infinity();
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    term[i] = holds<P>(place, i) ? approx::max_number(spoil(logits.value[i], logits.value[i]), negative_infinity())
                                 : negative_infinity();
    largest = approx::max_number(largest, term[i]);
  }
  largest = approx::max_number(largest_of<P>(largest), -3.40282347e38f);  // no finite logit: every term is 0
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) term[i] = approx::exp2((term[i] - largest) * kLog2E);
  const float sum = team_sum<P::lanes>(balanced_sum<0, power_of_two_from(P::per_lane)>(term));
  return {largest, approx::reciprocal(sum)};
}

/// The score of `logit`; NaN where the logit is not finite, or the expression makes it so.
template <class P, class Custom>
MOEGEN_DEVICE float score_of(const Args& args, float logit, uint32_t expert, uint32_t token, const Row& row) {
  if constexpr (P::expression) {
    const float score = Custom::scores(args, logit, expert, token);
    return spoil(spoil(score, score), logit);
  } else if constexpr (P::softmax && P::row_sum) {
    return spoil(approx::exp2((logit - row.largest) * kLog2E) * row.inverse_sum, logit);
  } else if constexpr (P::sigmoid) {
    return spoil(sigmoid(logit), logit);
  } else if constexpr (P::sqrt_softplus) {
    return spoil(sqrt_softplus(logit), logit);
  } else {
    return spoil(logit, logit);
  }
}

/// What an expert is chosen by: score + bias, or the logit (+ bias) where scores come late or have the same order. NaN
/// where that is not a number. Adding 0 makes -0 +0: those are equal.
template <class P>
MOEGEN_DEVICE float key_of(float logit, float score, float bias) {
  const float key = (P::by_logit ? spoil(logit, logit) : score) + (P::bias ? bias : 0.0f);
  return P::bias && (P::by_logit || P::expression) ? key + 0.0f : key;
}

}  // namespace moegen::router

// ---- router/groups.cuh -----------------------------------------------------------------------------------
// Which groups a token may choose from: the top_groups best scores, ties to the lower group.


namespace moegen::router {

/// The two largest keys of some experts, NaN left out.
struct TopTwo {
  float first, second;
};

MOEGEN_DEVICE TopTwo merge(const TopTwo& a, const TopTwo& b) {
  const float second = approx::max_number(a.second, b.second);
  return {approx::max_number(a.first, b.first), approx::max_number(second, approx::min_number(a.first, b.first))};
}

/// A group's score from its largest keys, as an ordered integer that is not 0.
template <class P>
MOEGEN_DEVICE uint32_t group_order(const TopTwo& top) {
  float score = top.first;
  if constexpr (P::top2_sum && P::group_size > 1)
    score = approx::max_number(top.first + top.second, negative_infinity());  // -inf + inf is NaN
  return order_of(score + 0.0f);
}

/// Of elements [begin, begin + Count) of a lane, in a tree. `begin` is a constant after unrolling.
template <class P, uint32_t Count>
MOEGEN_DEVICE TopTwo top_two(const Lane<P>& keys, const Place& place, uint32_t begin) {
  if constexpr (Count == 1) {
    const float key = holds<P>(place, begin) ? keys.value[begin] : negative_infinity();
    return {approx::max_number(key, negative_infinity()), negative_infinity()};
  } else if constexpr (Count == 2) {
    const TopTwo a = top_two<P, 1>(keys, place, begin), b = top_two<P, 1>(keys, place, begin + 1);
    return {approx::max_number(a.first, b.first), approx::min_number(a.first, b.first)};
  } else {
    return merge(top_two<P, Count / 2>(keys, place, begin),
                 top_two<P, Count - Count / 2>(keys, place, begin + Count / 2));
  }
}

/// True if the one group of this lane is kept. The lanes of a group share the comparison with the other groups.
template <class P>
MOEGEN_DEVICE bool keeps_group(const Lane<P>& keys, const Place& place) {
  TopTwo top = top_two<P, P::group_share>(keys, place, 0);
#pragma unroll
  for (uint32_t mask = 1; mask < P::group_lanes; mask *= 2)
    top = merge(top, {shuffle_xor(top.first, mask), shuffle_xor(top.second, mask)});
  const uint32_t lane = lane_index() % P::lanes, group = lane / P::group_lanes;
  const uint32_t mine = group_order<P>(top);
  uint32_t better = 0;
#pragma unroll
  for (uint32_t first = 0; first < P::num_groups; first += P::group_lanes) {
    const uint32_t other = first + lane % P::group_lanes;
    const uint32_t score = shuffle(mine, team_first_lane<P::lanes>() + other * P::group_lanes);
    better += other < P::num_groups && (score > mine || (score == mine && other < group)) ? 1 : 0;
  }
#pragma unroll
  for (uint32_t mask = 1; mask < P::group_lanes; mask *= 2) better += shuffle_xor(better, mask);
  return better < P::top_groups;
}

/// Flags of a lane's groups.
template <class P>
struct Kept {
  bool group[P::lane_groups];
};

/// The top_groups-th largest score of the team, bit by bit from the highest: a bit stays if enough scores reach it.
template <class P>
MOEGEN_DEVICE uint32_t last_kept(const uint32_t (&score)[P::lane_groups]) {
  uint32_t bound = 0;
#pragma unroll 1
  for (uint32_t bit = 0x80000000u; bit > 0; bit /= 2) {
    uint32_t reached = 0;
#pragma unroll
    for (uint32_t i = 0; i < P::lane_groups; ++i) reached += score[i] >= (bound | bit) ? 1 : 0;
    if (team_sum<P::lanes>(reached) >= P::top_groups) bound |= bit;
  }
  return bound;
}

/// As keeps_group where a lane has several groups: those above the last kept score, and of its equals the first.
template <class P>
MOEGEN_DEVICE Kept<P> keep_groups(const Lane<P>& keys, const Place& place) {
  uint32_t score[P::lane_groups];
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    const uint32_t begin = i * P::group_size;
    score[i] = begin < place.count ? group_order<P>(top_two<P, P::group_size>(keys, place, begin)) : 0;
  }
  const uint32_t bound = last_kept<P>(score);
  uint32_t above = 0, equal = 0;
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    above += score[i] > bound ? 1 : 0;
    equal += score[i] == bound ? 1 : 0;
  }
  uint32_t before = equal;  // equals of the lanes up to this one
#pragma unroll 1
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) before += shuffle_up(before, delta, 0);
  int32_t free = static_cast<int32_t>(P::top_groups - team_sum<P::lanes>(above) - (before - equal));
  Kept<P> kept;
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    kept.group[i] = score[i] > bound || (score[i] == bound && free > 0);
    free -= score[i] == bound ? 1 : 0;
  }
  return kept;
}

}  // namespace moegen::router

// ---- router/select.cuh -----------------------------------------------------------------------------------
// The top_k largest keys of a team, descending, ties to the lower id.
//
// Each lane sorts its own keys, as ordered integers (order_of) with the element's number in the lowest bits, where
// float32 keys lose that many bits of their mantissa. In round r the team's largest head is taken, that lane writes it
// to shared memory as slot r, and its list moves up.
//
// What the rounds take is right if every key taken is finite and no two neighbours agree in all bits that were left:
// neighbours among the chosen ones are compared exactly, and so is the last one with the first that was not chosen. A
// warp with a doubtful row selects anew by exact keys, one round a slot, in which fillers follow the finite ones:
// experts whose key is not finite, then those of dropped groups, by id. With `exact_packing` keys have so many zero
// bits that the expert's id fits below them: the rounds then know fillers, too, and there is no doubt.


namespace moegen::router {

enum : uint32_t {
  kLeastFinite = 0x00800000u,  // order_of(-3.4e38)
  kMostFinite = 0xFF800000u,   // order_of(infinity): only an infinite bias makes such a key
  kNotFinite = 0x007FFFFFu,    // order_of(-infinity); stands for NaN as well
  kDropped = 0x00200000u,      // a dropped group's
  kEmpty = 0,
};

/// What the lane of a slot's number knows of that slot.
struct Slot {
  uint32_t expert;  // kNone: no expert
  bool filler;
  float logit, score;
};

/// Ordered keys of a lane's elements.
template <class P>
struct Keys {
  uint32_t order[P::per_lane];
};

// ---- dropped groups ----------------------------------------------------------------------------------------

/// True where some experts of a row may not be chosen from.
template <class P>
MOEGEN_DEVICE constexpr bool drops_groups() {
  return P::num_groups > 1 && P::top_groups < P::num_groups;
}

/// True where a lane is dropped as a whole.
template <class P>
MOEGEN_DEVICE constexpr bool drops_lanes() {
  return drops_groups<P>() && P::lane_groups == 1 && P::zero_share == 0;
}

/// Which groups of this lane are kept.
template <class P>
MOEGEN_DEVICE Kept<P> choose_groups(const Lane<P>& keys, const Place& place) {
  Kept<P> kept = {};
  if constexpr (drops_groups<P>()) {
    if constexpr (P::lane_groups == 1)
      kept.group[0] = keeps_group<P>(keys, place);
    else
      kept = keep_groups<P>(keys, place);
  }
  return kept;
}

template <class P>
MOEGEN_DEVICE void drop(Keys<P>& keys, const Place& place, const Kept<P>& kept) {
#pragma unroll
  for (uint32_t i = 0; i < P::group_share; ++i)
    if (!kept.group[P::lane_groups == 1 ? 0 : i / P::group_size] && holds<P>(place, i)) keys.order[i] = kDropped;
}

/// Keys as integers, NaN above all others, with those of dropped groups where a lane is not dropped as a whole.
template <class P>
MOEGEN_DEVICE Keys<P> order_keys(const Lane<P>& keys, const Place& place, const Kept<P>& kept) {
  Keys<P> ordered;
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    float key = keys.value[i];
    if constexpr (P::exact_packing) key = approx::max_number(key, negative_infinity());
    ordered.order[i] = holds<P>(place, i) ? order_of(key) : static_cast<uint32_t>(kEmpty);
  }
  if constexpr (drops_groups<P>() && (P::exact_packing || !drops_lanes<P>())) drop<P>(ordered, place, kept);
  return ordered;
}

// ---- sorted lists ------------------------------------------------------------------------------------------

/// Orders two words, the larger one first.
MOEGEN_DEVICE void compare_exchange(uint32_t& a, uint32_t& b) {
  const uint32_t larger = max_of(a, b);
  b = min_of(a, b);
  a = larger;
}

/// Batcher's odd-even merge of two descending runs that lie `Step` apart, and the sort made of it.
template <uint32_t First, uint32_t Count, uint32_t Step, uint32_t Size>
MOEGEN_DEVICE void merge_runs(uint32_t (&word)[Size]) {
  constexpr uint32_t kTwo = 2 * Step;
  if constexpr (kTwo < Count) {
    merge_runs<First, Count, kTwo>(word);
    merge_runs<First + Step, Count, kTwo>(word);
#pragma unroll
    for (uint32_t i = First + Step; i + Step < First + Count; i += kTwo) compare_exchange(word[i], word[i + Step]);
  } else {
    compare_exchange(word[First], word[First + Step]);
  }
}

template <uint32_t First, uint32_t Count, uint32_t Size>
MOEGEN_DEVICE void sort_descending(uint32_t (&word)[Size]) {
  if constexpr (Count > 1) {
    sort_descending<First, Count / 2>(word);
    sort_descending<First + Count / 2, Count / 2>(word);
    merge_runs<First, Count, 1>(word);
  }
}

/// The largest Size words of two descending runs, descending: the first pass leaves them bitonic.
template <uint32_t Size, uint32_t Other>
MOEGEN_DEVICE void merge_largest(uint32_t (&list)[Size], const uint32_t (&other)[Other]) {
#pragma unroll
  for (uint32_t i = 0; i < Size; ++i) list[i] = max_of(list[i], other[Size - 1 - i]);
#pragma unroll
  for (uint32_t half = Size / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint32_t i = 0; i < Size; ++i)
      if ((i & half) == 0) compare_exchange(list[i], list[i + half]);
  }
}

/// The head of a lane's keys, packed and descending.
template <class P>
struct List {
  uint32_t word[P::list_size];
};

/// A key with its element's number, or its expert's, below it, so that the lower one is the larger word.
template <class P>
MOEGEN_DEVICE uint32_t pack(const Keys<P>& keys, const Place& place, uint32_t index) {
  const uint32_t order = keys.order[index];
  const uint32_t packed = (order | P::index_mask) - (P::exact_packing ? expert_at<P>(place, index) : index);
  if constexpr (P::full_lanes) return packed;
  return order == kEmpty ? static_cast<uint32_t>(kEmpty) : packed;
}

/// The largest list_size of a lane's packed keys that are below `bound`.
template <class P>
MOEGEN_DEVICE List<P> make_list(const Keys<P>& keys, const Place& place, uint32_t bound) {
  constexpr uint32_t kChunk = min_of<uint32_t>(8, power_of_two_from(P::per_lane));
  List<P> list = {};
#pragma unroll
  for (uint32_t first = 0; first < P::per_lane; first += kChunk) {
    uint32_t chunk[kChunk];
#pragma unroll
    for (uint32_t i = 0; i < kChunk; ++i) {
      chunk[i] = first + i < P::per_lane ? pack<P>(keys, place, first + i) : static_cast<uint32_t>(kEmpty);
      if (P::refills && chunk[i] >= bound) chunk[i] = kEmpty;
    }
    sort_descending<0, kChunk>(chunk);
    if (first == 0) {
#pragma unroll
      for (uint32_t i = 0; i < P::list_size; ++i) list.word[i] = chunk[i];
    } else {
      merge_largest(list.word, chunk);
    }
  }
  return list;
}

// ---- rounds ------------------------------------------------------------------------------------------------

/// What a lane leaves in shared memory of the word that was taken from it.
struct Taken {
  uint32_t packed;
  uint32_t from;  // the lane's first expert; where it has zero experts, too, the lane
};

/// The slots of this lane's team.
template <class P>
MOEGEN_DEVICE Taken* taken_slots() {
  return reinterpret_cast<Taken*>(dynamic_shared()) + thread_index() / P::lanes * P::top_k;
}

/// One round: the largest head of the team, taken from the lowest lane that has it, becomes slot `round`.
template <class P>
MOEGEN_DEVICE void take_largest(List<P>& list, uint32_t from, uint32_t round, uint32_t& bound) {
  const uint32_t largest = team_max<P::lanes>(list.word[0]);
  bool mine = list.word[0] == largest;
  if constexpr (!P::exact_packing) {
    const uint32_t equals = ballot(mine) & team_mask<P::lanes>();
    mine = mine && (equals & lanes_below()) == 0;
  }
  if (!mine) return;
  taken_slots<P>()[round] = {largest, from};
  bound = largest;
#pragma unroll
  for (uint32_t i = 0; i + 1 < P::list_size; ++i) list.word[i] = list.word[i + 1];
  list.word[P::list_size - 1] = kEmpty;
}

/// Makes the list anew of what lies below its last word, on lanes whose list has run dry.
template <class P>
MOEGEN_DEVICE void refill(const Keys<P>& keys, const Place& place, List<P>& list, uint32_t& bound) {
  const bool dry = list.word[0] == kEmpty && bound != kEmpty;
  if (ballot(dry) == 0) return;
  const List<P> next = make_list<P>(keys, place, bound);
  if (!dry) return;
  list = next;
  if (next.word[0] == kEmpty) bound = kEmpty;  // nothing is left
}

/// All rounds. Returns the largest word that was not taken.
template <class P>
MOEGEN_DEVICE uint32_t take_all(const Keys<P>& keys, const Place& place, bool dropped) {
  const uint32_t from = P::zero_share > 0 ? lane_index() % P::lanes : place.first;
  uint32_t bound = kNone;
  List<P> list = {};
  warp_sync();  // the slots of the token before have been read
  if constexpr (P::refills) {
    if (dropped) list.word[0] = kDropped;
#pragma unroll 1
    for (uint32_t round = 0;; ++round) {
      refill<P>(keys, place, list, bound);
      if (round == P::top_k) break;
      take_largest<P>(list, from, round, bound);
    }
  } else {
    list = make_list<P>(keys, place, bound);
    if (dropped) list.word[0] = kDropped;
#pragma unroll
    for (uint32_t round = 0; round < P::top_k; ++round) take_largest<P>(list, from, round, bound);
  }
  warp_sync();
  return P::exact_packing ? static_cast<uint32_t>(kEmpty) : team_max<P::lanes>(list.word[0]);
}

/// The expert that a lane left.
template <class P>
MOEGEN_DEVICE uint32_t expert_of(const Taken& taken) {
  const uint32_t number = P::index_mask - (taken.packed & P::index_mask);
  if constexpr (P::exact_packing)
    return number;
  else if constexpr (P::zero_share > 0)
    return expert_at<P>(place_of<P>(taken.from), number);
  else
    return taken.from + number;
}

/// True if slot `lane` of the team may not be the right one: `order` is its exact key, `next_head` the largest word
/// that was not taken. Called by all lanes.
template <class P>
MOEGEN_DEVICE bool is_doubtful(uint32_t lane, uint32_t packed, uint32_t order, uint32_t expert, uint32_t next_head) {
  const uint32_t next_order = shuffle(order, lane_index() + 1), next_expert = shuffle(expert, lane_index() + 1);
  if (lane >= P::top_k) return false;
  if (packed < kLeastFinite || order > kMostFinite) return true;
  if (lane + 1 < P::top_k) return order < next_order || (order == next_order && expert > next_expert);
  return (packed | P::index_mask) == (next_head | P::index_mask);
}

/// Exact rounds. Returns the expert of the slot of this lane, and whether it is a filler.
template <class P>
MOEGEN_DEVICE Slot take_exactly(Keys<P> keys, const Place& place, bool dropped) {
  Slot slot = {kNone, true, 0.0f, 0.0f};
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    const bool finite = keys.order[i] >= kLeastFinite && keys.order[i] <= kMostFinite;
    if (!holds<P>(place, i)) continue;
    if (!finite && keys.order[i] != kDropped) keys.order[i] = kNotFinite;
    if (dropped) keys.order[i] = kDropped;
  }
#pragma unroll 1
  for (uint32_t round = 0; round < P::top_k; ++round) {
    uint32_t best = kEmpty, expert = kNone;
#pragma unroll
    for (uint32_t i = 0; i < P::per_lane; ++i) {
      if (keys.order[i] <= best) continue;
      best = keys.order[i];
      expert = expert_at<P>(place, i);
    }
    const uint32_t largest = team_max<P::lanes>(best);
    const uint32_t winner = ~team_max<P::lanes>(best == largest ? ~expert : 0u);
#pragma unroll
    for (uint32_t i = 0; i < P::per_lane; ++i)
      if (expert_at<P>(place, i) == winner) keys.order[i] = kEmpty;
    if (lane_index() % P::lanes == round) slot = {winner, largest < kLeastFinite, 0.0f, 0.0f};
  }
  return slot;
}

}  // namespace moegen::router

// ---- router/weights.cuh ----------------------------------------------------------------------------------
// The weights of the chosen experts, one slot a lane. Scores, never biased; 0 for fillers.
//
// Normalised weights are quotients u / sum of u, where u is the score. Where scores come near the lower end of float32,
// u is the score without a factor that all slots share, the exponential of the largest logarithm, so that ratios hold
// at any depth; softmax always does that. Other scores are divided by the largest magnitude, so that no sum overflows.


namespace moegen::router {

/// Lanes that have a slot, rounded up to a power of two.
template <class P>
MOEGEN_DEVICE constexpr uint32_t slot_lanes() {
  return power_of_two_from(P::top_k);
}

/// The largest `value` among the team's active lanes.
template <class P>
MOEGEN_DEVICE float largest_active(float value, bool active) {
  return largest_of<P>(active ? value : negative_infinity());
}

template <class P>
MOEGEN_DEVICE float divide_by_sum(float part) {
  const float sum = team_sum<slot_lanes<P>()>(part);
  return sum > 0.0f ? part * approx::reciprocal(sum) : 0.0f;
}

/// Any scores: those of a row whose sum is 0 stay as they are.
template <class P>
MOEGEN_DEVICE float normalize_scores(float score) {
  const float largest = largest_of<P>(math::abs(score));
  const float part = largest > 0.0f ? math::divide(score, largest) : 0.0f;
  const float sum = team_sum<slot_lanes<P>()>(part);
  return sum != 0.0f ? math::divide(part, sum) : score;
}

/// The slots' largest logit: that of slot 0 where slots descend by logit.
template <class P>
MOEGEN_DEVICE float largest_logit(float logit, bool active) {
  if constexpr (P::by_logit && !P::bias && !P::hash)
    return bits_float(shuffle(float_bits(logit), team_first_lane<P::lanes>()));
  else
    return largest_active<P>(logit, active);
}

/// Sigmoids and roots of softplus without the factor that all slots share. `power` is the logarithm of that part of a
/// slot's score which falls exponentially.
template <class P>
MOEGEN_DEVICE float deep_part(float logit, bool active) {
  const float power = (P::sigmoid ? 1.0f : 0.5f) * approx::min_number(logit, 0.0f);
  const float largest = largest_active<P>(power, active);
  const float below = exp_below_0(-(P::sigmoid ? 1.0f : 0.5f) * math::abs(logit));
  const float rest = P::sigmoid ? approx::reciprocal(1.0f + below) : sqrt_softplus_part(logit, below);
  return exp_of_difference(power, largest) * rest;
}

/// The score, or its deep part in teams where one is below about 2^-80.
template <class P>
MOEGEN_DEVICE float part_of(const Slot& slot, bool active) {
  constexpr float kDeep = P::sigmoid ? -55.0f : -110.0f;
  const uint32_t deep = ballot(active && slot.logit < kDeep);
  float part = slot.score;
  if (deep != 0) {
    const float other = deep_part<P>(slot.logit, active);
    if ((deep & team_mask<P::lanes>()) != 0) part = other;
  }
  return part;
}

template <class P>
MOEGEN_DEVICE float normalized_weight(const Slot& slot, bool active) {
  if constexpr (P::softmax) {
    const float largest = largest_logit<P>(slot.logit, active);
    return divide_by_sum<P>(active ? exp_of_difference(slot.logit, largest) : 0.0f);
  } else if constexpr (P::sigmoid || P::sqrt_softplus) {
    const float part = part_of<P>(slot, active);
    return divide_by_sum<P>(active ? part : 0.0f);
  } else {
    return normalize_scores<P>(active ? slot.score : 0.0f);
  }
}

/// The weight of this lane's slot, scaled. Called by all lanes.
template <class P>
MOEGEN_DEVICE float weight_of(const Args& args, const Slot& slot) {
  const bool active = slot.expert != kNone && !slot.filler && slot.score == slot.score;
  float weight = active ? slot.score : 0.0f;
  if constexpr (P::normalize) weight = normalized_weight<P>(slot, active);
  return weight * args.scale;
}

/// Rounds to the weights' dtype and stores.
MOEGEN_DEVICE void store_weight(float* weight, float value) { *weight = value; }
MOEGEN_DEVICE void store_weight(bfloat16* weight, float value) {
  weight->bits = static_cast<uint16_t>(pack_bfloat16(value, 0.0f));
}
MOEGEN_DEVICE void store_weight(float16* weight, float value) {
  weight->bits = static_cast<uint16_t>(pack_float16(value, 0.0f));
}

}  // namespace moegen::router

// ---- router/kernel.cuh -----------------------------------------------------------------------------------
// router: the top_k experts of each token and their weights, in registers.
//
// Algorithm. A team of `lanes` lanes has one token; each lane holds `per_lane` experts, ids ascending with the lane.
//   1. load     16 bytes a load where rows allow it
//   2. score    one float32 score and choice key an expert (scores.cuh)
//   3. groups   the top_groups best groups are kept (groups.cuh)
//   4. select   each lane sorts its keys, then top_k rounds over the heads of the lists (select.cuh)
//   5. weigh    lane j of the team has slot j: it reads its logit again and computes the weight (weights.cuh)
// A token's result depends on its own row alone, so it has the same bits in every batch.
//
// With hash routing 2 to 4 are a look-up. `Custom` is what a config adds: scores(args, logit, expert, token).
//
// Roles: all threads alike; a warp has 32 / lanes tokens at a time, and a block steps through the batch by whole grids.
// Shared memory: Taken [tokens of a block][top_k]. Barriers: a warp's own, around what its lanes leave each other
// there.


namespace moegen::router {

/// Reads the logit of this lane's slot and scores it.
template <class P, class Custom>
MOEGEN_DEVICE void score_slot(const Args& args, Slot& slot, uint32_t token, const Row& row) {
  slot.logit = slot.score = 0.0f;
  if (slot.expert == kNone) return;
  slot.logit = to_float(logits_row<P>(args, token)[slot.expert]);
  slot.score = score_of<P, Custom>(args, slot.logit, slot.expert, token, row);
}

/// The exact key of this lane's slot.
template <class P>
MOEGEN_DEVICE uint32_t slot_order(const Args& args, const Slot& slot) {
  float bias = 0.0f;
  if constexpr (P::bias)
    if (slot.expert != kNone) bias = to_float(static_cast<const typename P::bias_dtype*>(args.bias)[slot.expert]);
  return order_of(key_of<P>(slot.logit, slot.score, bias));
}

/// Chooses by score.
template <class P, class Custom>
MOEGEN_DEVICE Slot choose(const Args& args, const Lane<P>& logits, const Lane<P>& bias, const Place& place,
                          uint32_t token, const Row& row) {
  Lane<P> keys;
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    const float logit = logits.value[i];
    float score = 0.0f;
    if constexpr (!P::by_logit)
      score = score_of<P, Custom>(args, logit, holds<P>(place, i) ? expert_at<P>(place, i) : 0, token, row);
    keys.value[i] = key_of<P>(logit, score, bias.value[i]);
  }
  const Kept<P> kept = choose_groups<P>(keys, place);
  const Keys<P> ordered = order_keys<P>(keys, place, kept);
  const bool dropped = drops_lanes<P>() && !P::exact_packing && !kept.group[0];
  const uint32_t next_head = take_all<P>(ordered, place, dropped);
  const uint32_t lane = lane_index() % P::lanes;
  Slot slot = {kNone, true, 0.0f, 0.0f};
  Taken taken = {kEmpty, 0};
  if (lane < P::top_k) {
    taken = taken_slots<P>()[lane];
    slot.expert = expert_of<P>(taken);
    slot.filler = taken.packed < kLeastFinite;
  }
  score_slot<P, Custom>(args, slot, token, row);
  if constexpr (!P::exact_packing) {
    const uint32_t order = slot_order<P>(args, slot);
    if (ballot(is_doubtful<P>(lane, taken.packed, order, slot.expert, next_head)) != 0) {
      slot = take_exactly<P>(ordered, place, dropped);
      score_slot<P, Custom>(args, slot, token, row);
    }
  }
  return slot;
}

/// Looks the token up; an id outside the vocabulary, or an expert outside the model, has none.
template <class P>
MOEGEN_DEVICE Slot look_up(const Args& args, uint32_t token) {
  const int64_t id = static_cast<const typename P::token_id_dtype*>(args.token_ids)[token];
  const uint32_t lane = lane_index() % P::lanes;
  Slot slot = {kNone, false, 0.0f, 0.0f};
  if (lane < P::top_k && id >= 0 && id < P::vocab)
    slot.expert = static_cast<uint32_t>(args.table[static_cast<uint64_t>(id) * P::top_k + lane]);
  if (slot.expert >= P::num_experts + P::num_zero_experts) slot.expert = kNone;
  return slot;
}

/// True if the token's shared slots name their experts: not where hash routing does not know the token.
template <class P>
MOEGEN_DEVICE bool shares(const Args& args, uint32_t token) {
  if constexpr (P::hash) {
    const int64_t id = static_cast<const typename P::token_id_dtype*>(args.token_ids)[token];
    return id >= 0 && id < P::vocab;
  } else {
    return true;
  }
}

/// Writes the slot of this lane: a chosen expert, or one of the shared slots after them.
template <class P>
MOEGEN_DEVICE void store_slot(const Args& args, uint32_t token, uint32_t expert, float weight) {
  constexpr uint32_t kSlots = P::top_k + P::num_shared_slots;
  const uint32_t lane = lane_index() % P::lanes;
  if (lane >= kSlots) return;
  if (lane >= P::top_k) {
    const bool shared = shares<P>(args, token);
    expert = shared ? P::num_experts + P::num_zero_experts + lane - P::top_k : static_cast<uint32_t>(kNone);
    weight = shared ? bits_float(P::shared_weight_bits) : 0.0f;
  }
  const uint64_t at = static_cast<uint64_t>(token) * kSlots + lane;
  args.expert_indices[at] = static_cast<int32_t>(expert);
  store_weight(static_cast<typename P::weight_dtype*>(args.expert_weights) + at, weight);
}

/// Dependents are let in behind the first loads: before them, blocks that wait crowd some multiprocessors. With many
/// experts a lane the order which that forces on the loads costs more (docs/kernels.md).
template <class P>
constexpr bool kTriggersLate = P::per_lane <= 8;

/// Routes one token, on all lanes of its team.
template <class P, class Custom>
MOEGEN_DEVICE void route(const Args& args, const Lane<P>& bias, const Place& place, uint32_t token, bool stored) {
  Row row = {0.0f, 0.0f};
  Lane<P> logits;
  Slot slot;
  if constexpr (P::row_sum || !P::hash) load_lane<P>(logits_row<P>(args, token), place, logits);
  if constexpr (kTriggersLate<P>) launch_dependents();
  if constexpr (P::row_sum) row = sum_row<P>(logits, place);
  if constexpr (P::hash) {
    slot = look_up<P>(args, token);
    score_slot<P, Custom>(args, slot, token, row);
  } else {
    slot = choose<P, Custom>(args, logits, bias, place, token, row);
  }
  const float weight = weight_of<P>(args, slot);
  if (stored) store_slot<P>(args, token, slot.expert, weight);
}

template <class P, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  constexpr uint32_t kTokens = P::num_warps * kWarpSize / P::lanes;  // of a block at a time
  const uint32_t num_tokens = static_cast<uint32_t>(args.num_tokens);
  const Place place = place_of<P>(lane_index() % P::lanes);
  wait_for_dependencies();
  if constexpr (!kTriggersLate<P>) launch_dependents();
  Lane<P> bias = {};
  if constexpr (P::bias && !P::hash) load_lane<P>(static_cast<const typename P::bias_dtype*>(args.bias), place, bias);
#pragma unroll 1
  for (uint32_t step = block_index(); step < ceil_div(num_tokens, kTokens); step += num_blocks()) {
    const uint32_t token = step * kTokens + thread_index() / P::lanes;
    route<P, Custom>(args, bias, place, min_of(token, num_tokens - 1), token < num_tokens);
  }
}

}  // namespace moegen::router

// ---- this kernel -----------------------------------------------------------------------------------------
namespace moegen {

/// What this kernel was specialised for.
struct Params {
  using logits_dtype = float;  // default: /router/logits
  using weight_dtype = float;  // default: /router/weights
  enum : bool { softmax = true };  // config: /router/scoring
  enum : bool { sigmoid = false };  // config: /router/scoring
  enum : bool { sqrt_softplus = false };  // config: /router/scoring
  enum : bool { expression = false };  // default: /router/scores
  enum : bool { bias = false };  // default: /router/bias
  enum : bool { hash = false };  // default: /router/hash
  enum : bool { by_logit = true };  // derived: scores come later, are the logits, or have their order
  enum : bool { row_sum = false };  // derived: softmax weights that are not normalised, or a choice by softmax
  enum : bool { normalize = true };  // config: /router/normalize
  enum : uint32_t { top_k = 4 };  // config: /top_k
  enum : uint32_t { num_experts = 32 };  // config: /num_experts
  enum : uint32_t { num_zero_experts = 0 };  // default: /num_zero_experts
  enum : uint32_t { num_groups = 1 };  // default: /router/num_groups
  enum : uint32_t { top_groups = 1 };  // default: /router/top_groups
  enum : bool { top2_sum = true };  // default: /router/group_score
  enum : uint32_t { num_shared_slots = 0 };  // default: /router/shared_slots
  enum : uint32_t { shared_weight_bits = 1065353216 };  // derived: 1 as float32, the weight of a shared slot
  enum : uint32_t { lanes = 8 };  // derived: lanes of a token: one a slot and a group, 4 experts each or more
  enum : uint32_t { group_size = 32 };  // derived: experts of a group
  enum : uint32_t { group_lanes = 8 };  // derived: lanes that share a group
  enum : uint32_t { lane_groups = 1 };  // derived: groups that a lane has to itself
  enum : uint32_t { group_share = 4 };  // derived: experts of groups in a lane
  enum : uint32_t { zero_share = 0 };  // derived: zero experts in a lane
  enum : uint32_t { per_lane = 4 };  // derived: experts in a lane
  enum : bool { full_lanes = true };  // derived: every lane has that many
  enum : uint32_t { vector = 4 };  // derived: logits of a load, up to 16 bytes
  enum : bool { exact_packing = false };  // derived: keys of 16 bits leave room for an id
  enum : uint32_t { index_mask = 3 };  // derived: bits of an element's number below its key
  enum : uint32_t { list_size = 4 };  // derived: keys of a lane that are kept sorted
  enum : bool { refills = false };  // derived: a lane may hold more of the chosen ones than it keeps sorted
  enum : uint32_t { num_warps = 4 };  // derived: one for each scheduler of a multiprocessor
};

/// What the config adds to a logit.
struct Custom {
};

}  // namespace moegen

extern "C" __global__ void __launch_bounds__(128, 1)
moegen_router(const __grid_constant__ moegen::router::Args args) {
  using namespace moegen;
  router::run<Params, Custom>(args);
}
