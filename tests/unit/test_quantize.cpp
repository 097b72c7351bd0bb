// SPDX-License-Identifier: Apache-2.0
// What templates/core/quantize.cuh says of its divisions, tried on every significand: that a refined quotient never
// falls on another side of a code's rounding boundary than the IEEE quotient does, and that a scale is rounded once.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>

#define MOEGEN_TARGET_CPU
#define __device__
#define __forceinline__ inline
#include "../../templates/core/quantize.cuh"

namespace {

using moegen::bits_float;
using moegen::float_bits;

// Every significand with MOEGEN_MATH_STEP=1 (half a minute, compiled with -O2); a prime step else, so that no bit stays
// fixed.
std::uint32_t step() {
  const char* text = std::getenv("MOEGEN_MATH_STEP");
  return text == nullptr ? 499 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

int side(float x, float boundary) { return x < boundary ? -1 : x > boundary ? 1 : 0; }

float moved(float x, int ulps) { return bits_float(float_bits(x) + static_cast<std::uint32_t>(ulps)); }

// The correction of a quotient as it may be rounded: to nearest, as on the CPU target, and either way, as a GPU does
// for one sign of x and the other.
float product_to(float a, float b, float limit) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  const auto nearest = static_cast<float>(exact);
  const bool passed = limit < 0 ? static_cast<double>(nearest) > exact : static_cast<double>(nearest) < exact;
  return passed ? std::nextafterf(nearest, limit) : nearest;
}

struct Count {
  std::uint64_t tried = 0, wrong = 0;
  void add(float quotient, float boundary, int want) {
    ++tried;
    wrong += side(quotient, boundary) != want;
  }
};

// What is missing of an inverse that is not the nearest.
moegen::Quotient moved_quotient(float scale, int ulps) {
  moegen::Quotient by(scale);
  by.inverse = moved(by.inverse, ulps);
  const float error = std::fmaf(-by.inverse, scale, 1.0f);
  by.missing = std::fmaf(error, error, error);
  return by;
}

// Quotients around `boundary`: what comes out on the wrong side.
void try_boundary(const moegen::Quotient& by, float scale, float boundary, Count& count) {
  for (int distance = -2; distance <= 2; ++distance) {
    const float x = moved(scale * boundary, distance);
    const int want = side(x / scale, boundary);
    count.add(by(x), boundary, want);
    for (const float limit : {-INFINITY, INFINITY})
      count.add(std::fmaf(x, by.inverse, product_to(x * by.inverse, by.missing, limit)), boundary, want);
  }
}

// The same for quotients that are halved, to be e2m1 codes.
void try_half(float scale, float boundary, Count& count) {
  const moegen::HalfQuotient half(scale);
  for (int distance = -2; distance <= 2; ++distance) {
    const float x = moved(scale * boundary, distance);
    count.add(2.0f * half(x), boundary, side(x / scale, boundary));
  }
}

}  // namespace

TEST_CASE("a quotient is on the same side of every boundary of five bits as the IEEE quotient") {
  Count count;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; significand += step()) {
    const float scale = static_cast<float>(significand) * 0x1p-30f;
    const moegen::Quotient by(scale);
    for (int boundary = 16; boundary < 32; ++boundary) {
      try_boundary(by, scale, static_cast<float>(boundary) / 16, count);
      try_half(scale, static_cast<float>(boundary) / 16, count);
    }
  }
  CHECK(count.wrong == 0);
  CHECK(count.tried >= 16u * 20u * ((1u << 23) / step()));
}

TEST_CASE("so it is at both ends of the range of divisors that halved quotients have") {
  Count count;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; significand += 49999)
    for (int boundary = 16; boundary < 32; ++boundary)
      for (const float unit : {0x1p-113f, 0x1p66f})
        try_half(static_cast<float>(significand) * unit, static_cast<float>(boundary) / 16, count);
  CHECK(count.wrong == 0);
  CHECK(count.tried > 10000);
}

TEST_CASE("it would not be with an inverse that is one ulp away") {
  Count count;  // found by trying all of them
  const float first = bits_float(0x3C0FFFFFu), second = bits_float(0x3C1FFFFFu);
  try_boundary(moved_quotient(first, -1), first, 25.0f / 16, count);
  try_boundary(moved_quotient(second, 1), second, 22.0f / 16, count);
  CHECK(count.wrong >= 2);
}

TEST_CASE("nor without the square of what an inverse misses") {
  Count count;
  const float scale = bits_float(0x3C7FFFFFu);
  moegen::Quotient by(scale);
  by.missing = std::fmaf(-by.inverse, scale, 1.0f);
  try_boundary(by, scale, 1.0f, count);
  CHECK(count.wrong >= 1);
}

TEST_CASE("nor without the correction") {
  std::uint64_t wrong = 0;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; significand += 499) {
    const float scale = static_cast<float>(significand) * 0x1p-30f, inverse = 1.0f / scale;
    for (int boundary = 16; boundary < 32; ++boundary)
      for (int ulps = -2; ulps <= 2; ++ulps) {
        const float edge = static_cast<float>(boundary) / 16, x = moved(scale * edge, ulps);
        wrong += side(x * inverse, edge) != side(x / scale, edge);
      }
  }
  CHECK(wrong > 1000);
}

TEST_CASE("a scale is a correctly rounded quotient") {
  std::uint64_t wrong = 0;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; ++significand)
    for (const float unit : {0x1p-123f, 0x1p-40f, 0x1p104f}) {
      const float limit = static_cast<float>(significand) * unit;
      wrong += moegen::scale_of<448>(limit) != limit / 448.0f;
      wrong += moegen::scale_of<6>(limit) != limit / 6.0f;
    }
  CHECK(wrong == 0);
}

TEST_CASE("the divisor of a group of nvfp4 is a correctly rounded quotient") {
  std::uint64_t wrong = 0;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; significand += step())
    for (const float unit : {0x1p-103f, 0x1p-23f, 0x1p56f})
      for (int scale = 8; scale < 16; ++scale) {
        const float global = static_cast<float>(significand) * unit, of = static_cast<float>(scale);
        wrong += moegen::divisor_of(of, global) != of / global;
        wrong += moegen::divisor_of(0x1p-12f * of, global) != 0x1p-12f * of / global;
      }
  CHECK(wrong == 0);
  CHECK(moegen::divisor_of(448.0f, 0x1p80f) == 448.0f * 0x1p-80f);
}

TEST_CASE("signs and NaN keep their place in a quotient, and infinities in bounded values") {
  for (const float scale : {0.75f, 0.7f, 0.8f, 1e33f, 1e-32f}) {  // inverses that are exact, too large and too small
    const moegen::Quotient by(scale);
    CHECK(float_bits(by(0.0f)) == 0);
    CHECK(float_bits(by(-0.0f)) == 0x80000000u);
    for (const float tiny : {1e-44f, 3e-39f, 1e-30f}) {
      CHECK(float_bits(by(tiny)) < 0x7F800000u);
      CHECK(float_bits(by(-tiny)) >= 0x80000000u);
    }
    CHECK(std::isnan(by(NAN)));
    CHECK(by(-scale) == -1.0f);
  }
  float values[4] = {INFINITY, -INFINITY, NAN, -3.0f};
  moegen::bound_values(values, 336.0f);
  CHECK(values[0] == 336.0f);
  CHECK(values[1] == -336.0f);
  CHECK(std::isnan(values[2]));
  CHECK(values[3] == -3.0f);
}

TEST_CASE("an e8m0 scale is the power of two at or above, and its inverse is exact") {
  for (const float limit : {1e-30f, 6e-5f, 1.0f, 6.0f, moved(6.0f, 1), moved(6.0f, -1), 448.0f, 3.40282347e38f}) {
    const std::uint32_t scale = moegen::e8m0_scale_of<6>(limit);
    const int exponent = static_cast<int>(scale) - 127;
    CHECK(std::ldexp(1.0f, exponent) >= limit / 6.0f);
    CHECK(std::ldexp(0.5f, exponent) < limit / 6.0f);
    CHECK(moegen::inverse_of_e8m0(scale).factor == std::ldexp(1.0f, -exponent));
  }
  CHECK(moegen::e8m0_scale_of<448>(448.0f) == 127);
  CHECK(moegen::e8m0_scale_of<448>(moved(448.0f, 1)) == 128);
  CHECK(moegen::e8m0_scale_of<448>(3.40282347e38f) == 247);
}

TEST_CASE("the magnitude of a group is that of its finite values") {
  const float values[4] = {-3.0f, INFINITY, 2.0f, -INFINITY};
  CHECK(moegen::finite_magnitude(values).largest == 3.0f);
  CHECK_FALSE(moegen::finite_magnitude(values).nan);
  CHECK_FALSE(moegen::finite_magnitude(values).finite);
  const float bad[4] = {NAN, -1.0f, INFINITY, std::numeric_limits<float>::max()};
  CHECK(moegen::finite_magnitude(bad).largest == std::numeric_limits<float>::max());
  CHECK(moegen::finite_magnitude(bad).nan);
  const float good[2] = {-0.0f, -std::numeric_limits<float>::max()};
  CHECK(moegen::finite_magnitude(good).finite);
  const float none[2] = {NAN, INFINITY};
  CHECK(moegen::finite_magnitude(none).largest == 0.0f);
}

TEST_CASE("an e2m1 code is the nearest, to even") {
  constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::uint64_t wrong = 0;
  const auto want = [&](float x) {
    std::uint32_t best = 0;
    for (std::uint32_t code = 1; code < 8; ++code) {
      const float here = std::fabs(kValues[code] - x), there = std::fabs(kValues[best] - x);
      if (here < there || (here == there && code % 2 == 0)) best = code;
    }
    return best;
  };
  const auto code = [](float x) { return float_bits(moegen::round_to_e2m1(0.5f * x)) - float_bits(8388608.0f); };
  for (std::uint32_t bits = 0; bits < float_bits(8.0f); bits += 8191)
    wrong += code(bits_float(bits)) != want(bits_float(bits));
  for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
    for (int ulps = -1; ulps <= 1; ++ulps)
      for (const float sign : {1.0f, -1.0f}) wrong += code(sign * moved(tie, ulps)) != want(moved(tie, ulps));
  CHECK(wrong == 0);
  CHECK(code(std::numeric_limits<float>::max()) == 7);
  CHECK(code(-INFINITY) == 7);
}

TEST_CASE("eight e2m1 codes lie in a word, the first in its low bits, with the signs of their values") {
  const float values[16] = {0, -0.0f, 0.5f, -0.5f, 1, -1, 1.5f, -1.5f, 2, -2, 3, -3, 4, -4, 6, -7};
  CHECK(moegen::encode_e2m1<0>(values, moegen::Multiplied{0.5f}) == 0xB3A29180u);
  CHECK(moegen::encode_e2m1<8>(values, moegen::Multiplied{0.5f}) == 0xF7E6D5C4u);
}

TEST_CASE("four-bit groups whose scale saturates, or is 0") {
  float huge[16] = {3e38f, -3e38f, 1e-20f};
  std::uint32_t word[2];
  CHECK(moegen::quantize_nvfp4(huge, 0x1p80f, word) == 0x7E);
  CHECK(word[0] == 0x7F7u);
  float small[16] = {1e-20f, -1e-20f};
  CHECK(moegen::quantize_nvfp4(small, 1.0f, word) == 0);
  CHECK(word[0] == 0);
}
