// SPDX-License-Identifier: Apache-2.0
// create_indices: groups (token, slot) pairs by expert. A stable counting sort in one launch.
//
// Algorithm. A team of blocks splits the pairs into one contiguous chunk a warp, in order of pair index.
//   1. count     each warp counts its chunk's pairs of each group (one local expert) in shared memory
//   2. combine   counts become offsets: over the warps of a block, then over the blocks of the team
//   3. locate    a scan over the groups gives each group its first row; the team's first block writes the tables
//   4. place     each warp walks its chunk again; a pair's row = group start + offset of the warp + rank in the warp
// Ranks follow lane order and chunks follow pair order, so rows inside a group ascend by pair index whatever the team.
// A block whose share of the pairs fits its shared memory stages them there, group by group, before it writes
// token_expert_order: neighbours in a group have neighbouring rows, and 32 scattered words take a store 32 times as
// long as those of one line.
//
// Teams, told apart by the launch: one block; one cluster, whose blocks write their counts into each other's shared
// memory; or a co-resident grid that exchanges counts through a workspace, with one grid barrier.
//
// Shared memory, uint32 each: warp_counts [num_warps][num_groups], totals [max_cluster][num_groups], base [num_groups],
//   gap_begin and gap_end [num_groups] (only with padding), partial [5][32]; and where blocks stage their pairs,
//   staged_begin [num_groups], staged and staged_row [staged_rows]. A block that has all pairs to itself, and no
//   padding, stages them by row.
// Barriers: block_sync between the steps; one barrier of the team between totals written and totals read. A block of a
//   cluster writes its totals into every peer, so it first waits until all have started.
//
// Few pairs have an entry of their own, in few.cuh.
//
// The text is kept short on purpose (one entry point, few unrolled loops): compile time follows it.
#pragma once

#include "../core/cluster.cuh"
#include "../core/grid.cuh"
#include "../core/shared.cuh"
#include "../core/thread.cuh"
#include "../core/types.cuh"
#include "../core/warp.cuh"
#include "ids.cuh"

namespace moegen::create_indices {

/// The rows of a scale block: Modular's `_scale_alignment`, and the K granularity of 128-wide scales.
enum : uint32_t { kScaleRows = 128 };

/// Words at the head of the workspace: blocks that arrived, blocks that are done; padded to a 64-byte line.
enum : uint32_t { kArrived = 0, kDeparted = 1, kWorkspaceHead = 16 };

enum class Team { block, cluster, grid };

/// True if the rows of a block are all rows there are, so that pairs are staged by row.
template <class P>
MOEGEN_DEVICE bool has_all_rows() {
  return P::pad_rows_to == 1 && num_blocks() == 1;
}

MOEGEN_DEVICE Team this_team() {
  if (num_blocks() == 1) return Team::block;
  return cluster_size() > 1 ? Team::cluster : Team::grid;
}

template <class P>
struct Shared {
  uint32_t* warp_counts;  // [num_warps][num_groups] counts, then offsets of the warp inside its block
  uint32_t* totals;       // [max_cluster][num_groups] pairs of each block of the cluster
  uint32_t* base;         // [num_groups] row of this block's first pair of the group
  uint32_t* gap_begin;    // [num_groups] padding rows of the group
  uint32_t* gap_end;
  uint32_t* partial;       // [5][32] sums of each warp in the scan over groups
  uint32_t* staged_begin;  // [num_groups] where the block's pairs of the group begin in `staged`
  uint32_t* staged;        // [staged_rows] pairs of this block, group by group
  uint32_t* staged_row;    // [staged_rows] their rows

  MOEGEN_DEVICE Shared() {
    constexpr uint32_t kGapWords = P::pad_rows_to > 1 ? P::num_groups : 0;
    constexpr uint32_t kRows = P::num_warps + P::max_cluster + 1;
    constexpr uint32_t kStaged = P::staged_rows > 0 ? P::num_groups + 2 * P::staged_rows : 0;
    constexpr uint32_t kWords = kRows * P::num_groups + 2 * kGapWords + 5 * kWarpSize + kStaged;
    static_assert(kWords * 4 == P::shared_bytes, "the plan and the kernel disagree on shared memory");
    warp_counts = reinterpret_cast<uint32_t*>(dynamic_shared());
    totals = warp_counts + P::num_warps * P::num_groups;
    base = totals + P::max_cluster * P::num_groups;
    gap_begin = base + P::num_groups;
    gap_end = gap_begin + kGapWords;
    partial = gap_end + kGapWords;
    staged_begin = partial + 5 * kWarpSize;
    staged = staged_begin + P::num_groups;
    staged_row = staged + P::staged_rows;
  }
};

/// Where the totals of block 0, 1, ... stand in rows of num_groups: in the workspace of a grid, else in shared memory.
template <class P>
MOEGEN_DEVICE uint32_t* totals_table(const Args& args, const Shared<P>& shared, Team team) {
  return team == Team::grid ? static_cast<uint32_t*>(args.workspace) + kWorkspaceHead : shared.totals;
}

/// Hands this block's pairs of `group` to the team.
template <class P>
MOEGEN_DEVICE void publish_total(uint32_t* table, Team team, uint32_t group, uint32_t total) {
  uint32_t* word = table + block_index() * P::num_groups + group;
  if (team != Team::cluster) {
    *word = total;
    return;
  }
#pragma unroll 1
  for (uint32_t block = 0; block < num_blocks(); ++block) *map_cluster_shared(word, block) = total;
}

/// Waits until the totals of all blocks are in the table.
MOEGEN_DEVICE void await_totals(const Args& args, Team team) {
  if (team == Team::block) {
    block_sync();
  } else if (team == Team::cluster) {
    cluster_arrive();
    cluster_wait();
  } else {
    grid_sync(static_cast<uint32_t*>(args.workspace) + kArrived);
  }
}

/// Says that this block of a grid has read the others' totals; the last one leaves the workspace as it was.
MOEGEN_DEVICE void totals_read(const Args& args, Team team) {
  if (team != Team::grid || thread_index() != 0) return;
  uint32_t* words = static_cast<uint32_t*>(args.workspace);
  if (global_add(words + kDeparted, 1) == num_blocks() - 1) words[kArrived] = words[kDeparted] = 0;
}

/// num_warps is a multiple of 4, so the counters are whole 16-byte pieces.
template <class P>
MOEGEN_DEVICE void clear_counts(const Shared<P>& shared) {
  Vector16* pieces = reinterpret_cast<Vector16*>(shared.warp_counts);
#pragma unroll 1
  for (uint32_t i = thread_index(); i < P::num_warps * P::num_groups / 4; i += P::num_threads) pieces[i] = {};
}

/// The pairs [begin, end) of one warp, and whether its block stages all that it has.
struct Chunk {
  uint32_t begin, end;
  bool staged;
};

/// All warps of the team get equal chunks of whole warps of pairs, in order. 32 bits hold every sum: num_pairs < 2^31.
template <class P>
MOEGEN_DEVICE Chunk chunk_of_warp(const Args& args) {
  const uint32_t num_pairs = static_cast<uint32_t>(args.num_pairs);
  const uint32_t length = round_up<uint32_t>(ceil_div<uint32_t>(num_pairs, num_blocks() * P::num_warps), kWarpSize);
  const uint32_t begin = min_of(length * (block_index() * P::num_warps + warp_index()), num_pairs);
  return {begin, min_of(begin + length, num_pairs), length * P::num_warps <= P::staged_rows};
}

/// Mask of the lanes that hold the same group as this one. One vote a bit of the group number: `match.any` takes longer
/// where most lanes differ. The all-ones low bits of kNone are no group's.
template <class P>
MOEGEN_DEVICE uint32_t same_group(uint32_t group) {
  uint32_t peers = kFullMask;
#pragma unroll 3
  for (uint32_t bit = 0; bit < P::group_bits; ++bit) {
    const bool set = (group >> bit & 1) != 0;
    const uint32_t votes = ballot(set);
    peers &= set ? votes : ~votes;
  }
  return peers;
}

/// One warp-wide step of pairs: each lane's group, and the lanes that share it.
struct Step {
  uint32_t group, peers;
};

template <class P>
MOEGEN_DEVICE Step make_step(uint32_t group) {
  return {group, same_group<P>(group)};
}

/// Counts the chunk's pairs. The first step, often the only one, is counted without atomics and kept for placing.
template <class P>
MOEGEN_DEVICE Step count_pairs(const Args& args, const Chunk& chunk, uint32_t* counts) {
  const uint32_t pair = chunk.begin + lane_index();
  const Step step = make_step<P>(load_group<P>(args, pair, chunk.end));
  if (step.group != kNone && (step.peers & lanes_below()) == 0) counts[step.group] = popcount(step.peers);
  warp_sync();
#pragma unroll 2
  for (uint32_t next = pair + kWarpSize; next < chunk.end; next += kWarpSize) {
    const uint32_t group = load_group<P>(args, next, chunk.end);
    if (group != kNone) shared_add(counts + group, 1);
  }
  return step;
}

/// Counts of the warps -> offsets of the warps inside the block, and the block's totals. Nested loops: eight loads in
/// flight, and no more code than that. Warps past `warps_in_use` have counted nothing and will place nothing.
template <class P>
MOEGEN_DEVICE void combine_warps(const Shared<P>& shared, uint32_t* table, Team team, uint32_t warps_in_use) {
  constexpr uint32_t kInFlight = P::num_warps < 8 ? P::num_warps : 8;
#pragma unroll 1
  for (uint32_t i = 0; i < P::groups_per_thread; ++i) {
    const uint32_t group = thread_index() + i * P::num_threads;
    if (group >= P::num_groups) break;
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < warps_in_use; first += kInFlight) {
      uint32_t* words = shared.warp_counts + first * P::num_groups + group;
#pragma unroll
      for (uint32_t warp = 0; warp < kInFlight; ++warp) {
        const uint32_t count = words[warp * P::num_groups];
        words[warp * P::num_groups] = sum;
        sum += count;
      }
    }
    publish_total<P>(table, team, group, sum);
  }
}

/// What the scan over groups sums up.
struct Sums {
  uint32_t rows = 0;          // rows of the output, padded
  uint32_t active = 0;        // groups with pairs
  uint32_t scale_blocks = 0;  // blocks of kScaleRows, each group rounded up
  uint32_t staged = 0;        // pairs of this block
};

/// Inclusive prefix sums over the lanes.
template <class P>
MOEGEN_DEVICE Sums scan_warp(Sums sums) {
#pragma unroll 1
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) {
    sums.rows += shuffle_up(sums.rows, delta, 0);
    sums.active += shuffle_up(sums.active, delta, 0);
    if constexpr (P::scales_offset) sums.scale_blocks += shuffle_up(sums.scale_blocks, delta, 0);
    if (P::staged_rows > 0 && !has_all_rows<P>()) sums.staged += shuffle_up(sums.staged, delta, 0);
  }
  return sums;
}

/// Turns the prefix sum of a warp into one over the block: `all` receives the sum of everything. `partial` is one row
/// of Shared::partial, which every warp has written.
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
    if (P::staged_rows > 0) partial[4 * kWarpSize] = sums.staged;
  }
  block_sync();
  sums.rows += add_warps_before<P>(shared.partial, all.rows) - mine.rows;
  sums.active += add_warps_before<P>(shared.partial + kWarpSize, all.active) - mine.active;
  if constexpr (P::scales_offset)
    sums.scale_blocks += add_warps_before<P>(shared.partial + 2 * kWarpSize, all.scale_blocks) - mine.scale_blocks;
  if (P::staged_rows > 0 && !has_all_rows<P>())
    sums.staged += add_warps_before<P>(shared.partial + 4 * kWarpSize, all.staged) - mine.staged;
  return sums;
}

/// Pairs of one group: in the blocks before this one, in this one, and in all blocks.
struct Shares {
  uint32_t before = 0, own = 0, all = 0;
};

/// Adds what one group takes.
template <class P>
MOEGEN_DEVICE void add_group(Sums& sums, const Shares& shares) {
  const uint32_t rows = round_up<uint32_t>(shares.all, P::pad_rows_to);
  sums.rows += rows;
  sums.active += shares.all > 0;
  sums.scale_blocks += ceil_div<uint32_t>(rows, kScaleRows);
  sums.staged += shares.own;
}

/// Writes the table entry of one group. Groups with pairs come first, in order, and after them, as unused entries, the
/// others: so every entry is written once.
template <class P>
MOEGEN_DEVICE void write_entry(const Args& args, uint32_t group, bool listed, const Sums& before, const Sums& all) {
  const uint32_t entry = P::all_experts ? group : listed ? before.active : all.active + group - before.active;
  const Sums& at = listed ? before : all;
  args.expert_start_indices[entry] = at.rows;
  args.expert_ids[entry] = listed ? static_cast<int32_t>(group) : -1;
  if constexpr (P::scales_offset) args.scales_offset[entry] = at.scale_blocks - at.rows / kScaleRows;
}

/// The end of the last group, and the statistics. Called by one warp, a barrier after each warp left its largest count
/// in `partial`.
template <class P>
MOEGEN_DEVICE void write_totals(const Args& args, const Shared<P>& shared, const Sums& all) {
  const uint32_t largest = warp_max(lane_index() < P::num_warps ? shared.partial[3 * kWarpSize + lane_index()] : 0);
  if (lane_index() != 0) return;
  args.expert_start_indices[P::num_groups] = all.rows;
  args.expert_usage_stats[0] = largest;
  args.expert_usage_stats[1] = all.active;
}

/// Reads the shares of `group`.
template <class P>
MOEGEN_DEVICE Shares combine_blocks(const uint32_t* totals, uint32_t group) {
  Shares shares;
#pragma unroll 1
  for (uint32_t first = 0; first < num_blocks(); first += 4) {
#pragma unroll
    for (uint32_t block = first; block < first + 4; ++block) {
      const uint32_t count = block < num_blocks() ? totals[block * P::num_groups + group] : 0;
      shares.before += block < block_index() ? count : 0;
      shares.own = block == block_index() ? count : shares.own;
      shares.all += count;
    }
  }
  return shares;
}

/// Gives each group its rows, and its place in `staged`. Each thread owns groups_per_thread neighbouring groups.
/// Returns what all have together.
template <class P>
MOEGEN_DEVICE Sums locate_groups(const Args& args, const Shared<P>& shared, const uint32_t* totals, Team team) {
  Shares shares[P::groups_per_thread];
  uint32_t largest = 0;
  Sums mine, all;
#pragma unroll
  for (uint32_t i = 0; i < P::groups_per_thread; ++i) {
    const uint32_t group = thread_index() * P::groups_per_thread + i;
    if (group < P::num_groups) shares[i] = combine_blocks<P>(totals, group);
    add_group<P>(mine, shares[i]);
    largest = max_of(largest, shares[i].all);
  }
  largest = warp_max(largest);
  if (lane_index() == 0) shared.partial[3 * kWarpSize + warp_index()] = largest;
  Sums sums = scan_block<P>(shared, mine, all);
  totals_read(args, team);  // scan_block's barrier stands between every thread's reads and this
#pragma unroll
  for (uint32_t i = 0; i < P::groups_per_thread; ++i) {
    const uint32_t group = thread_index() * P::groups_per_thread + i;
    if (group >= P::num_groups) break;
    shared.base[group] = sums.rows + shares[i].before;
    if (block_index() == 0) write_entry<P>(args, group, P::all_experts || shares[i].all > 0, sums, all);
    if constexpr (P::pad_rows_to > 1) shared.gap_begin[group] = sums.rows + shares[i].all;
    if constexpr (P::staged_rows > 0) shared.staged_begin[group] = sums.staged;
    add_group<P>(sums, shares[i]);
    if constexpr (P::pad_rows_to > 1) shared.gap_end[group] = sums.rows;
  }
  if (block_index() == 0 && warp_index() == 0) write_totals<P>(args, shared, all);
  return all;
}

/// Writes the block's staged pairs to their rows, neighbours together.
template <class P>
MOEGEN_DEVICE void write_staged(const Args& args, const Shared<P>& shared, const Sums& all) {
  block_sync();
  const uint32_t count = has_all_rows<P>() ? all.rows : all.staged;
#pragma unroll 1
  for (uint32_t i = thread_index(); i < count; i += P::num_threads)
    args.token_expert_order[has_all_rows<P>() ? i : shared.staged_row[i]] = shared.staged[i];
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

/// Places one step. `counts` holds, for each group, how many of the block's pairs came before.
template <class P>
MOEGEN_DEVICE void place_step(const Args& args, const Shared<P>& shared, uint32_t* counts, const Step& step,
                              uint32_t pair, const Chunk& chunk) {
  const uint32_t rank = popcount(step.peers & lanes_below());
  const bool kept = step.group != kNone;
  const uint32_t before = kept ? counts[step.group] + rank : 0;
  const uint32_t row = kept ? shared.base[step.group] + before : static_cast<uint32_t>(kNone);
  warp_sync();
  if (kept && rank == 0) counts[step.group] += popcount(step.peers);
  warp_sync();
  if (pair < chunk.end) args.restore_token_order[pair] = row;
  if (!kept) return;
  if (chunk.staged) {
    const uint32_t at = has_all_rows<P>() ? row : shared.staged_begin[step.group] + before;
    shared.staged[at] = pair;
    if (!has_all_rows<P>()) shared.staged_row[at] = row;
  } else {
    args.token_expert_order[row] = pair;
  }
}

/// Places the chunk's pairs, of which `step` is the first. Ids are asked for a step before their use.
template <class P>
MOEGEN_DEVICE void place_pairs(const Args& args, const Shared<P>& shared, const Chunk& chunk, uint32_t* counts,
                               Step step) {
  uint32_t first = chunk.begin;
  if (first >= chunk.end) return;
  while (true) {
    const uint32_t pair = first + lane_index();
    const uint32_t next = load_group<P>(args, pair + kWarpSize, chunk.end);
    place_step<P>(args, shared, counts, step, pair, chunk);
    first += kWarpSize;
    if (first >= chunk.end) return;
    step = make_step<P>(next);
  }
}

template <class P>
MOEGEN_DEVICE void run(const Args& args) {
  const Shared<P> shared;
  const Team team = this_team();
  uint32_t* table = totals_table<P>(args, shared, team);
  uint32_t* counts = shared.warp_counts + warp_index() * P::num_groups;
  if (team == Team::cluster) cluster_arrive();
  clear_counts<P>(shared);
  block_sync();
  wait_for_dependencies();
  const Chunk chunk = chunk_of_warp<P>(args);
  const Step step = count_pairs<P>(args, chunk, counts);
  if (team == Team::cluster) cluster_wait();
  block_sync();
  // A warp takes at least 32 pairs, so no more warps than that have counted anything.
  combine_warps<P>(shared, table, team, min_of<uint32_t>(P::num_warps, ceil_div<uint32_t>(args.num_pairs, kWarpSize)));
  launch_dependents();  // not earlier, nor later: docs/kernels.md
  await_totals(args, team);
  const Sums all = locate_groups<P>(args, shared, table, team);
  block_sync();
  place_pairs<P>(args, shared, chunk, counts, step);
  fill_unused<P>(args, shared, all.rows);
  if (chunk.staged) write_staged<P>(args, shared, all);
}

}  // namespace moegen::create_indices
