// SPDX-License-Identifier: Apache-2.0
#include "reference/activation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moegen::reference {
namespace {

constexpr double kSteepest = 1.13;      // of gelu, at 1.41
constexpr double kUnit = 0x1p-23;       // an ulp of a float32 in [1, 2)
constexpr double kSmallest = 0x1p-118;  // below, exponentials have left the range of float32: no relative claim
constexpr double kUlps = 8;             // of one evaluation and its products

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

// x * sigmoid(slope * x), which goes to zero on the left.
double silu(double x, double slope) { return x == -HUGE_VAL ? -0.0 : x * sigmoid(slope * x); }

double gelu(double x) { return x == -HUGE_VAL ? -0.0 : x / 2 * std::erfc(-x * std::numbers::sqrt2 / 2); }

double gelu_tanh(double x) {
  if (x == -HUGE_VAL) return -0.0;
  return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

// Comparisons that a NaN fails.
double at_most(double x, double limit) { return x > limit ? limit : x; }
double within(double x, double limit) { return x < -limit ? -limit : at_most(x, limit); }

// What approx.cuh's exponential of an argument of this magnitude is off by in a value that it is a factor of.
double bend(double value, double exponent) { return std::abs(value) * std::min(std::abs(exponent), 128.0) * 0x1p-22; }

// What situ's hyperbolic tangents are off by.
double series(double value) { return std::abs(value) * 0x1p-18; }

constexpr double kSmallestOfSitu = 0x1p-100;  // its common denominator has then left the range

// The function of the gate.
Bounded act(const ActivationConfig& config, Bounded x) {
  switch (config.kind) {
    case ActivationKind::silu: {
      const double value = silu(x.value, 1);
      return {value, kSteepest * x.error + bend(value, x.value)};
    }
    case ActivationKind::swiglu_oai: {
      const double slope = config.alpha.value(), value = silu(x.value, slope);
      return {value, kSteepest * x.error + bend(value, slope * x.value)};
    }
    case ActivationKind::gelu: {
      const double value = gelu(x.value);
      return {value, kSteepest * x.error + bend(value, x.value * x.value / 2)};
    }
    case ActivationKind::gelu_tanh: {
      const double value = gelu_tanh(x.value);
      return {value, kSteepest * x.error + bend(value, 1.6 * x.value + 0.0714 * x.value * x.value * x.value)};
    }
    case ActivationKind::relu2: {
      const double positive = x.value < 0 ? 0 : x.value;
      return {positive * positive, x.error * (2 * positive + x.error)};
    }
    case ActivationKind::situ: {
      const double beta = config.beta.value(), bent = beta * std::tanh(x.value / beta);
      const double value = bent * sigmoid(x.value);
      // |(tanh sigmoid)'| <= sigmoid + beta / 4 |tanh| sech: below 1.5
      return {value, 1.5 * x.error + bend(value, x.value) + series(value) + kSmallestOfSitu};
    }
    case ActivationKind::identity: return x;
  }
  return x;
}

// What the function of the gate is multiplied with.
Bounded factor(const ActivationConfig& config, Bounded up) {
  if (config.kind == ActivationKind::swiglu_oai) return {up.value + 1, up.error + kUnit * std::abs(up.value + 1)};
  if (config.kind != ActivationKind::situ) return up;
  const double bound = config.linear_beta.value(), value = bound * std::tanh(up.value / bound);
  return {value, up.error + series(value)};
}

Bounded rounded(Bounded x) { return {x.value, x.error + kUlps * kUnit * std::abs(x.value) + kSmallest}; }

}  // namespace

Bounded activate(const ActivationConfig& config, Bounded gate, Bounded up, std::optional<double> limit) {
  if (limit) gate.value = at_most(gate.value, *limit);
  const Bounded first = act(config, gate);
  if (!config.gated) return rounded(first);
  if (limit) up.value = within(up.value, *limit);
  const Bounded second = factor(config, up);
  const double error =
      (first.error + kSmallest) * (std::abs(second.value) + second.error) + std::abs(first.value) * second.error;
  return rounded({first.value * second.value, error});
}

}  // namespace moegen::reference
