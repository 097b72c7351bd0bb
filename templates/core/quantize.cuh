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
// Division. IEEE division takes about ten instructions; Refined takes three and two that bound infinities, and gives
// the same code: its quotient is off by less than 2^-20 ulp before its last rounding, so it can differ from fl32(x / s)
// only beside a rounding boundary of the code, a number of five significant bits. tests/unit/test_quantize.cpp tries
// every significand of s against every such boundary. (It needs the nearest float to 1 / s: one ulp off, a few
// significands fail; 1 / s is taken once a group.)
#pragma once

#include "bits.cuh"
#include "math.cuh"
#include "narrow.cuh"
#include "types.cuh"

namespace moegen {

/// Largest finite number.
constexpr float kLargestFloat = 3.40282347e38f;

/// What the scale of a group depends on.
struct Magnitude {
  float largest;  // of the finite values, 0 if there is none
  bool nan;       // there is a NaN
};

/// Of `Count` values of this thread.
template <uint32_t Count>
MOEGEN_DEVICE Magnitude finite_magnitude(const float (&value)[Count]) {
  float largest = 0.0f;
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) largest = math::max(largest, math::abs(value[i]));
  if (largest <= kLargestFloat) return {largest, false};
  const bool nan = largest != largest;
  largest = 0.0f;
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) {
    const float magnitude = math::abs(value[i]);
    if (magnitude <= kLargestFloat) largest = math::max(largest, magnitude);
  }
  return {largest, nan};
}

/// limit / Largest, correctly rounded, for finite limits from 2^-100 on: multiplied, and the remainder put right
/// (every significand is tried in tests/unit/test_quantize.cpp). Largest: 448 or 6.
template <uint32_t Largest>
MOEGEN_DEVICE float scale_of(float limit) {
  constexpr float kInverse = 1.0f / static_cast<float>(Largest);
  const float quotient = limit * kInverse;
  return math::fma(math::fma(-quotient, static_cast<float>(Largest), limit), kInverse, quotient);
}

/// a * b + c, rounded to negative infinity, so that an exact zero is -0. fma.rm.f32
MOEGEN_DEVICE float fma_down(float a, float b, float c) {
#ifdef MOEGEN_TARGET_CPU
  const float sum = math::fma(a, b, c);  // to nearest otherwise: the remainders it is used for are exact or nearly so
  return sum == 0.0f ? -0.0f : sum;
#else
  float result;
  asm("fma.rm.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
#endif
}

/// x / scale, for codes (see above). Scale in [2^-90, 2^120]; no value above 2^9 scale once bounded.
struct Refined {
  float scale;
  float inverse;  // 1 / scale, rounded once
  float limit;    // bound on |x|: what is above becomes it and saturates

  MOEGEN_DEVICE Refined(float of, float bound) : scale(of), inverse(math::reciprocal(of)), limit(bound) {}
  MOEGEN_DEVICE float operator()(float x) const {
    const float bounded = math::clamp(x, -limit, limit);
    const float quotient = bounded * inverse;
    // A remainder of -0 keeps the sign of a quotient of -0.
    return math::fma(fma_down(-quotient, scale, bounded), inverse, quotient);
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

/// True if Refined may stand for a division by `scale`, with 2^9 times that for a bound: 2^-90 to 2^110.
MOEGEN_DEVICE bool refinable(float scale) { return scale >= 8.0779357e-28f && scale <= 1.29807421e33f; }

/// Codes of `Count` values, four a word, the first in the low byte.
template <class Quotient, uint32_t Count>
MOEGEN_DEVICE void encode_e4m3(const float (&value)[Count], const Quotient& quotient, uint32_t (&word)[Count / 4]) {
#pragma unroll
  for (uint32_t i = 0; i < Count / 4; ++i)
    word[i] = pack_e4m3(quotient(value[4 * i]), quotient(value[4 * i + 1])) |
              pack_e4m3(quotient(value[4 * i + 2]), quotient(value[4 * i + 3])) << 16;
}

/// |x| / scale as Refined gives it; not bounded, so an infinity becomes NaN.
struct RefinedMagnitude {
  float scale, inverse;
  MOEGEN_DEVICE explicit RefinedMagnitude(float of) : scale(of), inverse(math::reciprocal(of)) {}
  MOEGEN_DEVICE float operator()(float x) const {
    const float magnitude = math::abs(x), quotient = magnitude * inverse;
    return math::fma(math::fma(-quotient, scale, magnitude), inverse, quotient);
  }
};

/// The e2m1 code of a magnitude, to nearest even; above 6 and NaN: 7. Adding 2^22, 2^23 or 2^24, as the magnitude is
/// below 2, below 4 or above, leaves it in steps of 0.5, 1 or 2 in the low bits: codes 0..4, 4..6, 6..7.
MOEGEN_DEVICE uint32_t round_to_e2m1(float magnitude) {
  const float bounded = magnitude < 6.0f ? magnitude : 6.0f;
  const uint32_t binade = max_of<uint32_t>(float_bits(bounded) & 0x7F800000u, 0x3F800000u);
  const uint32_t shifted = float_bits(bounded + bits_float(binade + (22u << 23)));
  return shifted - binade + (binade >> 22) - ((22u << 23) + 254u);
}

/// Codes of eight of `value` from `First` on, the first in the low half of the low byte. quotient(x): |x| / scale, or
/// x / scale; the sign is that of the value.
template <uint32_t First, class Quotient, uint32_t Count>
MOEGEN_DEVICE uint32_t encode_e2m1(const float (&value)[Count], const Quotient& quotient) {
  uint32_t word = 0;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const float x = value[First + i];
    const uint32_t code = round_to_e2m1(math::abs(quotient(x)));
    word |= (code | (float_bits(x) >> 28 & 8)) << 4 * i;
  }
  return word;
}

/// 2^-e of an e8m0 scale 2^e; NaN of NaN.
MOEGEN_DEVICE Multiplied inverse_of_e8m0(uint32_t scale) {
  if (scale == 0xFF) return {bits_float(0x7FFFFFFFu)};
  return {bits_float(scale == 0xFE ? 0x400000u : (254 - scale) << 23)};
}

/// The float32 scale and the codes of a group with the finite magnitude `largest`, floor applied.
template <class P, uint32_t Count>
MOEGEN_DEVICE float quantize_float32(const float (&value)[Count], float largest, uint32_t (&word)[Count / 4]) {
  const float limit = math::max(largest, P::floor());
  const float scale = scale_of<448>(limit);
  if constexpr (P::floor() >= 1e-24f)
    encode_e4m3(value, Refined(scale, limit), word);
  else
    encode_e4m3(value, Divided{scale}, word);
  return scale;
}

/// The e8m0 scale and the e4m3 codes of such a group.
template <class P, uint32_t Count>
MOEGEN_DEVICE uint32_t quantize_e8m0(const float (&value)[Count], float largest, uint32_t (&word)[Count / 4]) {
  const uint32_t scale = round_up_to_e8m0(scale_of<448>(math::max(largest, P::floor())));
  encode_e4m3(value, inverse_of_e8m0(scale), word);
  return scale;
}

/// What the codes of a group with a NaN are: those of NaN quotients.
constexpr uint32_t kCodesOfNan = 0x77777777u;

/// The e8m0 scale and the e2m1 codes of a group of 32.
template <class P>
MOEGEN_DEVICE uint32_t quantize_mxfp4(const float (&value)[32], uint32_t (&word)[4]) {
  const Magnitude magnitude = finite_magnitude(value);
  const uint32_t scale = round_up_to_e8m0(scale_of<6>(math::max(magnitude.largest, P::floor())));
  const Multiplied by = inverse_of_e8m0(scale);
  word[0] = encode_e2m1<0>(value, by);
  word[1] = encode_e2m1<8>(value, by);
  word[2] = encode_e2m1<16>(value, by);
  word[3] = encode_e2m1<24>(value, by);
  if (!magnitude.nan) return scale;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) word[i] = kCodesOfNan;
  return 0xFF;
}

/// The e4m3 scale and the e2m1 codes of a group of 16, which begins at `First` of `value`. A factor of 2^-80 to 2^80
/// leaves every divisor where RefinedMagnitude is exact.
template <uint32_t First, uint32_t Count>
MOEGEN_DEVICE uint32_t quantize_nvfp4(const float (&value)[Count], float global, uint32_t& low, uint32_t& high) {
  float group[16];
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i) group[i] = value[First + i];
  const Magnitude magnitude = finite_magnitude(group);
  // Products below what scale_of takes have a scale of 0 in any case.
  const uint32_t scale = pack_e4m3(scale_of<6>(math::min(global * magnitude.largest, kLargestFloat)), 0.0f) & 0xFF;
  const float divisor = math::divide(unpack_e4m3(scale).low, global);
  const RefinedMagnitude by(divisor);
  low = encode_e2m1<0>(group, by);
  high = encode_e2m1<8>(group, by);
  if (scale == 0) low = high = 0;
  if (magnitude.nan) low = high = kCodesOfNan;
  return magnitude.nan ? 0x7F : scale;
}

}  // namespace moegen
