// SPDX-License-Identifier: Apache-2.0
// The weights of the chosen experts, one slot a lane. Scores, never biased; 0 for fillers.
//
// Normalised weights are quotients u / sum of u, where u is the score. Where scores come near the lower end of float32,
// u is the score without a factor that all slots share, the exponential of the largest logarithm, so that ratios hold
// at any depth; softmax always does that. Other scores are divided by the largest magnitude, so that no sum overflows.
#pragma once

#include "select.cuh"

namespace moegen::router {

/// Lanes that have a slot, rounded up to a power of two.
template <class P>
MOEGEN_DEVICE constexpr uint32_t slot_lanes() {
  return power_of_two_from(P::top_k);
}

/// The largest `value` among the team's active lanes.
template <class P>
MOEGEN_DEVICE float largest_active(float value, bool active) {
  return largest_of<P>(active ? value : negative_infinity());
}

template <class P>
MOEGEN_DEVICE float divide_by_sum(float part) {
  const float sum = team_sum<slot_lanes<P>()>(part);
  return sum > 0.0f ? part * approx::reciprocal(sum) : 0.0f;
}

/// Any scores: those of a row whose sum is 0 stay as they are.
template <class P>
MOEGEN_DEVICE float normalize_scores(float score) {
  const float largest = largest_of<P>(math::abs(score));
  const float part = largest > 0.0f ? math::divide(score, largest) : 0.0f;
  const float sum = team_sum<slot_lanes<P>()>(part);
  return sum != 0.0f ? math::divide(part, sum) : score;
}

/// The slots' largest logit: that of slot 0 where slots descend by logit.
template <class P>
MOEGEN_DEVICE float largest_logit(float logit, bool active) {
  if constexpr (P::by_logit && !P::bias && !P::hash)
    return bits_float(shuffle(float_bits(logit), team_first_lane<P::lanes>()));
  else
    return largest_active<P>(logit, active);
}

/// Sigmoids and roots of softplus without the factor that all slots share. `power` is the logarithm of that part of a
/// slot's score which falls exponentially.
template <class P>
MOEGEN_DEVICE float deep_part(float logit, bool active) {
  const float power = (P::sigmoid ? 1.0f : 0.5f) * approx::min_number(logit, 0.0f);
  const float largest = largest_active<P>(power, active);
  const float below = exp_below_0(-(P::sigmoid ? 1.0f : 0.5f) * math::abs(logit));
  const float rest = P::sigmoid ? approx::reciprocal(1.0f + below) : sqrt_softplus_part(logit, below);
  return exp_of_difference(power, largest) * rest;
}

/// The score, or its deep part in teams where one is below about 2^-80.
template <class P>
MOEGEN_DEVICE float part_of(const Slot& slot, bool active) {
  constexpr float kDeep = P::sigmoid ? -55.0f : -110.0f;
  const uint32_t deep = ballot(active && slot.logit < kDeep);
  float part = slot.score;
  if (deep != 0) {
    const float other = deep_part<P>(slot.logit, active);
    if ((deep & team_mask<P::lanes>()) != 0) part = other;
  }
  return part;
}

template <class P>
MOEGEN_DEVICE float normalized_weight(const Slot& slot, bool active) {
  if constexpr (P::softmax) {
    const float largest = largest_logit<P>(slot.logit, active);
    return divide_by_sum<P>(active ? exp_of_difference(slot.logit, largest) : 0.0f);
  } else if constexpr (P::sigmoid || P::sqrt_softplus) {
    const float part = part_of<P>(slot, active);
    return divide_by_sum<P>(active ? part : 0.0f);
  } else {
    return normalize_scores<P>(active ? slot.score : 0.0f);
  }
}

/// The weight of this lane's slot, scaled. Called by all lanes.
template <class P>
MOEGEN_DEVICE float weight_of(const Args& args, const Slot& slot) {
  const bool active = slot.expert != kNone && !slot.filler && slot.score == slot.score;
  float weight = active ? slot.score : 0.0f;
  if constexpr (P::normalize) weight = normalized_weight<P>(slot, active);
  return weight * args.scale;
}

/// Rounds to the weights' dtype and stores.
MOEGEN_DEVICE void store_weight(float* weight, float value) { *weight = value; }
MOEGEN_DEVICE void store_weight(bfloat16* weight, float value) {
  weight->bits = static_cast<uint16_t>(pack_bfloat16(value, 0.0f));
}
MOEGEN_DEVICE void store_weight(float16* weight, float value) {
  weight->bits = static_cast<uint16_t>(pack_float16(value, 0.0f));
}

}  // namespace moegen::router
