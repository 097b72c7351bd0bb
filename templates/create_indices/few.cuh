// SPDX-License-Identifier: Apache-2.0
// create_indices of at most 32 pairs, as one token or a few have: a warp knows everything from a vote a bit.
//
// Algorithm. Every warp reads all pairs, one a lane, and votes on the bits of their groups from the highest: that gives
//   each lane the lanes with its own group and those with a lower one, and so its row, the group's first row, and the
//   group's entry in the tables. Each warp then writes its share of the tables, the first one the rows as well.
// Only without padding, and where tables list the groups with pairs alone.
//
// Roles: all warps alike. Shared memory: none. Barriers: none.
#pragma once

#include "../core/grid.cuh"
#include "../core/warp.cuh"
#include "ids.cuh"

namespace moegen::create_indices {

/// Lanes whose pair has the group of this lane's, and those where it is lower. Pairs without a group are above all: the
/// all-ones low bits of kNone are no group's.
struct Standing {
  uint32_t same, lower;
};

template <class P>
MOEGEN_DEVICE Standing standing_of(uint32_t group) {
  Standing standing = {kFullMask, 0};
#pragma unroll 1
  for (uint32_t bit = P::group_bits; bit-- > 0;) {
    const bool set = (group >> bit & 1) != 0;
    const uint32_t votes = ballot(set);
    if (set) standing.lower |= standing.same & ~votes;
    standing.same &= set ? votes : ~votes;
  }
  return standing;
}

/// Rows of the pairs, on the first warp.
MOEGEN_DEVICE void write_few_rows(const Args& args, bool kept, uint32_t num_kept, uint32_t row) {
  const uint32_t lane = lane_index();
  if (lane >= static_cast<uint32_t>(args.num_pairs)) return;
  args.restore_token_order[lane] = kept ? row : static_cast<uint32_t>(kNone);
  if (kept) args.token_expert_order[row] = lane;
  if (lane >= num_kept) args.token_expert_order[lane] = kNone;
}

template <class P>
MOEGEN_DEVICE void run_few(const Args& args) {
  wait_for_dependencies();
  const uint32_t group = load_group<P>(args, lane_index(), static_cast<uint32_t>(args.num_pairs));
  launch_dependents();
  const bool kept = group != kNone;
  const Standing standing = standing_of<P>(group);
  const uint32_t rank = popcount(standing.same & lanes_below()), first_row = popcount(standing.lower);
  const uint32_t first_ones = ballot(kept && rank == 0);  // the first pair of each group
  const uint32_t num_kept = popcount(ballot(kept)), active = popcount(first_ones);
  if (warp_index() == 0) {
    write_few_rows(args, kept, num_kept, first_row + rank);
    if (kept && rank == 0) {
      const uint32_t entry = popcount(standing.lower & first_ones);
      args.expert_start_indices[entry] = first_row;
      args.expert_ids[entry] = static_cast<int32_t>(group);
    }
    const uint32_t largest = warp_max(kept ? popcount(standing.same) : 0);
    if (lane_index() == 0) {
      args.expert_start_indices[P::num_groups] = num_kept;
      args.expert_usage_stats[0] = largest;
      args.expert_usage_stats[1] = active;
    }
  }
#pragma unroll 1
  for (uint32_t entry = active + thread_index(); entry < P::num_groups; entry += P::few_threads) {
    args.expert_start_indices[entry] = num_kept;
    args.expert_ids[entry] = -1;
  }
}

}  // namespace moegen::create_indices
