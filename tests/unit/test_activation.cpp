// SPDX-License-Identifier: Apache-2.0
// The error bound of templates/core/activation.cuh and its values at the edges, measured on its CPU bodies.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#define MOEGEN_TARGET_CPU
#define __device__
#define __forceinline__ inline
#include "../../templates/core/activation.cuh"

namespace {

namespace kinds = moegen::kinds;

// ex2.approx may be off by 2^-22 where the CPU body is off by 2^-24: a third of the bound is left for it.
constexpr double kShare = 0.66;

// NOLINTBEGIN(readability-identifier-naming): the names that kernels give their plan's values
template <class Kind>
struct Params {
  using activation_kind = Kind;
  enum : bool { activation_gated = true, activation_limited = false, limit_per_expert = false };
  static constexpr float alpha() { return 1.702f; }
  static constexpr float beta() { return 4.0f; }
  static constexpr float linear_beta() { return 25.0f; }
  static constexpr float limit() { return 7.0f; }
};

template <class Kind>
struct Limited : Params<Kind> {
  enum : bool { activation_limited = true };
};
// NOLINTEND(readability-identifier-naming)

double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

template <class Kind>
float plain(float x) {
  return Kind::template apply<Params<Kind>>(x);
}

// Largest share of the bound `relative` + 2^-22 * exponent(x) that is used, over magnitudes 2^-30 to 2^7.
template <class Function, class Exact, class Exponent>
double worst_share(const Function& function, const Exact& exact, const Exponent& exponent, double relative = 0x1p-20,
                   double smallest = 0x1p-118) {
  double worst = 0;
  for (std::uint32_t bits = 97u << 23; bits < 134u << 23; bits += 8191)
    for (const std::uint32_t sign : {0u, 1u << 31}) {
      const float x = moegen::bits_float(bits | sign);
      const double want = exact(double{x}), error = std::abs(double{function(x)} - want);
      const double bound = std::abs(want) * (relative + 0x1p-22 * std::abs(exponent(double{x}))) + smallest;
      worst = std::max(worst, error / bound);
    }
  return worst;
}

double same(double x) { return x; }
double cube(double x) { return 1.6 * (x + 0.044715 * x * x * x); }

}  // namespace

TEST_CASE("silu, gelu and gelu_tanh stay within their bound") {
  CHECK(worst_share(plain<kinds::silu>, [](double x) { return x * logistic(x); }, same) < kShare);
  CHECK(worst_share(
            plain<kinds::gelu>, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); },
            [](double x) { return x * x / 2; }) < kShare);
  const double c = 2 * std::sqrt(2 / std::acos(-1.0));
  CHECK(worst_share(
            plain<kinds::gelu_tanh>, [c](double x) { return x * logistic(c * (x + 0.044715 * x * x * x)); }, cube) <
        kShare);
}

TEST_CASE("swiglu_oai and situ stay within their bound") {
  using Oai = Params<kinds::swiglu_oai>;
  CHECK(worst_share([](float x) { return moegen::activate<Oai>(x, 0.5f, 0.0f); },
                    [](double x) { return x * logistic(double{1.702f} * x) * 1.5; },
                    [](double x) { return 1.702 * x; }) < kShare);
  using Situ = Params<kinds::situ>;
  const auto exact = [](double g, double u) { return 4 * std::tanh(g / 4) * logistic(g) * 25 * std::tanh(u / 25); };
  CHECK(worst_share([](float x) { return moegen::activate<Situ>(x, 3.0f, 0.0f); },
                    [&](double x) { return exact(x, 3.0); }, same, 0x1p-17, 0x1p-100) < kShare);
  CHECK(worst_share([](float x) { return moegen::activate<Situ>(-2.0f, x, 0.0f); },
                    [&](double x) { return exact(-2.0, x); }, same, 0x1p-17, 0x1p-100) < kShare);
}

TEST_CASE("limits clamp the gate from above and up from both sides") {
  using Silu = Limited<kinds::silu>;
  CHECK(moegen::activate<Silu>(100.0f, 100.0f, 7.0f) == moegen::activate<Silu>(7.0f, 7.0f, 7.0f));
  CHECK(moegen::activate<Silu>(-100.0f, -100.0f, 7.0f) == moegen::activate<Silu>(-100.0f, -7.0f, 7.0f));
  CHECK(moegen::activate<Silu>(-3.0f, 1.0f, 7.0f) == moegen::activate<Params<kinds::silu>>(-3.0f, 1.0f, 0.0f));
  CHECK(std::isnan(moegen::activate<Silu>(NAN, 1.0f, 7.0f)));
  CHECK(std::isnan(moegen::activate<Silu>(1.0f, NAN, 7.0f)));
}

TEST_CASE("at infinities the functions have their limits, and NaN stays NaN") {
  for (const auto function : {plain<kinds::silu>, plain<kinds::gelu>, plain<kinds::gelu_tanh>}) {
    CHECK(function(INFINITY) == INFINITY);
    CHECK(function(-INFINITY) == 0.0f);
    CHECK(function(-1e30f) == 0.0f);
    CHECK(function(3e38f) == 3e38f);
    CHECK(function(0.0f) == 0.0f);
    CHECK(std::isnan(function(NAN)));
  }
  CHECK(plain<kinds::relu2>(-INFINITY) == 0.0f);
  CHECK(plain<kinds::relu2>(INFINITY) == INFINITY);
  CHECK(std::isnan(plain<kinds::relu2>(NAN)));
  CHECK(plain<kinds::identity>(-INFINITY) == -INFINITY);
  using Situ = Params<kinds::situ>;
  CHECK(moegen::activate<Situ>(INFINITY, INFINITY, 0.0f) == doctest::Approx(100.0f));
  CHECK(moegen::activate<Situ>(-INFINITY, INFINITY, 0.0f) == 0.0f);
  CHECK(std::isnan(moegen::activate<Situ>(NAN, 1.0f, 0.0f)));
}
