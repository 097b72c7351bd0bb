// SPDX-License-Identifier: Apache-2.0
// create_indices: groups (token, slot) pairs by expert. A stable counting sort in one launch.
//
// Algorithm. A team of blocks splits the pairs into one contiguous chunk a warp, in order of pair index.
//   1. count     each warp counts its chunk's pairs of each group (one local expert) in shared memory
//   2. combine   counts become offsets: over the warps of a block, then over the blocks of the team
//   3. locate    a scan over the groups gives each group its first row; the team's first block writes the tables
//   4. place     each warp walks its chunk again; a pair's row = group start + offset of the warp + rank in the warp
// Ranks follow lane order and chunks follow pair order, so rows inside a group ascend by pair index whatever the team.
//
// Teams. Where the arch has clusters, one cluster of 1 to max_cluster blocks that write their counts into each other's
// shared memory; elsewhere a co-resident grid that exchanges them through a workspace, with one grid barrier.
//
// Shared memory, uint32 each: warp_counts [num_warps][num_groups], totals [max_cluster][num_groups] (only with clusters),
//   base [num_groups], gap_begin and gap_end [num_groups] (only with padding), partial [4][32].
// Barriers: block_sync between the steps; one cluster or grid barrier between totals written and totals read. A block of
//   a cluster writes its totals into every peer, so it first waits until all have started.
//
// The text is kept short on purpose (one entry point, few unrolled loops): compile time follows it.
#pragma once

#include "../core/cluster.cuh"
#include "../core/grid.cuh"
#include "../core/shared.cuh"
#include "../core/thread.cuh"
#include "../core/types.cuh"
#include "../core/warp.cuh"
#include "args.h"

namespace moegen::create_indices {

/// The rows of a scale block: Modular's `_scale_alignment`, and the K granularity of 128-wide scales.
enum : uint32_t { kScaleRows = 128 };

/// Words at the head of the workspace: blocks that arrived, blocks that are done; padded to a 64-byte line.
enum : uint32_t { kArrived = 0, kDeparted = 1, kWorkspaceHead = 16 };

template <class P>
struct Shared {
  uint32_t* warp_counts;  // [num_warps][num_groups] counts, then offsets of the warp inside its block
  uint32_t* totals;       // [max_cluster][num_groups] pairs of each block of the cluster
  uint32_t* base;         // [num_groups] row of this block's first pair of the group
  uint32_t* gap_begin;    // [num_groups] padding rows of the group
  uint32_t* gap_end;
  uint32_t* partial;  // [4][32] sums of each warp in the scan over groups

  MOEGEN_DEVICE Shared() {
    constexpr uint32_t kGapWords = P::pad_rows_to > 1 ? P::num_groups : 0;
    constexpr uint32_t kTotals = P::clusters ? P::max_cluster : 0;
    constexpr uint32_t kRows = P::num_warps + kTotals + 1;
    constexpr uint32_t kWords = kRows * P::num_groups + 2 * kGapWords + 4 * kWarpSize;
    static_assert(kWords * 4 == P::shared_bytes, "the plan and the kernel disagree on shared memory");
    warp_counts = reinterpret_cast<uint32_t*>(dynamic_shared());
    totals = warp_counts + P::num_warps * P::num_groups;
    base = totals + kTotals * P::num_groups;
    gap_begin = base + P::num_groups;
    gap_end = gap_begin + kGapWords;
    partial = gap_end + kGapWords;
  }
};

/// Hands this block's pairs of `group` to all blocks.
template <class P>
MOEGEN_DEVICE void publish_total(const Args& args, const Shared<P>& shared, uint32_t group, uint32_t total) {
  const uint32_t word = block_index() * P::num_groups + group;
  if constexpr (P::clusters) {
#pragma unroll 1
    for (uint32_t block = 0; block < num_blocks(); ++block) *map_cluster_shared(shared.totals + word, block) = total;
  } else {
    static_cast<uint32_t*>(args.workspace)[kWorkspaceHead + word] = total;
  }
}

/// Waits until the totals of all blocks are there; returns the table [num_blocks][num_groups] that holds them.
template <class P>
MOEGEN_DEVICE const uint32_t* await_totals(const Args& args, const Shared<P>& shared) {
  if constexpr (P::clusters) {
    cluster_arrive();
    cluster_wait();
    return shared.totals;
  } else {
    uint32_t* words = static_cast<uint32_t*>(args.workspace);
    grid_sync(words + kArrived);
    return words + kWorkspaceHead;
  }
}

/// Says that this block of a grid has read the others' totals; the last one leaves the workspace as it was.
template <class P>
MOEGEN_DEVICE void totals_read(const Args& args) {
  if constexpr (!P::clusters) {
    if (thread_index() != 0) return;
    uint32_t* words = static_cast<uint32_t*>(args.workspace);
    if (global_add(words + kDeparted, 1) == num_blocks() - 1) words[kArrived] = words[kDeparted] = 0;
  }
}

/// Group of an expert id, or kNone for one that is masked, out of range, a zero expert or not local. Ids enter unsigned,
/// so that negative ones are out of range.
template <class P, class Unsigned>
MOEGEN_DEVICE uint32_t group_of(Unsigned id) {
  const Unsigned local = id - static_cast<Unsigned>(P::first_expert);
  if (local < static_cast<Unsigned>(P::num_local_experts)) return static_cast<uint32_t>(local);
  if constexpr (P::num_shared_slots > 0) {
    const Unsigned shared = id - static_cast<Unsigned>(P::first_shared_id);
    if (shared < static_cast<Unsigned>(P::num_shared_slots)) return P::num_local_experts + static_cast<uint32_t>(shared);
  }
  return kNone;
}

template <class P>
MOEGEN_DEVICE uint32_t load_group(const Args& args, uint32_t pair, uint32_t end) {
  if (pair >= end) return kNone;
  const auto id = static_cast<const typename P::id_dtype*>(args.topk_ids)[pair];
  if constexpr (sizeof(id) == 8) return group_of<P>(static_cast<uint64_t>(id));
  return group_of<P>(static_cast<uint32_t>(id));
}

/// num_warps is a multiple of 4, so the counters are whole 16-byte pieces.
template <class P>
MOEGEN_DEVICE void clear_counts(const Shared<P>& shared) {
  Vector16* pieces = reinterpret_cast<Vector16*>(shared.warp_counts);
#pragma unroll 1
  for (uint32_t i = thread_index(); i < P::num_warps * P::num_groups / 4; i += P::num_threads) pieces[i] = {};
}

/// The pairs [begin, end) of one warp.
struct Chunk {
  uint32_t begin, end;
};

/// All warps of the team get equal chunks of whole warps of pairs, in order. 32 bits hold every sum: num_pairs < 2^31.
template <class P>
MOEGEN_DEVICE Chunk chunk_of_warp(const Args& args) {
  const uint32_t num_pairs = static_cast<uint32_t>(args.num_pairs);
  const uint32_t length = round_up<uint32_t>(ceil_div<uint32_t>(num_pairs, num_blocks() * P::num_warps), kWarpSize);
  const uint32_t begin = min_of(length * (block_index() * P::num_warps + warp_index()), num_pairs);
  return {begin, min_of(begin + length, num_pairs)};
}

template <class P>
MOEGEN_DEVICE void count_pairs(const Args& args, const Chunk& chunk, uint32_t* counts) {
#pragma unroll 2
  for (uint32_t pair = chunk.begin + lane_index(); pair < chunk.end; pair += kWarpSize) {
    const uint32_t group = load_group<P>(args, pair, chunk.end);
    if (group != kNone) shared_add(counts + group, 1);
  }
}

/// Counts of the warps -> offsets of the warps inside the block, and the block's totals. Nested loops: eight loads in
/// flight, and no more code than that.
template <class P>
MOEGEN_DEVICE void combine_warps(const Args& args, const Shared<P>& shared) {
  constexpr uint32_t kInFlight = min_of<uint32_t>(8, P::num_warps);
#pragma unroll 1
  for (uint32_t group = thread_index(); group < P::num_groups; group += P::num_threads) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < P::num_warps; first += kInFlight) {
      uint32_t* words = shared.warp_counts + first * P::num_groups + group;
#pragma unroll
      for (uint32_t i = 0; i < kInFlight; ++i) {
        const uint32_t count = words[i * P::num_groups];
        words[i * P::num_groups] = sum;
        sum += count;
      }
    }
    publish_total<P>(args, shared, group, sum);
  }
}

/// What the scan over groups sums up.
struct Sums {
  uint32_t rows = 0;          // rows of the output, padded
  uint32_t active = 0;        // groups with pairs
  uint32_t scale_blocks = 0;  // blocks of kScaleRows, each group rounded up
};

/// Inclusive prefix sums over the lanes.
template <class P>
MOEGEN_DEVICE Sums scan_warp(Sums sums) {
#pragma unroll 1
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) {
    sums.rows += shuffle_up(sums.rows, delta, 0);
    sums.active += shuffle_up(sums.active, delta, 0);
    if constexpr (P::scales_offset) sums.scale_blocks += shuffle_up(sums.scale_blocks, delta, 0);
  }
  return sums;
}

/// Turns the prefix sum of a warp into one over the block: `all` receives the sum of everything. `partial` is one row of
/// Shared::partial, which every warp has written.
template <class P>
MOEGEN_DEVICE uint32_t add_warps_before(const uint32_t* partial, uint32_t& all) {
  const uint32_t sum = lane_index() < P::num_warps ? partial[lane_index()] : 0;
  all = warp_sum(sum);
  return warp_sum(lane_index() < warp_index() ? sum : 0);
}

/// Exclusive prefix sums over the threads of the block; `all` receives the sums of everything.
template <class P>
MOEGEN_DEVICE Sums scan_block(const Shared<P>& shared, const Sums& mine, Sums& all) {
  Sums sums = scan_warp<P>(mine);
  uint32_t* partial = shared.partial + warp_index();
  if (lane_index() == kWarpSize - 1) {
    partial[0 * kWarpSize] = sums.rows;
    partial[1 * kWarpSize] = sums.active;
    if constexpr (P::scales_offset) partial[2 * kWarpSize] = sums.scale_blocks;
  }
  block_sync();
  sums.rows += add_warps_before<P>(shared.partial, all.rows) - mine.rows;
  sums.active += add_warps_before<P>(shared.partial + kWarpSize, all.active) - mine.active;
  if constexpr (P::scales_offset)
    sums.scale_blocks += add_warps_before<P>(shared.partial + 2 * kWarpSize, all.scale_blocks) - mine.scale_blocks;
  return sums;
}

/// Adds what one group with `count` pairs takes.
template <class P>
MOEGEN_DEVICE void add_group(Sums& sums, uint32_t count) {
  const uint32_t rows = round_up<uint32_t>(count, P::pad_rows_to);
  sums.rows += rows;
  sums.active += count > 0;
  sums.scale_blocks += ceil_div<uint32_t>(rows, kScaleRows);
}

/// Row `entry` of the tables: where the group starts, whose it is, and its scale blocks.
template <class P>
MOEGEN_DEVICE void write_entry(const Args& args, uint32_t entry, const Sums& before, int32_t expert) {
  args.expert_start_indices[entry] = before.rows;
  args.expert_ids[entry] = expert;
  if constexpr (P::scales_offset) args.scales_offset[entry] = before.scale_blocks - before.rows / kScaleRows;
}

/// What follows the last entry in use, and the statistics. Called by all threads of the team's first block, a barrier
/// after each warp left its largest count in `partial`.
template <class P>
MOEGEN_DEVICE void write_tail(const Args& args, const Shared<P>& shared, const Sums& all) {
  const uint32_t used = P::all_experts ? P::num_groups : all.active;
#pragma unroll 1
  for (uint32_t entry = used + thread_index(); entry < P::num_groups; entry += P::num_threads)
    write_entry<P>(args, entry, all, -1);
  if (warp_index() != 0) return;
  const uint32_t largest = warp_max(lane_index() < P::num_warps ? shared.partial[3 * kWarpSize + lane_index()] : 0);
  if (lane_index() != 0) return;
  args.expert_start_indices[P::num_groups] = all.rows;
  args.expert_usage_stats[0] = largest;
  args.expert_usage_stats[1] = all.active;
}

/// Pairs of `group` in the blocks before this one, and in all blocks.
template <class P>
MOEGEN_DEVICE void combine_blocks(const uint32_t* totals, uint32_t group, uint32_t& before, uint32_t& total) {
  before = total = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < num_blocks(); first += 4) {
#pragma unroll
    for (uint32_t block = first; block < first + 4; ++block) {
      const uint32_t count = block < num_blocks() ? totals[block * P::num_groups + group] : 0;
      before += block < block_index() ? count : 0;
      total += count;
    }
  }
}

/// Gives each group its rows. Each thread owns groups_per_thread neighbouring groups. Returns the rows in use.
template <class P>
MOEGEN_DEVICE uint32_t locate_groups(const Args& args, const Shared<P>& shared, const uint32_t* totals) {
  uint32_t before[P::groups_per_thread], count[P::groups_per_thread];
  uint32_t largest = 0;
  Sums mine, all;
#pragma unroll
  for (uint32_t i = 0; i < P::groups_per_thread; ++i) {
    const uint32_t group = thread_index() * P::groups_per_thread + i;
    before[i] = count[i] = 0;
    if (group < P::num_groups) combine_blocks<P>(totals, group, before[i], count[i]);
    add_group<P>(mine, count[i]);
    largest = max_of(largest, count[i]);
  }
  largest = warp_max(largest);
  if (lane_index() == 0) shared.partial[3 * kWarpSize + warp_index()] = largest;
  Sums sums = scan_block<P>(shared, mine, all);
  totals_read<P>(args);  // scan_block's barrier stands between every thread's reads and this
#pragma unroll
  for (uint32_t i = 0; i < P::groups_per_thread; ++i) {
    const uint32_t group = thread_index() * P::groups_per_thread + i;
    if (group >= P::num_groups) break;
    shared.base[group] = sums.rows + before[i];
    const uint32_t entry = P::all_experts ? group : sums.active;
    if (block_index() == 0 && (P::all_experts || count[i] > 0))
      write_entry<P>(args, entry, sums, static_cast<int32_t>(group));
    if constexpr (P::pad_rows_to > 1) shared.gap_begin[group] = sums.rows + count[i];
    add_group<P>(sums, count[i]);
    if constexpr (P::pad_rows_to > 1) shared.gap_end[group] = sums.rows;
  }
  if (block_index() == 0) write_tail<P>(args, shared, all);
  return all.rows;
}

/// Marks the rows that hold no pair: the padding of each group and everything past the last row in use.
template <class P>
MOEGEN_DEVICE void fill_unused(const Args& args, const Shared<P>& shared, uint32_t rows) {
  const uint32_t pairs = static_cast<uint32_t>(args.num_pairs);
  const uint32_t padded = P::all_experts ? P::num_groups : min_of<uint32_t>(pairs, P::num_groups);
  const uint32_t capacity = pairs + padded * (P::pad_rows_to - 1);
  const uint32_t warps = num_blocks() * P::num_warps;
  const uint32_t warp = block_index() * P::num_warps + warp_index();
#pragma unroll 1
  for (uint32_t row = rows + warp * kWarpSize + lane_index(); row < capacity; row += warps * kWarpSize)
    args.token_expert_order[row] = kNone;
  if constexpr (P::pad_rows_to > 1) {
    for (uint32_t group = warp; group < P::num_groups; group += warps)
      for (uint32_t row = shared.gap_begin[group] + lane_index(); row < shared.gap_end[group]; row += kWarpSize)
        args.token_expert_order[row] = kNone;
  }
}

/// Places the pairs of one warp-wide step. `counts` holds, for each group, how many of the block's pairs came before.
template <class P>
MOEGEN_DEVICE void place_step(const Args& args, const Shared<P>& shared, uint32_t* counts, uint32_t group,
                              uint32_t pair, uint32_t end) {
  const uint32_t peers = match_any(group);
  const uint32_t rank = popcount(peers & lanes_below());
  const bool kept = group != kNone;
  const uint32_t row = kept ? shared.base[group] + counts[group] + rank : static_cast<uint32_t>(kNone);
  warp_sync();
  if (kept && rank == 0) counts[group] += popcount(peers);
  warp_sync();
  if (pair < end) args.restore_token_order[pair] = row;
  if (kept) args.token_expert_order[row] = pair;
}

template <class P>
MOEGEN_DEVICE void place_pairs(const Args& args, const Shared<P>& shared, const Chunk& chunk, uint32_t* counts) {
  uint32_t pair = chunk.begin + lane_index();
  uint32_t group = load_group<P>(args, pair, chunk.end);
#pragma unroll 1
  for (uint32_t first = chunk.begin; first < chunk.end; first += kWarpSize) {
    const uint32_t next = load_group<P>(args, pair + kWarpSize, chunk.end);  // asked for a step before its use
    place_step<P>(args, shared, counts, group, pair, chunk.end);
    pair += kWarpSize;
    group = next;
  }
}

template <class P>
MOEGEN_DEVICE void run(const Args& args) {
  const Shared<P> shared;
  uint32_t* counts = shared.warp_counts + warp_index() * P::num_groups;
  if constexpr (P::clusters) cluster_arrive();
  clear_counts<P>(shared);
  launch_dependents();
  block_sync();
  wait_for_dependencies();
  const Chunk chunk = chunk_of_warp<P>(args);
  count_pairs<P>(args, chunk, counts);
  if constexpr (P::clusters) cluster_wait();
  block_sync();
  combine_warps<P>(args, shared);
  const uint32_t rows = locate_groups<P>(args, shared, await_totals<P>(args, shared));
  block_sync();
  place_pairs<P>(args, shared, chunk, counts);
  fill_unused<P>(args, shared, rows);
}

}  // namespace moegen::create_indices
