// SPDX-License-Identifier: Apache-2.0
// create_indices of few pairs, one a thread: warps know everything from a vote a bit.
//
// Algorithm. Every warp reads all pairs, 32 in one register, and votes on the bits of their groups from the highest.
// With the votes each lane knows, of its own pair, the pairs of the same group and those of lower ones, and so the
// pair's row, the group's first row, and, once the warps have told each other which pairs are their groups' first, the
// group's entry in the tables. One register, as one token or a few have, needs nobody else's.
// Only without padding, and where tables list the groups with pairs alone.
//
// Roles: warp w has the pairs of register w; all threads write the unused entries of the tables.
// Shared memory: Exchange [warps]. Barriers: one, where there are several registers.
#pragma once

#include "../core/grid.cuh"
#include "../core/shared.cuh"
#include "../core/warp.cuh"
#include "ids.cuh"

namespace moegen::create_indices {

/// What a warp tells the others: which of its pairs are the first of their groups, and its largest count of a group.
struct Exchange {
  uint32_t first_ones, largest;
};

/// Pairs of each register, as bits of lanes: those with the group of this thread's pair, those with a lower one, and
/// all that have one. Pairs without a group are above all others: the all-ones low bits of kNone are no group's.
template <uint32_t Registers>
struct Standing {
  uint32_t same[Registers], lower[Registers], kept[Registers];
};

template <class P, uint32_t Registers>
MOEGEN_DEVICE Standing<Registers> standing_of(const Args& args, uint32_t own) {
  Standing<Registers> standing;
  uint32_t group[Registers];
#pragma unroll
  for (uint32_t r = 0; r < Registers; ++r) {
    const uint32_t pair = r * kWarpSize + lane_index();
    group[r] = Registers == 1 ? own : load_group<P>(args, pair, static_cast<uint32_t>(args.num_pairs));
    standing.kept[r] = ballot(group[r] != kNone);
    standing.same[r] = kFullMask;
    standing.lower[r] = 0;
  }
#pragma unroll 1
  for (uint32_t bit = P::group_bits; bit-- > 0;) {
    const bool set = (own >> bit & 1) != 0;
#pragma unroll
    for (uint32_t r = 0; r < Registers; ++r) {
      const uint32_t votes = ballot((group[r] >> bit & 1) != 0);
      if (set) standing.lower[r] |= standing.same[r] & ~votes;
      standing.same[r] &= set ? votes : ~votes;
    }
  }
  return standing;
}

/// Bits of `mask` before this thread's pair, of register `r`.
MOEGEN_DEVICE uint32_t before(uint32_t mask, uint32_t r) {
  if (r > warp_index()) return 0;
  return popcount(r < warp_index() ? mask : mask & lanes_below());
}

MOEGEN_DEVICE void write_few_rows(const Args& args, uint32_t pair, uint32_t row, uint32_t num_kept) {
  args.restore_token_order[pair] = row;
  if (row != kNone) args.token_expert_order[row] = pair;
  if (pair >= num_kept) args.token_expert_order[pair] = kNone;
}

template <class P, uint32_t Registers>
MOEGEN_DEVICE void group_few(const Args& args) {
  const uint32_t num_pairs = static_cast<uint32_t>(args.num_pairs), pair = thread_index();
  const uint32_t group = load_group<P>(args, Registers == 1 ? lane_index() : pair, num_pairs);
  const Standing<Registers> standing = standing_of<P, Registers>(args, group);
  launch_dependents();
  uint32_t rank = 0, first_row = 0, count = 0, num_kept = 0;
#pragma unroll
  for (uint32_t r = 0; r < Registers; ++r) {
    rank += Registers == 1 ? popcount(standing.same[r] & lanes_below()) : before(standing.same[r], r);
    first_row += popcount(standing.lower[r]);
    count += popcount(standing.same[r]);
    num_kept += popcount(standing.kept[r]);
  }
  const bool kept = group != kNone;
  Exchange* exchange = reinterpret_cast<Exchange*>(dynamic_shared());
  const Exchange mine = {ballot(kept && rank == 0), warp_max(kept ? count : 0)};
  if constexpr (Registers > 1) {
    if (lane_index() == 0) exchange[warp_index()] = mine;
    block_sync();
  }
  uint32_t entry = 0, active = 0, largest = 0;
#pragma unroll
  for (uint32_t r = 0; r < Registers; ++r) {
    const Exchange of = Registers == 1 ? mine : exchange[r];
    entry += popcount(standing.lower[r] & of.first_ones);
    active += popcount(of.first_ones);
    largest = max_of(largest, of.largest);
  }
  if (pair < num_pairs) {
    write_few_rows(args, pair, kept ? first_row + rank : static_cast<uint32_t>(kNone), num_kept);
    if (kept && rank == 0) {
      args.expert_start_indices[entry] = first_row;
      args.expert_ids[entry] = static_cast<int32_t>(group);
    }
  }
  if (pair == 0) {
    args.expert_start_indices[P::num_groups] = num_kept;
    args.expert_usage_stats[0] = largest;
    args.expert_usage_stats[1] = active;
  }
#pragma unroll 1
  for (uint32_t unused = active + pair; unused < P::num_groups; unused += P::few_threads) {
    args.expert_start_indices[unused] = num_kept;
    args.expert_ids[unused] = -1;
  }
}

template <class P>
MOEGEN_DEVICE void run_few(const Args& args) {
  wait_for_dependencies();
  if (args.num_pairs <= kWarpSize)
    group_few<P, 1>(args);
  else
    group_few<P, P::few_threads / kWarpSize>(args);
}

}  // namespace moegen::create_indices
