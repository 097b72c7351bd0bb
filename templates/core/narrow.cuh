// SPDX-License-Identifier: Apache-2.0
// float <-> floats of 8 bits and fewer, by the hardware's rules: to nearest even, too large to the largest, NaN to the
// canonical NaN. Where an arch has no instruction for it, the same bits are computed.
#pragma once

#include "bits.cuh"
#include "types.cuh"

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
