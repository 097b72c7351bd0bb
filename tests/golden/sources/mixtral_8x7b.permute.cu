// SPDX-License-Identifier: Apache-2.0
// permute of mixtral_8x7b for sm_90a, written by moegen.

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

// ---- core/elements.cuh -----------------------------------------------------------------------------------
// Neighbouring elements of a row as they lie in memory, in 16-byte pieces, and as floats.


namespace moegen {

/// `Count` elements of type T (float, bfloat16, float16).
template <class T, uint32_t Count>
struct Elements {
  static constexpr uint32_t kPieces = Count * sizeof(T) / sizeof(Vector16);
  static_assert(kPieces * sizeof(Vector16) == Count * sizeof(T), "whole 16-byte pieces");
  Vector16 piece[kPieces];

  /// Element `index`, a constant after unrolling.
  MOEGEN_DEVICE float operator[](uint32_t index) const {
    if constexpr (sizeof(T) == 4) {
      return bits_float(piece[index / 4].word[index % 4]);
    } else {
      const uint32_t word = piece[index / 8].word[index % 8 / 2];
      return to_float(T{static_cast<uint16_t>(index % 2 == 0 ? word & 0xFFFFu : word >> 16)});
    }
  }
};

/// The elements from number `first` of `base` on, whose address is a multiple of 16. Nothing writes them meanwhile.
template <class T, uint32_t Count>
MOEGEN_DEVICE Elements<T, Count> load_elements(const void* base, uint64_t first) {
  const char* pointer = static_cast<const char*>(base) + first * sizeof(T);
  Elements<T, Count> elements;
#pragma unroll
  for (uint32_t i = 0; i < Elements<T, Count>::kPieces; ++i)
    elements.piece[i] = load_constant(pointer + i * sizeof(Vector16));
  return elements;
}

/// 16 bytes of elements of type T, rounded from `value`.
template <class T>
MOEGEN_DEVICE Vector16 pack_elements(const float (&value)[16 / sizeof(T)]) {
  Vector16 packed;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      packed.word[i] = float_bits(value[i]);
    else
      packed.word[i] = pack_pair(T{}, value[2 * i], value[2 * i + 1]);
  }
  return packed;
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

// ---- core/row_codes.cuh ----------------------------------------------------------------------------------
// What rows of floats are stored as: in their own dtype, or quantised with scales. One type of namespace kinds for each
// scheme (a kernel's `scheme_kind`), which encodes a vector.
//
// A thread encodes `vector` neighbouring elements at a time, which become one piece of 16 bytes, or of 8 where codes
// have four bits. Vectors of a row are numbered from its first column; groups of several vectors lie in neighbouring
// lanes of a warp, whose lanes all take part. Params: width, vector, scheme_kind, output_dtype, scale_dtype,
// column_scales, floor() (quantised ones).


namespace moegen {

/// Where rows go.
struct RowOutput {
  void* rows;              // [R, width] codes or elements
  void* scales;            // as the scheme says
  float global;            // tensor: the scale; nvfp4: the factor of all scales
  uint64_t scales_stride;  // column_scales: elements between two rows of the transposed scales
};

/// The stride that a launch means: `stride`, or `num_rows` rounded up to 16 bytes of scales where it is 0.
template <class P>
MOEGEN_DEVICE uint64_t column_stride(int64_t stride, int64_t num_rows) {
  if constexpr (!P::column_scales)
    return 0;
  else
    return stride != 0 ? static_cast<uint64_t>(stride)
                       : round_up<uint64_t>(static_cast<uint64_t>(num_rows), 16 / sizeof(typename P::scale_dtype));
}

/// What the arguments of a launch say of it.
template <class P, class Args>
MOEGEN_DEVICE RowOutput row_output(const Args& args) {
  float global = 0.0f;
  if constexpr (P::scheme_kind::has_global) global = *args.global_scale;
  return {args.rows, args.scales, global, column_stride<P>(args.scales_stride, args.num_rows)};
}

/// One vector as it is stored.
struct Encoded {
  Vector16 codes;  // those of four bits fill half of it
  uint32_t scale;  // bits, in the low bytes
};

/// Number of vectors in a row.
template <class P>
constexpr uint32_t kVectorsOfRow = P::width / P::vector;

template <class P>
MOEGEN_DEVICE void store_codes(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  constexpr uint32_t kBytes = P::scheme_kind::vector_bytes;
  char* pointer = static_cast<char*>(output.rows) + (row * kVectorsOfRow<P> + vector) * kBytes;
  if constexpr (kBytes == sizeof(Vector16))
    store(pointer, encoded.codes);
  else
    store(pointer, Vector8{encoded.codes.word[0], encoded.codes.word[1]});
}

namespace kinds {

/// Rows keep their dtype.
struct none {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 0 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    return {pack_elements<typename P::output_dtype>(value), 0};
  }
};

/// e4m3 under one scale that comes with the launch. A scale that has no Quotient is divided by.
struct tensor {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 16, group = 0 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput& output) {
    const float scale = output.global;
    Encoded encoded;
    if (has_quotient(scale)) {
      bound_values(value, 512.0f * scale);
      encode_e4m3(value, Quotient(scale), encoded.codes.word);
    } else {
      encode_e4m3(value, Divided{scale}, encoded.codes.word);
    }
    return encoded;
  }
};

/// e4m3, a float32 scale a row: scales [R].
struct rowwise {
  enum : bool { whole_row = true, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 0 };
  template <class P>
  static constexpr uint32_t scale_bytes = 4;
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return float_bits(scale_of<448>(P::floor()));
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude& row, const RowOutput&) {
    Encoded encoded;
    encoded.scale = float_bits(quantize_float32<P>(value, row, encoded.codes.word));
    return encoded;
  }
};

/// e4m3, a scale for each 128 columns, the last of a row maybe fewer: scales [R, groups], or [groups, stride] with
/// column_scales; float32 or e8m0.
struct block128 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 128 };
  template <class P>
  static constexpr uint32_t scale_bytes = sizeof(typename P::scale_dtype);
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return sizeof(typename P::scale_dtype) == 4 ? float_bits(scale_of<448>(P::floor()))
                                                : e8m0_scale_of<448>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    const Magnitude group = group_magnitude<128>(value);
    Encoded encoded;
    if constexpr (sizeof(typename P::scale_dtype) == 4)
      encoded.scale = float_bits(quantize_float32<P>(value, group, encoded.codes.word));
    else
      encoded.scale = quantize_e8m0<P>(value, group, encoded.codes.word);
    return encoded;
  }
};

/// e4m3, an e8m0 scale for each 32 columns, the last of a row maybe 16: scales [R, groups].
struct mxfp8 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 32 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return e8m0_scale_of<448>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    Encoded encoded;
    encoded.scale = quantize_e8m0<P>(value, group_magnitude<32>(value), encoded.codes.word);
    return encoded;
  }
};

/// Two e2m1 a byte, an e8m0 scale for each 32 columns: scales [R, width / 32].
struct mxfp4 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 8, group = 32 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return e8m0_scale_of<6>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    uint32_t word[2];
    const uint32_t scale = quantize_mxfp4<P>(value, group_magnitude_or_nan<32>(value), word);
    return {{{word[0], word[1]}}, scale};
  }
};

/// Two e2m1 a byte, an e4m3 scale for each 16 columns, all under one float32 factor: scales [R, width / 16].
struct nvfp4 {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 8, group = 16 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput& output) {
    uint32_t word[2];
    const uint32_t scale = quantize_nvfp4(value, output.global, word);
    return {{{word[0], word[1]}}, scale};
  }
};

}  // namespace kinds

/// Vectors that share a scale, and scales of a row. Schemes with groups of columns alone have them.
template <class P>
constexpr uint32_t kVectorsOfScale = P::scheme_kind::group / P::vector;
template <class P>
constexpr uint32_t kScalesOfRow = ceil_div<uint32_t>(P::width, P::scheme_kind::group);

/// Stores the bits of a scale, of `scale_bytes` bytes, as element `index` of all scales.
template <class P>
MOEGEN_DEVICE void store_scale(const RowOutput& output, uint64_t index, uint32_t scale) {
  if constexpr (P::scheme_kind::template scale_bytes<P> == 4)
    static_cast<uint32_t*>(output.scales)[index] = scale;
  else
    static_cast<uint8_t*>(output.scales)[index] = static_cast<uint8_t>(scale);
}

/// The scale that a vector is the first of, if it is.
template <class P>
MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  if constexpr (P::scheme_kind::whole_row) {
    if (vector == 0) store_scale<P>(output, row, encoded.scale);
  } else if constexpr (P::scheme_kind::group != 0) {
    if (vector % kVectorsOfScale<P> != 0) return;
    const uint64_t group = vector / kVectorsOfScale<P>;
    const uint64_t at = P::column_scales ? group * output.scales_stride + row : row * kScalesOfRow<P> + group;
    store_scale<P>(output, at, encoded.scale);
  }
}

/// Codes and scales of one vector.
template <class P>
MOEGEN_DEVICE void store_encoded(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  store_codes<P>(output, row, vector, encoded);
  store_scales<P>(output, row, vector, encoded);
}

}  // namespace moegen

// ---- core/rows.cuh ---------------------------------------------------------------------------------------
// Rows of floats, element by element in and encoded out: what permute, activation and quantize have in common.
//
// A team of `team` threads takes a slice of `team * vectors` vectors of one row, thread t the vectors t, t + team, ...
// of it; `rows_per_block` teams make a block, `blocks_per_row` slices a row. Schemes whose scale depends on the whole
// row (rowwise) have one slice a row, kept in registers between the two steps; a row too wide for that is read twice.
// Shared memory: one word for each warp and parity, for the maximum of a row of several warps. One barrier a row.


namespace moegen {

/// This thread's place in its block.
template <class P>
MOEGEN_DEVICE uint32_t row_in_block() {
  return P::rows_per_block == 1 ? 0 : thread_index() / P::team;
}
template <class P>
MOEGEN_DEVICE uint32_t index_in_team() {
  return P::rows_per_block == 1 ? thread_index() : thread_index() % P::team;
}

/// Largest of `value` in the team. `parity` alternates from one call of a block to its next.
template <class P>
MOEGEN_DEVICE float team_max(float value, uint32_t parity) {
  const uint32_t largest = warp_max(float_bits(value));
  if constexpr (P::team == kWarpSize) return bits_float(largest);
  constexpr uint32_t kWarps = P::team / kWarpSize;
  uint32_t* word = reinterpret_cast<uint32_t*>(dynamic_shared()) + parity * kWarps;
  if (lane_index() == 0) word[warp_index()] = largest;
  block_sync();
  return bits_float(warp_max(lane_index() < kWarps ? word[lane_index()] : 0));
}

/// The values of vector `vector`, zeros past the end of a row or without one.
template <class P, class Source>
MOEGEN_DEVICE void read_vector(const Source& source, bool has_row, uint32_t vector, float (&value)[P::vector]) {
  if (has_row && vector < kVectorsOfRow<P>) return source(vector, value);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) value[i] = 0.0f;
}

/// Encodes the team's slice of a row. source(vector, value) gives floats, sink(vector, encoded) takes what they become.
/// All threads of the block call it; those without a row get zeros and give nothing.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_slice(const RowOutput& output, bool has_row, uint32_t first, const Source& source,
                                const Sink& sink, uint32_t parity) {
  using Scheme = typename P::scheme_kind;
  float value[P::vectors][P::vector];
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i) read_vector<P>(source, has_row, first + i * P::team, value[i]);
  Magnitude row = kNothing;
  if constexpr (Scheme::whole_row) {
#pragma unroll
    for (uint32_t i = 0; i < P::vectors; ++i) row = larger_of(row, finite_magnitude(value[i]));
    row.largest = team_max<P>(row.largest, parity);
  }
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i) {
    const uint32_t vector = first + i * P::team;
    const Encoded encoded = Scheme::template encode<P>(value[i], row, output);
    if (has_row && vector < kVectorsOfRow<P>) sink(vector, encoded);
  }
}

/// The same for a row that is too wide to keep: once for its maximum, once for its codes.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_wide_row(const RowOutput& output, bool has_row, const Source& source, const Sink& sink,
                                   uint32_t parity) {
  constexpr uint32_t kSteps = ceil_div<uint32_t>(kVectorsOfRow<P>, P::team);
  float value[P::vector];
  Magnitude row = kNothing;
#pragma unroll 1
  for (uint32_t step = 0; step < kSteps; ++step) {
    read_vector<P>(source, has_row, step * P::team + index_in_team<P>(), value);
    row = larger_of(row, finite_magnitude(value));
  }
  row.largest = team_max<P>(row.largest, parity);
#pragma unroll 1
  for (uint32_t step = 0; step < kSteps; ++step) {
    const uint32_t vector = step * P::team + index_in_team<P>();
    read_vector<P>(source, has_row, vector, value);
    const Encoded encoded = P::scheme_kind::template encode<P>(value, row, output);
    if (has_row && vector < kVectorsOfRow<P>) sink(vector, encoded);
  }
}

/// Slice `slice` of a row, by whichever of the two the plan chose.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_row(const RowOutput& output, bool has_row, uint32_t slice, const Source& source,
                              const Sink& sink, uint32_t parity) {
  if constexpr (P::row_kept)
    encode_slice<P>(output, has_row, slice * P::team * P::vectors + index_in_team<P>(), source, sink, parity);
  else
    encode_wide_row<P>(output, has_row, source, sink, parity);
}

/// Rows that a kernel goes over: `count` on the device where there is one, at most `bound`.
MOEGEN_DEVICE uint64_t rows_in_use(const uint32_t* count, int64_t bound) {
  const uint64_t rows = static_cast<uint64_t>(bound);
  return count == nullptr ? rows : min_of<uint64_t>(*count, rows);
}

/// Calls body(row, has_row, slice, parity) for every row below `count` that is this block's: the grid strides over
/// them, as it may be smaller than their number, and their number smaller than the host knows.
template <class P, class Body>
MOEGEN_DEVICE void for_each_row(uint64_t count, const Body& body) {
  uint32_t parity = 0;
  for (uint64_t unit = block_index();; unit += num_blocks(), parity ^= 1) {
    const uint64_t first = unit / P::blocks_per_row * P::rows_per_block;
    if (first >= count) return;
    const uint64_t row = first + row_in_block<P>();
    const bool in_team = P::rows_per_block == 1 || row_in_block<P>() < P::rows_per_block;
    body(row, in_team && row < count, static_cast<uint32_t>(unit % P::blocks_per_row), parity);
  }
}

}  // namespace moegen

// ---- permute/args.h --------------------------------------------------------------------------------------
// Arguments of permute, shared by host and device.


namespace moegen::permute {

/// rows[p] = x[order[p] / slots] for every row p that a pair has, zeros for padding rows (order 0xFFFFFFFF), in
/// dtypes.activation or quantised; times the pair's router weight with experts.weights_on_input. Rows past the last
/// group are left as they are. order is the inverse of restore, which is what the kernel goes by: a token is read once
/// and written to all of its rows. D = expert_hidden, E = num_groups of the config (<moegen/shapes.hpp>).
/// All pointers are device memory; x and rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 3 };  ///< Family::tag

  /// out [R, D] dtypes.activation, or codes as quantize::Args::rows where the plan's scheme_kind is not none.
  void* rows;
  void* scales;   ///< out as quantize::Args::scales, W = D; null where rows are not quantised or the scheme is tensor
  const void* x;  ///< in  [T, D] dtypes.activation
  const uint32_t* restore;  ///< in  [T * slots] row of each pair, 0xFFFFFFFF: none
  const void* weights;      ///< in  [T, slots] router.weights; only with experts.weights_on_input
  /// in [order_capacity] and [E + 1] from create_indices; only with indices.pad_rows_to above 1, for the padding rows.
  const uint32_t* order;
  const uint32_t* expert_start_indices;
  const float* global_scale;  ///< in  [1] tensor: the scale. nvfp4: the factor of all scales. Else null
  int64_t num_tokens;         ///< T; 0 is legal and launches nothing: no pair, no padding
  int64_t num_rows;       ///< R, an upper bound of the rows (order_capacity); only sizes the column layout of scales
  int64_t scales_stride;  ///< as in quantize::Args
};

}  // namespace moegen::permute

// ---- permute/staged_scales.cuh ---------------------------------------------------------------------------
// permute: the scales of a slice of a token, on their way to its rows. A warp has few of them, and stored from where
// they are found each would be an access of its own for every row; from shared memory neighbours leave together.


namespace moegen::permute {

/// Scales of the slices of a block, in shared memory: a word each.
template <class P>
struct StagedScales {
  enum : uint32_t { kOfSlice = ceil_div<uint32_t>(P::team * P::vectors, kVectorsOfScale<P>) };
  uint32_t* word;  // of this team
  uint32_t first;  // vector of the row that the slice begins with

  MOEGEN_DEVICE explicit StagedScales(uint32_t slice)
      : word(reinterpret_cast<uint32_t*>(dynamic_shared()) + row_in_block<P>() * kOfSlice),
        first(slice * P::team * P::vectors) {}

  MOEGEN_DEVICE void put(uint32_t vector, uint32_t scale) const {
    if (vector % kVectorsOfScale<P> == 0) word[(vector - first) / kVectorsOfScale<P>] = scale;
  }

  /// Stores all of them in every row that row_of(slot) names, after a barrier. Teams without a token call it, too.
  template <class RowOf>
  MOEGEN_DEVICE void send(const RowOutput& output, bool has_token, const RowOf& row_of) const {
    block_sync();
    if (!has_token) return;
    const uint32_t begin = first / kVectorsOfScale<P>;
    for (uint32_t i = index_in_team<P>(); i < P::num_slots * kOfSlice; i += P::team) {
      const uint32_t slot = i / kOfSlice, scale = i % kOfSlice;
      if (begin + scale >= kScalesOfRow<P>) continue;
      if (const uint32_t row = row_of(slot); row != kNone)
        store_scale<P>(output, uint64_t{row} * kScalesOfRow<P> + begin + scale, word[scale]);
    }
  }
};

}  // namespace moegen::permute

// ---- permute/kernel.cuh ----------------------------------------------------------------------------------
// permute: the tokens in expert order, quantised where the plan says so.
//
// Algorithm. Most blocks take tokens: a team reads its slice of a token, encodes it once and writes it to the row of
// every slot that has one (restore), so that a token is read and quantised once however many experts it goes to; where
// there are few tokens, several blocks share the slots of each. With weights on the input each slot has values of its
// own and is encoded by itself. The last `pad_blocks`, one for each `pads_per_block` rows that may pad a group, write
// zeros to those that order says are padding.
//
// Roles, shared memory and barriers: core/rows.cuh. With `staged_scales` the scales of a slice meet in shared memory;
// one barrier more.


namespace moegen::permute {

template <class P>
using Row = Elements<typename P::activation_dtype, P::vector>;

/// The slots of a token that this block takes.
struct Slots {
  uint32_t first, end;
};

/// Rows of the pairs of one token, none for slots of other blocks.
template <class P>
struct Targets {
  uint32_t row[P::num_slots];
};

template <class P>
MOEGEN_DEVICE uint32_t target_of(const Args& args, uint64_t token, const Slots& slots, uint32_t slot) {
  return slot >= slots.first && slot < slots.end ? args.restore[token * P::num_slots + slot] : kNone;
}

template <class P>
MOEGEN_DEVICE Targets<P> load_targets(const Args& args, uint64_t token, bool has_token, const Slots& slots) {
  Targets<P> targets;
#pragma unroll
  for (uint32_t slot = 0; slot < P::num_slots; ++slot)
    targets.row[slot] = has_token ? target_of<P>(args, token, slots, slot) : kNone;
  return targets;
}

template <class P>
MOEGEN_DEVICE void read_token(const Args& args, uint64_t token, uint32_t vector, float factor,
                              float (&value)[P::vector]) {
  const uint64_t first = token * P::width + vector * P::vector;
  const Row<P> packed = load_elements<typename P::activation_dtype, P::vector>(args.x, first);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) value[i] = P::weights_on_input ? packed[i] * factor : packed[i];
}

/// One token to all of its rows, bit by bit.
template <class P>
MOEGEN_DEVICE void copy_token(const Args& args, const RowOutput& output, uint64_t token, const Slots& slots,
                              uint32_t slice) {
  const Targets<P> targets = load_targets<P>(args, token, true, slots);
  const char* source = static_cast<const char*>(args.x) + token * kVectorsOfRow<P> * sizeof(Vector16);
  const uint32_t first = slice * P::team * P::vectors + index_in_team<P>();
  Vector16 piece[P::vectors];
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i)
    if (first + i * P::team < kVectorsOfRow<P>)
      piece[i] = load_constant(source + (first + i * P::team) * sizeof(Vector16));
#pragma unroll
  for (uint32_t slot = 0; slot < P::num_slots; ++slot) {
    if (targets.row[slot] == kNone) continue;
#pragma unroll
    for (uint32_t i = 0; i < P::vectors; ++i)
      if (first + i * P::team < kVectorsOfRow<P>)
        store_codes<P>(output, targets.row[slot], first + i * P::team, {piece[i], 0});
  }
}

/// One token to all of its rows, encoded once.
template <class P>
MOEGEN_DEVICE void scatter_token(const Args& args, const RowOutput& output, uint64_t token, bool has_token,
                                 const Slots& slots, uint32_t slice) {
  const Targets<P> targets = load_targets<P>(args, token, has_token, slots);
  const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
    read_token<P>(args, token, vector, 1.0f, value);
  };
  const auto sink = [&](uint32_t vector, const Encoded& encoded) {
#pragma unroll
    for (uint32_t slot = 0; slot < P::num_slots; ++slot) {
      if (targets.row[slot] == kNone) continue;
      store_codes<P>(output, targets.row[slot], vector, encoded);
      if constexpr (!P::staged_scales) store_scales<P>(output, targets.row[slot], vector, encoded);
    }
    if constexpr (P::staged_scales) StagedScales<P>(slice).put(vector, encoded.scale);
  };
  encode_row<P>(output, has_token, slice, source, sink, 0);
  const auto row_of = [&](uint32_t slot) { return target_of<P>(args, token, slots, slot); };
  if constexpr (P::staged_scales) StagedScales<P>(slice).send(output, has_token, row_of);
}

/// One token to all of its rows, each times its weight.
template <class P>
MOEGEN_DEVICE void scatter_weighted(const Args& args, const RowOutput& output, uint64_t token, bool has_token,
                                    const Slots& slots, uint32_t slice) {
#pragma unroll 1
  for (uint32_t slot = slots.first; slot < (P::num_slots == 1 ? 1 : slots.end); ++slot) {
    const uint64_t pair = token * P::num_slots + slot;
    const uint32_t row = has_token ? args.restore[pair] : kNone;  // the token is read meanwhile
    const float factor =
        row != kNone ? to_float(static_cast<const typename P::weight_dtype*>(args.weights)[pair]) : 0.0f;
    const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
      read_token<P>(args, token, vector, factor, value);
    };
    const auto sink = [&](uint32_t vector, const Encoded& encoded) {
      if (row != kNone) store_encoded<P>(output, row, vector, encoded);
    };
    encode_row<P>(output, has_token, slice, source, sink, slot % 2);
  }
}

/// Zeros in row `row`, by its team: codes of 0 under the scale of a group of zeros.
template <class P>
MOEGEN_DEVICE void clear_row(const RowOutput& output, uint64_t row) {
  const Encoded zeros = {{}, P::scheme_kind::template scale_of_zeros<P>()};
#pragma unroll 1
  for (uint32_t vector = index_in_team<P>(); vector < kVectorsOfRow<P>; vector += P::team)
    store_encoded<P>(output, row, vector, zeros);
}

/// Padding rows of one block: `pads_per_block` distances from the end of one group, a team each. Padding is at the end,
/// and order says where it begins.
template <class P>
MOEGEN_DEVICE void clear_padding(const Args& args, const RowOutput& output, uint32_t block) {
  constexpr uint32_t kBlocksPerGroup = ceil_div<uint32_t>(P::pad_rows_to - 1, P::pads_per_block);
  const uint32_t group = block / kBlocksPerGroup, first = block % kBlocksPerGroup * P::pads_per_block + 1;
  const uint32_t begin = args.expert_start_indices[group], end = args.expert_start_indices[group + 1];
  if (row_in_block<P>() >= P::rows_per_block) return;
#pragma unroll 1
  for (uint32_t i = 0; i < P::pads_per_block; i += P::rows_per_block) {
    const uint32_t distance = first + i + row_in_block<P>();
    const bool in_group = distance < P::pad_rows_to && begin + distance <= end;
    if (in_group && args.order[end - distance] == kNone) clear_row<P>(output, end - distance);
  }
}

/// The slots of part `part` of the blocks.
template <class P>
MOEGEN_DEVICE Slots slots_of(uint32_t part, uint32_t token_blocks) {
  if constexpr (P::num_slots == 1) return {0, 1};
  const uint32_t num_parts = (num_blocks() - P::pad_blocks) / token_blocks;
  const uint32_t share = ceil_div<uint32_t>(P::num_slots, num_parts);
  return {part * share, min_of<uint32_t>((part + 1) * share, P::num_slots)};
}

/// Tokens of this block: blocks below `token_blocks` have all tokens once, and so on for each part of their slots.
template <class P>
MOEGEN_DEVICE void scatter(const Args& args, const RowOutput& output, uint32_t token_blocks) {
  const uint32_t part = P::num_slots == 1 ? 0 : block_index() / token_blocks;
  const uint32_t unit = block_index() - part * token_blocks;
  const Slots slots = slots_of<P>(part, token_blocks);
  const uint32_t slice = unit % P::blocks_per_row, in_block = row_in_block<P>();
  const uint64_t token = uint64_t{unit / P::blocks_per_row} * P::rows_per_block + in_block;
  const bool has_token = in_block < P::rows_per_block && token < static_cast<uint64_t>(args.num_tokens);
  if constexpr (P::weights_on_input)
    scatter_weighted<P>(args, output, token, has_token, slots, slice);
  else if constexpr (P::quantised)
    scatter_token<P>(args, output, token, has_token, slots, slice);
  else if (has_token)
    copy_token<P>(args, output, token, slots, slice);
}

template <class P>
MOEGEN_DEVICE void run(const Args& args) {
  launch_dependents();
  wait_for_dependencies();
  const RowOutput output = row_output<P>(args);
  const auto token_blocks = static_cast<uint32_t>(
      ceil_div<uint64_t>(static_cast<uint64_t>(args.num_tokens), P::rows_per_block) * P::blocks_per_row);
  if (const uint32_t rest = num_blocks() - P::pad_blocks; block_index() < rest)
    scatter<P>(args, output, token_blocks);
  else if constexpr (P::pad_rows_to > 1)
    clear_padding<P>(args, output, block_index() - rest);
}

}  // namespace moegen::permute

// ---- this kernel -----------------------------------------------------------------------------------------
namespace moegen {

/// What this kernel was specialised for.
struct Params {
  enum : uint32_t { width = 4096 };  // config: /hidden
  using activation_dtype = bfloat16;  // config: /dtypes/activation
  using scheme_kind = kinds::none;  // derived: rows keep their dtype
  enum : bool { quantised = false };  // derived: rows keep their dtype
  using output_dtype = bfloat16;  // config: /dtypes/activation
  enum : bool { column_scales = false };  // default: /quantization/scale_layout
  enum : uint32_t { vector = 8 };  // derived: elements that a thread encodes at a time
  enum : uint32_t { vectors = 2 };  // derived: vectors of a thread in a row
  enum : uint32_t { team = 256 };  // derived: threads of a row, or of a slice of it
  enum : uint32_t { rows_per_block = 1 };  // derived: teams of a block
  enum : uint32_t { blocks_per_row = 1 };  // derived: slices that cover a row
  enum : bool { row_kept = true };  // derived: registers hold what a team reads
  enum : uint32_t { num_slots = 2 };  // derived: top_k and the router's shared slots
  enum : bool { weights_on_input = false };  // default: /experts/weights_on_input
  enum : uint32_t { pad_rows_to = 1 };  // default: /indices/pad_rows_to
  enum : uint32_t { pads_per_block = 8 };  // derived: rows that one block looks at for padding
  enum : uint32_t { pad_blocks = 0 };  // derived: blocks for the padding rows of every group
  enum : bool { staged_scales = false };  // derived: stored as they are found
};

}  // namespace moegen

extern "C" __global__ void __launch_bounds__(256, 1)
moegen_permute(const __grid_constant__ moegen::permute::Args args) {
  using namespace moegen;
  permute::run<Params>(args);
}
