// SPDX-License-Identifier: Apache-2.0
// Logit -> score -> choice key. Everything is float32 whatever the dtypes; errors are relative.
#pragma once

#include "../core/approx.cuh"
#include "place.cuh"

namespace moegen::router {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147182f;

MOEGEN_DEVICE float negative_infinity() { return bits_float(0xFF800000u); }

/// The order of floats as unsigned integers; -0 comes below +0, NaN is not asked for.
MOEGEN_DEVICE uint32_t order_of(float value) {
  const uint32_t bits = float_bits(value);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

MOEGEN_DEVICE float of_order(uint32_t order) {
  return bits_float(order ^ (static_cast<uint32_t>(static_cast<int32_t>(~order) >> 31) | 0x80000000u));
}

/// Largest `value` of the team; none is NaN.
template <class P>
MOEGEN_DEVICE float largest_of(float value) {
  return of_order(team_max<P::lanes>(order_of(value)));
}

/// `score`, or NaN where `logit` is not finite.
MOEGEN_DEVICE float spoil(float score, float logit) { return math::fma(logit, 0.0f, score); }

/// e^(x + rest) for x <= 0 and a rest that rounding has lost; 0 below -120. Error below 5e-7: what rounding x log2(e)
/// loses is added to the result.
MOEGEN_DEVICE float exp_below_0(float x, float rest = 0.0f) {
  x = approx::max_number(x, -120.0f);
  const float y = x * kLog2E;
  const float e = approx::exp2(y);
  return math::fma(e, math::fma(y, -kLn2, x) + rest, e);
}

/// e^(a - b) for a <= b, with what the subtraction loses; where it overflows there is nothing to lose.
MOEGEN_DEVICE float exp_of_difference(float a, float b) {
  const float difference = a - b;
  return exp_below_0(difference, difference > -120.0f ? (a - difference) - b : 0.0f);
}

/// 1 / (1 + e^-x). Error below 1e-6 down to -87, 0 below. As in exp_below_0, but to the result: the derivative by x is
/// s - s * s, and 0 where x is so large that the loss cannot be told (the saturating addition then bounds it).
MOEGEN_DEVICE float sigmoid(float x) {
  const float y = x * -kLog2E;
  const float s = approx::reciprocal(1.0f + approx::exp2(y));
  const float loss = approx::add_saturated(math::fma(y, kLn2, x), 0.5f);
  const float slope = math::fma(s, s, -s);
  return math::fma(-slope, loss, math::fma(0.5f, slope, s));
}

/// log(1 + x) / x for 0 <= x <= 1. Error below 1e-7: interpolation at Chebyshev nodes.
MOEGEN_DEVICE float log1p_over(float x) {
  float p = -0.00317605701f;
  p = math::fma(p, x, 0.0195425265f);
  p = math::fma(p, x, -0.0563736111f);
  p = math::fma(p, x, 0.105436236f);
  p = math::fma(p, x, -0.152696669f);
  p = math::fma(p, x, 0.196632743f);
  p = math::fma(p, x, -0.249516159f);
  p = math::fma(p, x, 0.333297104f);
  p = math::fma(p, x, -0.499998927f);
  return math::fma(p, x, 1.0f);
}

/// sqrt(log(1 + e^x)) without its factor e^(min(x, 0) / 2); `root` is e^(-|x| / 2).
MOEGEN_DEVICE float sqrt_softplus_part(float x, float root) {
  const float e = root * root;
  const float p = log1p_over(e);
  return approx::sqrt(x < 0.0f ? p : math::fma(e, p, x));
}

/// sqrt(log(1 + e^x)). Error below 1e-6 down to -174, 0 below.
MOEGEN_DEVICE float sqrt_softplus(float x) {
  const float root = exp_below_0(-0.5f * math::abs(x));
  return sqrt_softplus_part(x, root) * (x < 0.0f ? root : 1.0f);
}

/// What the scores of a row have in common: the largest finite logit and 1 / sum of e^(logit - largest).
struct Row {
  float largest, inverse_sum;
};

/// Balanced sum of `Count` terms.
template <uint32_t First, uint32_t Count, uint32_t Size>
MOEGEN_DEVICE float balanced_sum(const float (&term)[Size]) {
  if constexpr (First >= Size)
    return 0.0f;
  else if constexpr (Count == 1)
    return term[First];
  else
    return balanced_sum<First, Count / 2>(term) + balanced_sum<First + Count / 2, Count / 2>(term);
}

/// Smallest power of two that is at least `count`.
MOEGEN_DEVICE constexpr uint32_t power_of_two_from(uint32_t count) {
  uint32_t power = 1;
  while (power < count) power *= 2;
  return power;
}

template <class P>
MOEGEN_DEVICE Row sum_row(const Lane<P>& logits, const Place& place) {
  float term[P::per_lane];
  float largest = negative_infinity();
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    term[i] = holds<P>(place, i) ? approx::max_number(spoil(logits.value[i], logits.value[i]), negative_infinity())
                                 : negative_infinity();
    largest = approx::max_number(largest, term[i]);
  }
  largest = approx::max_number(largest_of<P>(largest), -3.40282347e38f);  // no finite logit: every term is 0
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) term[i] = approx::exp2((term[i] - largest) * kLog2E);
  const float sum = team_sum<P::lanes>(balanced_sum<0, power_of_two_from(P::per_lane)>(term));
  return {largest, approx::reciprocal(sum)};
}

/// The score of `logit`; NaN where the logit is not finite, or the expression makes it so.
template <class P, class Custom>
MOEGEN_DEVICE float score_of(const Args& args, float logit, uint32_t expert, uint32_t token, const Row& row) {
  if constexpr (P::expression) {
    const float score = Custom::scores(args, logit, expert, token);
    return spoil(spoil(score, score), logit);
  } else if constexpr (P::softmax && P::row_sum) {
    return spoil(approx::exp2((logit - row.largest) * kLog2E) * row.inverse_sum, logit);
  } else if constexpr (P::sigmoid) {
    return spoil(sigmoid(logit), logit);
  } else if constexpr (P::sqrt_softplus) {
    return spoil(sqrt_softplus(logit), logit);
  } else {
    return spoil(logit, logit);
  }
}

/// What an expert is chosen by: score + bias, or the logit (+ bias) where scores come late or have the same order. NaN
/// where that is not a number. Adding 0 makes -0 +0: those are equal.
template <class P>
MOEGEN_DEVICE float key_of(float logit, float score, float bias) {
  const float key = (P::by_logit ? spoil(logit, logit) : score) + (P::bias ? bias : 0.0f);
  return P::bias && (P::by_logit || P::expression) ? key + 0.0f : key;
}

}  // namespace moegen::router
