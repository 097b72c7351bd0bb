// SPDX-License-Identifier: Apache-2.0
// Error bounds of templates/core/math.cuh, measured on its CPU bodies against float64.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "expression/functions.hpp"

#define MOEGEN_TARGET_CPU
#define __device__
#define __forceinline__ inline
#include "../../templates/core/math.cuh"

namespace math = moegen::math;

namespace {

struct Case {
  std::string_view name;
  float (*function)(float);
  double bound;  // in ulp; the table of docs/expressions.md
};

constexpr Case kCases[] = {
    {"exp", math::exp, 1},
    {"log", math::log, 1},
    {"tanh", math::tanh, 1.5},
    {"sigmoid", math::sigmoid, 2.5},
    {"silu", math::silu, 3.5},
    {"gelu", math::gelu, 7},
    {"gelu_tanh", math::gelu_tanh, 3.5},
    {"sqrt", math::sqrt, 0.5},
    {"rsqrt", math::rsqrt, 1.5},
    {"abs", math::abs, 0},
    {"relu", math::relu, 0},
};

double reference(std::string_view name, double x) {
  for (const auto& function : moegen::expression::functions())
    if (function.name == name) return function.evaluate(&x);
  FAIL("no function ", name);
  return 0;
}

double ulp(double value) {
  if (std::fabs(value) < static_cast<double>(std::numeric_limits<float>::min())) return std::ldexp(1, -149);
  return std::ldexp(1, std::ilogb(value) - 23);
}

// Every float32 with MOEGEN_MATH_STEP=1 (half an hour); a prime step else, so that no bit stays fixed.
std::uint32_t step() {
  const char* text = std::getenv("MOEGEN_MATH_STEP");
  return text == nullptr ? 8191 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

double error_in_ulp(const Case& test, float x) {
  const double expected = reference(test.name, static_cast<double>(x));
  const float actual = test.function(x);
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : 1e9;
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded) || std::isinf(actual)) return rounded == actual ? 0 : 1e9;
  return std::fabs(static_cast<double>(actual) - expected) / ulp(expected);
}

}  // namespace

TEST_CASE("each function keeps to its bound over the whole of float32") {
  for (const Case& test : kCases) {
    double worst = 0;
    float where = 0;
    std::uint64_t count = 0;
    for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += step(), ++count) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      const double error = error_in_ulp(test, x);
      if (error > worst) worst = error, where = x;
    }
    CHECK_MESSAGE(worst <= test.bound, test.name << " is " << worst << " ulp off at " << where);
    CHECK(count > 500000);
  }
}

TEST_CASE("each function keeps to its bound where its branches meet") {
  for (const Case& test : kCases)
    for (float edge :
         {0.0F, 0.6F, 1.0F, 4.73F, 11.0F, 13.1F, 14.2F, 15.0F, 88.7F, 89.0F, 103.9F, 120.0F, 1.17549435e-38F})
      for (float sign : {-1.0F, 1.0F}) {
        float x = std::nextafterf(sign * edge, -1e30F);
        for (int i = 0; i < 3; ++i, x = std::nextafterf(x, 1e30F))
          CHECK_MESSAGE(error_in_ulp(test, x) <= test.bound, test.name << " at " << x);
      }
}

TEST_CASE("the worst arguments that an exhaustive search found") {
  const auto check = [](std::string_view name, float x, double error) {
    for (const Case& test : kCases)
      if (test.name == name) {
        CHECK(error_in_ulp(test, x) == doctest::Approx(error).epsilon(1e-3));
        CHECK(error < test.bound);
      }
  };
  check("exp", -0x1.765026p+2F, 0.891);
  check("log", 0x1.4574e2p-1F, 0.934);
  check("tanh", 0x1.36836p-1F, 1.406);
  check("sigmoid", -0x1.0a111ap+2F, 2.402);
  check("silu", -0x1.7c16d4p+2F, 3.344);
  check("gelu", -0x1.8354c8p+3F, 6.854);
  check("gelu_tanh", -0x1.d6810ap+0F, 3.198);
  check("rsqrt", 0x1.019566p-10F, 1.490);
}

TEST_CASE("a shared mistake would be seen: the bounds are of the right size") {
  CHECK(error_in_ulp({"exp", [](float x) { return math::exp(x) * 1.000001F; }, 1}, 1.0F) > 4);
  CHECK(error_in_ulp({"silu", [](float x) { return x * math::sigmoid(x); }, 1}, -101.3F) > 3);
}

TEST_CASE("special values") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(math::exp(-kInfinity) == 0);
  CHECK(math::exp(kInfinity) == kInfinity);
  CHECK(math::log(0.0F) == -kInfinity);
  CHECK(math::log(-0.0F) == -kInfinity);
  CHECK(math::log(kInfinity) == kInfinity);
  CHECK(std::isnan(math::log(-1.0F)));
  CHECK(math::tanh(kInfinity) == 1);
  CHECK(math::tanh(-kInfinity) == -1);
  CHECK(math::sigmoid(-kInfinity) == 0);
  CHECK(math::rsqrt(0.0F) == kInfinity);
  CHECK(std::isnan(math::sqrt(-1.0F)));
  for (float (*gate)(float) : {math::silu, math::gelu, math::gelu_tanh}) {
    CHECK(gate(kInfinity) == kInfinity);
    CHECK(gate(-kInfinity) == 0);
    CHECK(std::signbit(gate(-kInfinity)));
    CHECK(std::isnan(gate(nan)));
  }
  CHECK(std::signbit(math::min(0.0F, -0.0F)));
  CHECK_FALSE(std::signbit(math::max(-0.0F, 0.0F)));
  CHECK(std::isnan(math::min(1.0F, nan)));
  CHECK(std::isnan(math::max(nan, 1.0F)));
  CHECK(std::isnan(math::clamp(nan, 0.0F, 1.0F)));
  CHECK(math::clamp(5.0F, 0.0F, 1.0F) == 1);
  CHECK(math::clamp(0.5F, 0.0F, 1.0F) == 0.5F);
}
