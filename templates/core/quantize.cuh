// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include "approx.cuh"
#include "bits.cuh"
#include "math.cuh"
#include "narrow.cuh"
#include "types.cuh"

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
