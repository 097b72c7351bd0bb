// SPDX-License-Identifier: Apache-2.0
// router: the top_k experts of each token and their weights, in registers.
//
// Algorithm. A team of `lanes` lanes has one token; each lane holds `per_lane` experts, ids ascending with the lane.
//   1. load     16 bytes a load where rows allow it
//   2. score    one float32 score and choice key an expert (scores.cuh)
//   3. groups   the top_groups best groups are kept (groups.cuh)
//   4. select   each lane sorts its keys, then top_k rounds over the heads of the lists (select.cuh)
//   5. weigh    lane j of the team has slot j: it reads its logit again and computes the weight (weights.cuh)
// A token's result depends on its own row alone, so it has the same bits in every batch.
//
// With hash routing 2 to 4 are a look-up. `Custom` is what a config adds: scores(args, logit, expert, token).
//
// Roles: all threads alike; a warp has 32 / lanes tokens at a time, and a block steps through the batch by whole grids.
// Shared memory: Taken [tokens of a block][top_k]. Barriers: a warp's own, around what its lanes leave each other
// there.
#pragma once

#include "../core/grid.cuh"
#include "weights.cuh"

namespace moegen::router {

/// Reads the logit of this lane's slot and scores it.
template <class P, class Custom>
MOEGEN_DEVICE void score_slot(const Args& args, Slot& slot, uint32_t token, const Row& row) {
  slot.logit = slot.score = 0.0f;
  if (slot.expert == kNone) return;
  slot.logit = to_float(logits_row<P>(args, token)[slot.expert]);
  slot.score = score_of<P, Custom>(args, slot.logit, slot.expert, token, row);
}

/// The exact key of this lane's slot.
template <class P>
MOEGEN_DEVICE uint32_t slot_order(const Args& args, const Slot& slot) {
  float bias = 0.0f;
  if constexpr (P::bias)
    if (slot.expert != kNone) bias = to_float(static_cast<const typename P::bias_dtype*>(args.bias)[slot.expert]);
  return order_of(key_of<P>(slot.logit, slot.score, bias));
}

/// Chooses by score.
template <class P, class Custom>
MOEGEN_DEVICE Slot choose(const Args& args, const Lane<P>& logits, const Lane<P>& bias, const Place& place,
                          uint32_t token, const Row& row) {
  Lane<P> keys;
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i) {
    const float logit = logits.value[i];
    float score = 0.0f;
    if constexpr (!P::by_logit)
      score = score_of<P, Custom>(args, logit, holds<P>(place, i) ? expert_at<P>(place, i) : 0, token, row);
    keys.value[i] = key_of<P>(logit, score, bias.value[i]);
  }
  const Kept<P> kept = choose_groups<P>(keys, place);
  const Keys<P> ordered = order_keys<P>(keys, place, kept);
  const bool dropped = drops_lanes<P>() && !P::exact_packing && !kept.group[0];
  const uint32_t next_head = take_all<P>(ordered, place, dropped);
  const uint32_t lane = lane_index() % P::lanes;
  Slot slot = {kNone, true, 0.0f, 0.0f};
  Taken taken = {kEmpty, 0};
  if (lane < P::top_k) {
    taken = taken_slots<P>()[lane];
    slot.expert = expert_of<P>(taken);
    slot.filler = taken.packed < kLeastFinite;
  }
  score_slot<P, Custom>(args, slot, token, row);
  if constexpr (!P::exact_packing) {
    const uint32_t order = slot_order<P>(args, slot);
    if (ballot(is_doubtful<P>(lane, taken.packed, order, slot.expert, next_head)) != 0) {
      slot = take_exactly<P>(ordered, place, dropped);
      score_slot<P, Custom>(args, slot, token, row);
    }
  }
  return slot;
}

/// Looks the token up; an id outside the vocabulary, or an expert outside the model, has none.
template <class P>
MOEGEN_DEVICE Slot look_up(const Args& args, uint32_t token) {
  const int64_t id = static_cast<const typename P::token_id_dtype*>(args.token_ids)[token];
  const uint32_t lane = lane_index() % P::lanes;
  Slot slot = {kNone, false, 0.0f, 0.0f};
  if (lane < P::top_k && id >= 0 && id < P::vocab)
    slot.expert = static_cast<uint32_t>(args.table[static_cast<uint64_t>(id) * P::top_k + lane]);
  if (slot.expert >= P::num_experts + P::num_zero_experts) slot.expert = kNone;
  return slot;
}

/// True if the token's shared slots name their experts: not where hash routing does not know the token.
template <class P>
MOEGEN_DEVICE bool shares(const Args& args, uint32_t token) {
  if constexpr (P::hash) {
    const int64_t id = static_cast<const typename P::token_id_dtype*>(args.token_ids)[token];
    return id >= 0 && id < P::vocab;
  } else {
    return true;
  }
}

/// Writes the slot of this lane: a chosen expert, or one of the shared slots after them.
template <class P>
MOEGEN_DEVICE void store_slot(const Args& args, uint32_t token, uint32_t expert, float weight) {
  constexpr uint32_t kSlots = P::top_k + P::num_shared_slots;
  const uint32_t lane = lane_index() % P::lanes;
  if (lane >= kSlots) return;
  if (lane >= P::top_k) {
    const bool shared = shares<P>(args, token);
    expert = shared ? P::num_experts + P::num_zero_experts + lane - P::top_k : static_cast<uint32_t>(kNone);
    weight = shared ? bits_float(P::shared_weight_bits) : 0.0f;
  }
  const uint64_t at = static_cast<uint64_t>(token) * kSlots + lane;
  args.expert_indices[at] = static_cast<int32_t>(expert);
  store_weight(static_cast<typename P::weight_dtype*>(args.expert_weights) + at, weight);
}

/// Dependents are let in behind the first loads: before them, blocks that wait crowd some multiprocessors. With many
/// experts a lane the order which that forces on the loads costs more (docs/kernels.md).
template <class P>
constexpr bool kTriggersLate = P::per_lane <= 8;

/// Routes one token, on all lanes of its team.
template <class P, class Custom>
MOEGEN_DEVICE void route(const Args& args, const Lane<P>& bias, const Place& place, uint32_t token, bool stored) {
  Row row = {0.0f, 0.0f};
  Lane<P> logits;
  Slot slot;
  if constexpr (P::row_sum || !P::hash) load_lane<P>(logits_row<P>(args, token), place, logits);
  if constexpr (kTriggersLate<P>) launch_dependents();
  if constexpr (P::row_sum) row = sum_row<P>(logits, place);
  if constexpr (P::hash) {
    slot = look_up<P>(args, token);
    score_slot<P, Custom>(args, slot, token, row);
  } else {
    slot = choose<P, Custom>(args, logits, bias, place, token, row);
  }
  const float weight = weight_of<P>(args, slot);
  if (stored) store_slot<P>(args, token, slot.expert, weight);
}

template <class P, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  constexpr uint32_t kTokens = P::num_warps * kWarpSize / P::lanes;  // of a block at a time
  const uint32_t num_tokens = static_cast<uint32_t>(args.num_tokens);
  const Place place = place_of<P>(lane_index() % P::lanes);
  wait_for_dependencies();
  if constexpr (!kTriggersLate<P>) launch_dependents();
  Lane<P> bias = {};
  if constexpr (P::bias && !P::hash) load_lane<P>(static_cast<const typename P::bias_dtype*>(args.bias), place, bias);
#pragma unroll 1
  for (uint32_t step = block_index(); step < ceil_div(num_tokens, kTokens); step += num_blocks()) {
    const uint32_t token = step * kTokens + thread_index() / P::lanes;
    route<P, Custom>(args, bias, place, min_of(token, num_tokens - 1), token < num_tokens);
  }
}

}  // namespace moegen::router
