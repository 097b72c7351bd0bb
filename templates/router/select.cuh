// SPDX-License-Identifier: Apache-2.0
// The top_k largest keys of a team, descending, ties to the lower id.
//
// Each lane sorts its own keys, as ordered integers (order_of) with the element's number in the lowest bits, where
// float32 keys lose that many bits of their mantissa. In round r the team's largest head is taken, that lane writes it
// to shared memory as slot r, and its list moves up.
//
// What the rounds take is right if every key taken is finite and no two neighbours agree in all bits that were left:
// neighbours among the chosen ones are compared exactly, and so is the last one with the first that was not chosen. A
// warp with a doubtful row selects anew by exact keys, one round a slot, in which fillers follow the finite ones:
// experts whose key is not finite, then those of dropped groups, by id. With `exact_packing` keys have so many zero
// bits that the expert's id fits below them: the rounds then know fillers, too, and there is no doubt.
#pragma once

#include "../core/shared.cuh"
#include "groups.cuh"

namespace moegen::router {

enum : uint32_t {
  kLeastFinite = 0x00800000u,  // order_of(-3.4e38)
  kMostFinite = 0xFF800000u,   // order_of(infinity): only an infinite bias makes such a key
  kNotFinite = 0x007FFFFFu,    // order_of(-infinity); stands for NaN as well
  kDropped = 0x00200000u,      // a dropped group's
  kEmpty = 0,
};

/// What the lane of a slot's number knows of that slot.
struct Slot {
  uint32_t expert;  // kNone: no expert
  bool filler;
  float logit, score;
};

/// Ordered keys of a lane's elements.
template <class P>
struct Keys {
  uint32_t order[P::per_lane];
};

// ---- dropped groups ----------------------------------------------------------------------------------------

/// True where some experts of a row may not be chosen from.
template <class P>
MOEGEN_DEVICE constexpr bool drops_groups() {
  return P::num_groups > 1 && P::top_groups < P::num_groups;
}

/// True where a lane is dropped as a whole.
template <class P>
MOEGEN_DEVICE constexpr bool drops_lanes() {
  return drops_groups<P>() && P::lane_groups == 1 && P::zero_share == 0;
}

/// Which groups of this lane are kept.
template <class P>
MOEGEN_DEVICE Kept<P> choose_groups(const Lane<P>& keys, const Place& place) {
  Kept<P> kept = {};
  if constexpr (drops_groups<P>()) {
    if constexpr (P::lane_groups == 1)
      kept.group[0] = keeps_group<P>(keys, place);
    else
      kept = keep_groups<P>(keys, place);
  }
  return kept;
}

template <class P>
MOEGEN_DEVICE void drop(Keys<P>& keys, const Place& place, const Kept<P>& kept) {
#pragma unroll
  for (uint32_t i = 0; i < P::group_share; ++i)
    if (!kept.group[P::lane_groups == 1 ? 0 : i / P::group_size] && holds<P>(place, i)) keys.order[i] = kDropped;
}

/// Keys as integers, NaN above all others, with those of dropped groups where a lane is not dropped as a whole.
template <class P>
MOEGEN_DEVICE Keys<P> order_keys(const Lane<P>& keys, const Place& place, const Kept<P>& kept) {
  Keys<P> ordered;
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    float key = keys.value[i];
    if constexpr (P::exact_packing) key = approx::max_number(key, negative_infinity());
    ordered.order[i] = holds<P>(place, i) ? order_of(key) : static_cast<uint32_t>(kEmpty);
  }
  if constexpr (drops_groups<P>() && (P::exact_packing || !drops_lanes<P>())) drop<P>(ordered, place, kept);
  return ordered;
}

// ---- sorted lists ------------------------------------------------------------------------------------------

/// Orders two words, the larger one first.
MOEGEN_DEVICE void compare_exchange(uint32_t& a, uint32_t& b) {
  const uint32_t larger = max_of(a, b);
  b = min_of(a, b);
  a = larger;
}

/// Batcher's odd-even merge of two descending runs that lie `Step` apart, and the sort made of it.
template <uint32_t First, uint32_t Count, uint32_t Step, uint32_t Size>
MOEGEN_DEVICE void merge_runs(uint32_t (&word)[Size]) {
  constexpr uint32_t kTwo = 2 * Step;
  if constexpr (kTwo < Count) {
    merge_runs<First, Count, kTwo>(word);
    merge_runs<First + Step, Count, kTwo>(word);
#pragma unroll
    for (uint32_t i = First + Step; i + Step < First + Count; i += kTwo) compare_exchange(word[i], word[i + Step]);
  } else {
    compare_exchange(word[First], word[First + Step]);
  }
}

template <uint32_t First, uint32_t Count, uint32_t Size>
MOEGEN_DEVICE void sort_descending(uint32_t (&word)[Size]) {
  if constexpr (Count > 1) {
    sort_descending<First, Count / 2>(word);
    sort_descending<First + Count / 2, Count / 2>(word);
    merge_runs<First, Count, 1>(word);
  }
}

/// The largest Size words of two descending runs, descending: the first pass leaves them bitonic.
template <uint32_t Size, uint32_t Other>
MOEGEN_DEVICE void merge_largest(uint32_t (&list)[Size], const uint32_t (&other)[Other]) {
#pragma unroll
  for (uint32_t i = 0; i < Size; ++i) list[i] = max_of(list[i], other[Size - 1 - i]);
#pragma unroll
  for (uint32_t half = Size / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint32_t i = 0; i < Size; ++i)
      if ((i & half) == 0) compare_exchange(list[i], list[i + half]);
  }
}

/// The head of a lane's keys, packed and descending.
template <class P>
struct List {
  uint32_t word[P::list_size];
};

/// A key with its element's number, or its expert's, below it, so that the lower one is the larger word.
template <class P>
MOEGEN_DEVICE uint32_t pack(const Keys<P>& keys, const Place& place, uint32_t index) {
  const uint32_t order = keys.order[index];
  const uint32_t packed = (order | P::index_mask) - (P::exact_packing ? expert_at<P>(place, index) : index);
  if constexpr (P::full_lanes) return packed;
  return order == kEmpty ? static_cast<uint32_t>(kEmpty) : packed;
}

/// The largest list_size of a lane's packed keys that are below `bound`.
template <class P>
MOEGEN_DEVICE List<P> make_list(const Keys<P>& keys, const Place& place, uint32_t bound) {
  constexpr uint32_t kChunk = min_of<uint32_t>(8, power_of_two_from(P::per_lane));
  List<P> list = {};
#pragma unroll
  for (uint32_t first = 0; first < P::per_lane; first += kChunk) {
    uint32_t chunk[kChunk];
#pragma unroll
    for (uint32_t i = 0; i < kChunk; ++i) {
      chunk[i] = first + i < P::per_lane ? pack<P>(keys, place, first + i) : static_cast<uint32_t>(kEmpty);
      if (P::refills && chunk[i] >= bound) chunk[i] = kEmpty;
    }
    sort_descending<0, kChunk>(chunk);
    if (first == 0) {
#pragma unroll
      for (uint32_t i = 0; i < P::list_size; ++i) list.word[i] = chunk[i];
    } else {
      merge_largest(list.word, chunk);
    }
  }
  return list;
}

// ---- rounds ------------------------------------------------------------------------------------------------

/// What a lane leaves in shared memory of the word that was taken from it.
struct Taken {
  uint32_t packed;
  uint32_t from;  // the lane's first expert; where it has zero experts, too, the lane
};

/// The slots of this lane's team.
template <class P>
MOEGEN_DEVICE Taken* taken_slots() {
  return reinterpret_cast<Taken*>(dynamic_shared()) + thread_index() / P::lanes * P::top_k;
}

/// One round: the largest head of the team, taken from the lowest lane that has it, becomes slot `round`.
template <class P>
MOEGEN_DEVICE void take_largest(List<P>& list, uint32_t from, uint32_t round, uint32_t& bound) {
  const uint32_t largest = team_max<P::lanes>(list.word[0]);
  bool mine = list.word[0] == largest;
  if constexpr (!P::exact_packing) {
    const uint32_t equals = ballot(mine) & team_mask<P::lanes>();
    mine = mine && (equals & lanes_below()) == 0;
  }
  if (!mine) return;
  taken_slots<P>()[round] = {largest, from};
  bound = largest;
#pragma unroll
  for (uint32_t i = 0; i + 1 < P::list_size; ++i) list.word[i] = list.word[i + 1];
  list.word[P::list_size - 1] = kEmpty;
}

/// Makes the list anew of what lies below its last word, on lanes whose list has run dry.
template <class P>
MOEGEN_DEVICE void refill(const Keys<P>& keys, const Place& place, List<P>& list, uint32_t& bound) {
  const bool dry = list.word[0] == kEmpty && bound != kEmpty;
  if (ballot(dry) == 0) return;
  const List<P> next = make_list<P>(keys, place, bound);
  if (!dry) return;
  list = next;
  if (next.word[0] == kEmpty) bound = kEmpty;  // nothing is left
}

/// All rounds. Returns the largest word that was not taken.
template <class P>
MOEGEN_DEVICE uint32_t take_all(const Keys<P>& keys, const Place& place, bool dropped) {
  const uint32_t from = P::zero_share > 0 ? lane_index() % P::lanes : place.first;
  uint32_t bound = kNone;
  List<P> list = {};
  warp_sync();  // the slots of the token before have been read
  if constexpr (P::refills) {
    if (dropped) list.word[0] = kDropped;
#pragma unroll 1
    for (uint32_t round = 0;; ++round) {
      refill<P>(keys, place, list, bound);
      if (round == P::top_k) break;
      take_largest<P>(list, from, round, bound);
    }
  } else {
    list = make_list<P>(keys, place, bound);
    if (dropped) list.word[0] = kDropped;
#pragma unroll
    for (uint32_t round = 0; round < P::top_k; ++round) take_largest<P>(list, from, round, bound);
  }
  warp_sync();
  return P::exact_packing ? static_cast<uint32_t>(kEmpty) : team_max<P::lanes>(list.word[0]);
}

/// The expert that a lane left.
template <class P>
MOEGEN_DEVICE uint32_t expert_of(const Taken& taken) {
  const uint32_t number = P::index_mask - (taken.packed & P::index_mask);
  if constexpr (P::exact_packing)
    return number;
  else if constexpr (P::zero_share > 0)
    return expert_at<P>(place_of<P>(taken.from), number);
  else
    return taken.from + number;
}

/// True if slot `lane` of the team may not be the right one: `order` is its exact key, `next_head` the largest word
/// that was not taken. Called by all lanes.
template <class P>
MOEGEN_DEVICE bool is_doubtful(uint32_t lane, uint32_t packed, uint32_t order, uint32_t expert, uint32_t next_head) {
  const uint32_t next_order = shuffle(order, lane_index() + 1), next_expert = shuffle(expert, lane_index() + 1);
  if (lane >= P::top_k) return false;
  if (packed < kLeastFinite || order > kMostFinite) return true;
  if (lane + 1 < P::top_k) return order < next_order || (order == next_order && expert > next_expert);
  return (packed | P::index_mask) == (next_head | P::index_mask);
}

/// Exact rounds. Returns the expert of the slot of this lane, and whether it is a filler.
template <class P>
MOEGEN_DEVICE Slot take_exactly(Keys<P> keys, const Place& place, bool dropped) {
  Slot slot = {kNone, true, 0.0f, 0.0f};
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    const bool finite = keys.order[i] >= kLeastFinite && keys.order[i] <= kMostFinite;
    if (!holds<P>(place, i)) continue;
    if (!finite && keys.order[i] != kDropped) keys.order[i] = kNotFinite;
    if (dropped) keys.order[i] = kDropped;
  }
#pragma unroll 1
  for (uint32_t round = 0; round < P::top_k; ++round) {
    uint32_t best = kEmpty, expert = kNone;
#pragma unroll
    for (uint32_t i = 0; i < P::per_lane; ++i) {
      if (keys.order[i] <= best) continue;
      best = keys.order[i];
      expert = expert_at<P>(place, i);
    }
    const uint32_t largest = team_max<P::lanes>(best);
    const uint32_t winner = ~team_max<P::lanes>(best == largest ? ~expert : 0u);
#pragma unroll
    for (uint32_t i = 0; i < P::per_lane; ++i)
      if (expert_at<P>(place, i) == winner) keys.order[i] = kEmpty;
    if (lane_index() % P::lanes == round) slot = {winner, largest < kLeastFinite, 0.0f, 0.0f};
  }
  return slot;
}

}  // namespace moegen::router
