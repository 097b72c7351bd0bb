// SPDX-License-Identifier: Apache-2.0
#include "expression/functions.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace moegen::expression {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x * phi where the product of -inf and 0 means the limit, 0: silu and the gelus vanish far to the left.
double gated(double x, double phi) { return x == -kInfinity ? -0.0 : x * phi; }

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

double gelu(double x) { return gated(x, 0.5 * std::erfc(-x / std::numbers::sqrt2)); }

// Hendrycks and Gimpel, "Gaussian Error Linear Units": 0.5 x (1 + tanh(u)) = x sigmoid(2u).
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return gated(x, sigmoid(2 * u));
}

// Like torch and unlike fmin: a NaN on either side wins, so that it is never hidden.
double minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b); }
double maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b); }

constexpr std::array<Function, 14> kFunctions = {{
    {"exp", 1, [](const double* x) { return std::exp(x[0]); }},
    {"log", 1, [](const double* x) { return std::log(x[0]); }},
    {"tanh", 1, [](const double* x) { return std::tanh(x[0]); }},
    {"sigmoid", 1, [](const double* x) { return sigmoid(x[0]); }},
    {"silu", 1, [](const double* x) { return gated(x[0], sigmoid(x[0])); }},
    {"gelu", 1, [](const double* x) { return gelu(x[0]); }},
    {"gelu_tanh", 1, [](const double* x) { return gelu_tanh(x[0]); }},
    {"relu", 1, [](const double* x) { return maximum(x[0], 0); }},
    {"min", 2, [](const double* x) { return minimum(x[0], x[1]); }},
    {"max", 2, [](const double* x) { return maximum(x[0], x[1]); }},
    {"clamp", 3, [](const double* x) { return minimum(maximum(x[0], x[1]), x[2]); }},
    {"abs", 1, [](const double* x) { return std::fabs(x[0]); }},
    {"rsqrt", 1, [](const double* x) { return 1 / std::sqrt(x[0]); }},
    {"sqrt", 1, [](const double* x) { return std::sqrt(x[0]); }},
}};

}  // namespace

std::span<const Function> functions() noexcept { return kFunctions; }

}  // namespace moegen::expression
