// SPDX-License-Identifier: Apache-2.0
// The functions between the two matmuls of an expert, in float32: by the activation kernel and in matmul epilogues
// alike, so that both give the same bits.
//
// A kernel's Params say which: `activation_kind` (a type of namespace kinds), `activation_gated`, `activation_limited`,
// and where the kind has them alpha(), beta() and linear_beta(). Relative error below 2^-20 (situ: 2^-17) plus 2^-22 x,
// where e^x is the largest exponential involved, and up to 2^-118 in absolute terms, times up (situ: 2^-100):
// approx.cuh has exponentials of one instruction, and results are rounded to 16 bits or fewer. NaN stays NaN; at an
// infinity a function has its limit.
#pragma once

#include "approx.cuh"
#include "bits.cuh"
#include "math.cuh"
#include "types.cuh"

namespace moegen {
namespace kinds {

enum : uint32_t { kSignBit = 0x80000000u };

/// log2(e): e^x = 2^(kLog2E * x).
constexpr float kLog2E = 1.44269504f;

/// factor / (1 + 2^-x) for factor above -infinity.
MOEGEN_DEVICE float times_logistic(float factor, float x) {
  return factor * approx::reciprocal(1.0f + approx::exp2(-x));
}

/// Keeps a factor whose sigmoid is 0 from being infinite.
MOEGEN_DEVICE float finite_below(float x) { return math::max(x, -1.0e30f); }

/// x sigmoid(x) = x / (1 + e^-x).
struct silu {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    return times_logistic(finite_below(x), kLog2E * x);
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// gate sigmoid(alpha gate) (up + 1), as gpt-oss has it.
struct swiglu_oai {
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return times_logistic(finite_below(gate), kLog2E * P::alpha() * gate) * (up + 1.0f);
  }
};

/// x Phi(x) = 0.5 x (1 + erf(x / sqrt 2)). Phi(-a) = e^(-a*a/2) m(a), m by the rational function of math::gelu.
struct gelu {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    const float bounded = math::clamp(x, -15.0f, 15.0f), a = math::abs(bounded);
    float numerator = 0.00415298691f;
    numerator = math::fma(numerator, a, 0.0408797602f);
    numerator = math::fma(numerator, a, 0.183965493f);
    numerator = math::fma(numerator, a, 0.439279147f);
    numerator = math::fma(numerator, a, 0.5f);
    float denominator = 0.0104098828f;
    denominator = math::fma(denominator, a, 0.102476479f);
    denominator = math::fma(denominator, a, 0.471398953f);
    denominator = math::fma(denominator, a, 1.20553416f);
    denominator = math::fma(denominator, a, 1.6764433f);
    denominator = math::fma(denominator, a, 1.0f);
    const float tail = approx::exp2(-0.5f * kLog2E * (a * a)) * (numerator * approx::reciprocal(denominator));
    return x < 0.0f ? bounded * tail : math::fma(-bounded, tail, x);
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// 0.5 x (1 + tanh(c (x + 0.044715 x^3))) = x sigmoid(2 c (x + 0.044715 x^3)), c = sqrt(2 / pi).
struct gelu_tanh {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    constexpr float kLinear = 2.30220819f, kCubic = 0.102943240f;  // 2 c log2(e), and 0.044715 times that
    return times_logistic(finite_below(x), x * math::fma(kCubic, x * x, kLinear));
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return apply<P>(gate) * up;
  }
};

/// max(x, 0)^2.
struct relu2 {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    const float positive = math::relu(x);
    return positive * positive;
  }
};

/// beta tanh(gate / beta) sigmoid(gate) linear_beta tanh(up / linear_beta), as Kimi-K3 has it. tanh y is y times a
/// rational function of y * y, fitted (Lawson's weighting of least squares) on [0, 7] within 1.3e-6 and held at its
/// value in 7, which is 1.7e-6 from 1; all three quotients share one division.
struct situ {
  struct Fraction {
    float numerator, denominator;
  };
  /// bound tanh(x / bound) for a constant bound. The coefficients take up its powers, unless those leave the range.
  static MOEGEN_DEVICE Fraction bounded_tanh(float x, float bound) {
    const bool in_coefficients = bound >= 0x1p-10f && bound <= 0x1p14f;
    const float unit = in_coefficients ? 1.0f : bound, rest = in_coefficients ? 1.0f / bound : 1.0f;
    const float c1 = rest * rest, c2 = c1 * c1, c3 = c2 * c1;
    const float y = math::clamp(x * (1.0f / unit), -7.0f / rest, 7.0f / rest), s = y * y;
    float numerator = c3 * 3.99593546e-6f;
    numerator = math::fma(numerator, s, c2 * 0.00229310477f);
    numerator = math::fma(numerator, s, c1 * 0.123220742f);
    numerator = math::fma(numerator, s, 0.999998987f);
    float denominator = c3 * 0.000143986079f;
    denominator = math::fma(denominator, s, c2 * 0.0211516917f);
    denominator = math::fma(denominator, s, c1 * 0.456546336f);
    denominator = math::fma(denominator, s, 1.0f);
    return {unit * y * numerator, denominator};
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    const Fraction first = bounded_tanh(gate, P::beta()), second = bounded_tanh(up, P::linear_beta());
    const float both = first.denominator * second.denominator;
    const float denominator = math::fma(both, approx::exp2(-kLog2E * gate), both);
    return first.numerator * second.numerator * approx::reciprocal(denominator);
  }
};

/// x; gated, the product.
struct identity {
  template <class P>
  static MOEGEN_DEVICE float apply(float x) {
    return x;
  }
  template <class P>
  static MOEGEN_DEVICE float gated(float gate, float up) {
    return gate * up;
  }
};

}  // namespace kinds

/// Limit of a row: of its expert where limits come at launch, else the layer's; 0 without one. `limits` is indexed by
/// local expert; rows of expert -1 have none, so that no expert's limit changes them.
template <class P>
MOEGEN_DEVICE float activation_limit(const float* limits, int32_t expert) {
  if constexpr (P::limit_per_expert)
    return expert < 0 ? bits_float(0x7F800000u) : limits[expert];
  else if constexpr (P::activation_limited)
    return P::limit();
  else
    return 0.0f;
}

/// The activation of one gate and one up value; with `activation_limited` the gate is clamped from above and up from
/// both sides first.
template <class P>
MOEGEN_DEVICE float activate(float gate, float up, float limit) {
  static_assert(P::activation_gated);
  if constexpr (P::activation_limited)
    return P::activation_kind::template gated<P>(math::min(gate, limit), math::clamp(up, -limit, limit));
  else
    return P::activation_kind::template gated<P>(gate, up);
}

/// The activation of a value where there is no gate.
template <class P>
MOEGEN_DEVICE float activate(float value) {
  static_assert(!P::activation_gated);
  return P::activation_kind::template apply<P>(value);
}

}  // namespace moegen
