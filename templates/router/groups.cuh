// SPDX-License-Identifier: Apache-2.0
// Which groups a token may choose from: the top_groups best scores, ties to the lower group.
#pragma once

#include "scores.cuh"

namespace moegen::router {

/// The two largest keys of some experts, NaN left out.
struct TopTwo {
  float first, second;
};

MOEGEN_DEVICE TopTwo merge(const TopTwo& a, const TopTwo& b) {
  const float second = approx::max_number(a.second, b.second);
  return {approx::max_number(a.first, b.first), approx::max_number(second, approx::min_number(a.first, b.first))};
}

/// A group's score from its largest keys, as an ordered integer that is not 0.
template <class P>
MOEGEN_DEVICE uint32_t group_order(const TopTwo& top) {
  float score = top.first;
  if constexpr (P::top2_sum && P::group_size > 1)
    score = approx::max_number(top.first + top.second, negative_infinity());  // -inf + inf is NaN
  return order_of(score + 0.0f);
}

/// Of elements [begin, begin + Count) of a lane, in a tree. `begin` is a constant after unrolling.
template <class P, uint32_t Count>
MOEGEN_DEVICE TopTwo top_two(const Lane<P>& keys, const Place& place, uint32_t begin) {
  if constexpr (Count == 1) {
    const float key = holds<P>(place, begin) ? keys.value[begin] : negative_infinity();
    return {approx::max_number(key, negative_infinity()), negative_infinity()};
  } else if constexpr (Count == 2) {
    const TopTwo a = top_two<P, 1>(keys, place, begin), b = top_two<P, 1>(keys, place, begin + 1);
    return {approx::max_number(a.first, b.first), approx::min_number(a.first, b.first)};
  } else {
    return merge(top_two<P, Count / 2>(keys, place, begin),
                 top_two<P, Count - Count / 2>(keys, place, begin + Count / 2));
  }
}

/// True if the one group of this lane is kept. The lanes of a group share the comparison with the other groups.
template <class P>
MOEGEN_DEVICE bool keeps_group(const Lane<P>& keys, const Place& place) {
  TopTwo top = top_two<P, P::group_share>(keys, place, 0);
#pragma unroll
  for (uint32_t mask = 1; mask < P::group_lanes; mask *= 2)
    top = merge(top, {shuffle_xor(top.first, mask), shuffle_xor(top.second, mask)});
  const uint32_t lane = lane_index() % P::lanes, group = lane / P::group_lanes;
  const uint32_t mine = group_order<P>(top);
  uint32_t better = 0;
#pragma unroll
  for (uint32_t first = 0; first < P::num_groups; first += P::group_lanes) {
    const uint32_t other = first + lane % P::group_lanes;
    const uint32_t score = shuffle(mine, team_first_lane<P::lanes>() + other * P::group_lanes);
    better += other < P::num_groups && (score > mine || (score == mine && other < group)) ? 1 : 0;
  }
#pragma unroll
  for (uint32_t mask = 1; mask < P::group_lanes; mask *= 2) better += shuffle_xor(better, mask);
  return better < P::top_groups;
}

/// Flags of a lane's groups.
template <class P>
struct Kept {
  bool group[P::lane_groups];
};

/// The top_groups-th largest score of the team, bit by bit from the highest: a bit stays if enough scores reach it.
template <class P>
MOEGEN_DEVICE uint32_t last_kept(const uint32_t (&score)[P::lane_groups]) {
  uint32_t bound = 0;
#pragma unroll 1
  for (uint32_t bit = 0x80000000u; bit > 0; bit /= 2) {
    uint32_t reached = 0;
#pragma unroll
    for (uint32_t i = 0; i < P::lane_groups; ++i) reached += score[i] >= (bound | bit) ? 1 : 0;
    if (team_sum<P::lanes>(reached) >= P::top_groups) bound |= bit;
  }
  return bound;
}

/// As keeps_group where a lane has several groups: those above the last kept score, and of its equals the first.
template <class P>
MOEGEN_DEVICE Kept<P> keep_groups(const Lane<P>& keys, const Place& place) {
  uint32_t score[P::lane_groups];
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    const uint32_t begin = i * P::group_size;
    score[i] = begin < place.count ? group_order<P>(top_two<P, P::group_size>(keys, place, begin)) : 0;
  }
  const uint32_t bound = last_kept<P>(score);
  uint32_t above = 0, equal = 0;
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    above += score[i] > bound ? 1 : 0;
    equal += score[i] == bound ? 1 : 0;
  }
  uint32_t before = equal;  // equals of the lanes up to this one
#pragma unroll 1
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) before += shuffle_up(before, delta, 0);
  int32_t free = static_cast<int32_t>(P::top_groups - team_sum<P::lanes>(above) - (before - equal));
  Kept<P> kept;
#pragma unroll
  for (uint32_t i = 0; i < P::lane_groups; ++i) {
    kept.group[i] = score[i] > bound || (score[i] == bound && free > 0);
    free -= score[i] == bound ? 1 : 0;
  }
  return kept;
}

}  // namespace moegen::router
