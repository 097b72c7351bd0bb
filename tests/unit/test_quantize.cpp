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

// The remainder as a GPU rounds it: to negative infinity.
float remainder_down(float quotient, float scale, float x) {
  const double exact = static_cast<double>(x) - static_cast<double>(quotient) * static_cast<double>(scale);
  const auto nearest = static_cast<float>(exact);
  return static_cast<double>(nearest) > exact ? std::nextafterf(nearest, -INFINITY) : nearest;
}

float refined_down(const moegen::Refined& by, float x) {
  const float quotient = x * by.inverse;
  return std::fmaf(remainder_down(quotient, by.scale, x), by.inverse, quotient);
}

struct Count {
  std::uint64_t tried = 0, wrong = 0;
};

// Quotients around `boundary` with the inverse moved by `ulps`: what comes out on the wrong side.
void try_boundary(float scale, float boundary, int ulps, Count& count) {
  const float middle = scale * boundary;
  moegen::Refined by(scale, 2.0f * middle);
  by.inverse = moved(by.inverse, ulps);
  for (int distance = -2; distance <= 2; ++distance) {
    const float x = moved(middle, distance);
    const int want = side(x / scale, boundary);
    count.tried += 2;
    count.wrong += (side(by(x), boundary) != want) + (side(refined_down(by, x), boundary) != want);
  }
}

}  // namespace

TEST_CASE("a refined quotient is on the same side of every boundary of five bits as the IEEE quotient") {
  Count count;
  for (std::uint32_t significand = 1u << 23; significand < 1u << 24; significand += step())
    for (int boundary = 16; boundary < 32; ++boundary)
      try_boundary(static_cast<float>(significand) * 0x1p-30f, static_cast<float>(boundary) / 16, 0, count);
  CHECK(count.wrong == 0);
  CHECK(count.tried >= 16u * 10u * ((1u << 23) / step()));
}

TEST_CASE("it would not be with an inverse that is one ulp away") {
  Count count;
  try_boundary(bits_float(0x3F8FFFFFu), 1.5625f, -1, count);  // found by trying all of them
  try_boundary(bits_float(0x3FFFFFFFu), 1.0f, -1, count);
  CHECK(count.wrong >= 4);
}

TEST_CASE("one refinement less would fail") {
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

TEST_CASE("signs, infinities and NaN keep their place in a refined quotient") {
  const moegen::Refined by(0.75f, 336.0f);
  CHECK(float_bits(by(0.0f)) == 0);
  CHECK(float_bits(by(-0.0f)) == 0x80000000u);
  CHECK(float_bits(by(-1e-44f)) >= 0x80000000u);
  CHECK(by(INFINITY) == 448.0f);
  CHECK(by(-INFINITY) == -448.0f);
  CHECK(std::isnan(by(NAN)));
  CHECK(by(-1.5f) == -2.0f);
}

TEST_CASE("the inverse of an e8m0 scale is a power of two") {
  for (std::uint32_t scale = 0; scale < 255; ++scale)
    CHECK(moegen::inverse_of_e8m0(scale).factor == std::ldexp(1.0f, 127 - static_cast<int>(scale)));
  CHECK(std::isnan(moegen::inverse_of_e8m0(255).factor));
}

TEST_CASE("the magnitude of a group is that of its finite values") {
  const float values[4] = {-3.0f, INFINITY, 2.0f, -INFINITY};
  CHECK(moegen::finite_magnitude(values).largest == 3.0f);
  CHECK_FALSE(moegen::finite_magnitude(values).nan);
  const float bad[4] = {NAN, -1.0f, INFINITY, std::numeric_limits<float>::max()};
  CHECK(moegen::finite_magnitude(bad).largest == std::numeric_limits<float>::max());
  CHECK(moegen::finite_magnitude(bad).nan);
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
  for (std::uint32_t bits = 0; bits < float_bits(8.0f); bits += 8191)
    wrong += moegen::round_to_e2m1(bits_float(bits)) != want(bits_float(bits));
  for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
    for (int ulps = -1; ulps <= 1; ++ulps) wrong += moegen::round_to_e2m1(moved(tie, ulps)) != want(moved(tie, ulps));
  CHECK(wrong == 0);
  CHECK(moegen::round_to_e2m1(INFINITY) == 7);
  CHECK(moegen::round_to_e2m1(NAN) == 7);
}
