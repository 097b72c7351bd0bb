// SPDX-License-Identifier: Apache-2.0
// Conversions that kernel text calls: to nearest even, NaN to the canonical one, as cvt.rn does. Narrower floats are
// converted by the text itself (templates/core/narrow.cuh).
#include <bit>
#include <cstdint>

#include "cpu/model/calls.hpp"

namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint16_t kNan = 0x7FFF;  // of both types

/// `bits` without its low `count`, rounded to nearest even.
constexpr std::uint32_t round_off(std::uint32_t bits, int count) noexcept {
  const std::uint32_t half = (1u << (count - 1)) - 1;
  return (bits + half + (bits >> count & 1)) >> count;
}

}  // namespace

extern "C" {

unsigned short moegen_cpu_float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > kInfinity) return kNan;
  return static_cast<unsigned short>(round_off(bits, 16));
}

unsigned short moegen_cpu_float_to_float16(float value) {
  constexpr std::uint32_t kSmallestNormal = 113u << 23, kTooLarge = 0x477FF000;  // 2^-14; 65520
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF, sign = bits >> 16 & 0x8000;
  if (magnitude > kInfinity) return kNan;
  std::uint32_t rounded;
  if (magnitude >= kTooLarge)
    rounded = 0x7C00;
  else if (magnitude >= kSmallestNormal)
    rounded = round_off(magnitude - (112u << 23), 13);
  else  // in units of 2^-24: the lowest bit of a float in [0.5, 1)
    rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  return static_cast<unsigned short>(sign | rounded);
}

}  // extern "C"
