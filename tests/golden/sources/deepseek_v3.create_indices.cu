// SPDX-License-Identifier: Apache-2.0
// create_indices of deepseek_v3 for sm_90a, written by moegen.

// ---- core/types.cuh --------------------------------------------------------------------------------------
// Words that every template uses: fixed-width integers, storage types, and what a device function is.

// A kernel's text includes nothing, so the names of <cstdint> are declared here; the same types as the host's on LP64.
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

#define MOEGEN_DEVICE __device__ __forceinline__

namespace moegen {

/// An index that stands for "none": a dropped pair, an unused row.
enum : uint32_t { kNone = 0xFFFFFFFFu };

/// Storage of 16-bit floats; arithmetic is done in float.
struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};

/// 8 bytes that move in one access.
struct alignas(8) Vector8 {
  uint32_t word[2];
};

/// 16 bytes that move in one access.
struct alignas(16) Vector16 {
  uint32_t word[4];
};

template <class T>
MOEGEN_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
MOEGEN_DEVICE constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <class T>
MOEGEN_DEVICE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <class T>
MOEGEN_DEVICE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

}  // namespace moegen

// ---- core/cluster.cuh ------------------------------------------------------------------------------------
// Thread block clusters and distributed shared memory, sm_90 up. On earlier archs a cluster is one block.


namespace moegen {

/// Number of blocks in this cluster; 1 on archs without clusters.
MOEGEN_DEVICE uint32_t cluster_size() {
#ifdef MOEGEN_TARGET_CPU
  return cpu::cluster_size();
#elif __CUDA_ARCH__ < 900
  return 1;
#else
  uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#endif
}

/// Tells the cluster that this thread's writes to shared memory may be read. Pair with cluster_wait.
MOEGEN_DEVICE void cluster_arrive() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_arrive();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/// Waits until every thread of the cluster has arrived; their earlier writes are visible.
MOEGEN_DEVICE void cluster_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_wait();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The word that block `rank` of the cluster has where this block has `word`, as a generic address.
MOEGEN_DEVICE uint32_t* map_cluster_shared(uint32_t* word, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t*>(cpu::map_cluster_shared(word, rank));
#elif __CUDA_ARCH__ < 900
  return word;
#else
  uint32_t* peer;
  asm("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(word), "r"(rank));
  return peer;
#endif
}

}  // namespace moegen

// ---- core/shared.cuh -------------------------------------------------------------------------------------
// Shared memory and the barrier of a block.


namespace moegen {

/// All threads of the block have arrived, and what they wrote to shared and global memory is visible to each other.
MOEGEN_DEVICE void block_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(0);
#else
  asm volatile("bar.sync 0;" ::: "memory");
#endif
}

/// The block's dynamic shared memory, 16-byte aligned.
MOEGEN_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char moegen_dynamic_shared[];
  return moegen_dynamic_shared;
}

/// Adds `value` to a word of shared memory; block scope, no ordering.
MOEGEN_DEVICE void shared_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  cpu::shared_add(word, value);
#else
  asm volatile(
      "red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(word))),
      "r"(value)
      : "memory");
#endif
}

}  // namespace moegen

// ---- core/thread.cuh -------------------------------------------------------------------------------------
// Where a thread is: in its warp, block, cluster and grid.


namespace moegen {

enum : uint32_t { kWarpSize = 32, kFullMask = 0xFFFFFFFFu };

MOEGEN_DEVICE uint32_t thread_index() { return threadIdx.x; }
MOEGEN_DEVICE uint32_t block_index() { return blockIdx.x; }
MOEGEN_DEVICE uint32_t num_blocks() { return gridDim.x; }
MOEGEN_DEVICE uint32_t lane_index() { return threadIdx.x % kWarpSize; }
MOEGEN_DEVICE uint32_t warp_index() { return threadIdx.x / kWarpSize; }

}  // namespace moegen

// ---- core/grid.cuh ---------------------------------------------------------------------------------------
// Agreement between all blocks of a grid through words in global memory, and dependent launch.


namespace moegen {

/// Adds to a word of global memory and returns its old value; device scope, acquire and release.
MOEGEN_DEVICE uint32_t global_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::global_add(word, value);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
#endif
}

/// Waits until `*word` is at least `least`, which some other block will make it; device scope, acquire.
MOEGEN_DEVICE void wait_at_least(const uint32_t* word, uint32_t least) {
#ifdef MOEGEN_TARGET_CPU
  cpu::wait_at_least(word, least);
#else
  uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
  } while (seen < least);
#endif
}

/// All threads of all blocks have arrived, and what they wrote is visible to each other. `arrived` counts blocks from
/// 0; every block of the grid must be resident (cooperative launch).
MOEGEN_DEVICE void grid_sync(uint32_t* arrived) {
  block_sync();
  if (thread_index() == 0) {
    global_add(arrived, 1);
    wait_at_least(arrived, num_blocks());
  }
  block_sync();
}

/// Waits until the kernels this one depends on have ended and their writes are visible. Nothing that an earlier kernel
/// may write is read, and nothing that it may read is written, before this. sm_90 up; elsewhere launches are in order.
MOEGEN_DEVICE void wait_for_dependencies() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets kernels that wait for this one be put on the chip early; they still wait for its end before they read.
MOEGEN_DEVICE void launch_dependents() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace moegen

// ---- core/bits.cuh ---------------------------------------------------------------------------------------
// Reinterpretation and bit counting.


namespace moegen {

MOEGEN_DEVICE uint32_t float_bits(float value) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(uint32_t, value);
#else
  uint32_t bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#endif
}

MOEGEN_DEVICE float bits_float(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(float, bits);
#else
  float value;
  asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
  return value;
#endif
}

/// Number of set bits.
MOEGEN_DEVICE uint32_t popcount(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t>(__builtin_popcount(bits));
#else
  uint32_t count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
  return count;
#endif
}

}  // namespace moegen

// ---- core/warp.cuh ---------------------------------------------------------------------------------------
// Warp-wide exchange. Every lane of the warp that exists and has not ended must take part; the others add nothing, and
// their values must not be asked for.


namespace moegen {

/// Orders shared and global memory accesses among the lanes of the warp.
MOEGEN_DEVICE void warp_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::warp_sync(kFullMask);
#else
  asm volatile("bar.warp.sync %0;" ::"r"(kFullMask) : "memory");
#endif
}

/// Mask of the lanes for which `predicate` holds.
MOEGEN_DEVICE uint32_t ballot(bool predicate) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::ballot(kFullMask, predicate);
#else
  return __ballot_sync(kFullMask, predicate);  // vote.sync.ballot: the predicate stays one, with no detour through asm
#endif
}

/// `value` of lane `lane` (modulo 32).
MOEGEN_DEVICE uint32_t shuffle(uint32_t value, uint32_t lane) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shuffle(kFullMask, value, lane);
#else
  uint32_t other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;" : "=r"(other) : "r"(value), "r"(lane), "r"(kFullMask));
  return other;
#endif
}

/// The same of a float.
MOEGEN_DEVICE float shuffle(float value, uint32_t lane) { return bits_float(shuffle(float_bits(value), lane)); }

/// `value` of the lane `delta` below; lanes without one get `fill`.
MOEGEN_DEVICE uint32_t shuffle_up(uint32_t value, uint32_t delta, uint32_t fill) {
#ifdef MOEGEN_TARGET_CPU
  const bool has_one = lane_index() >= delta;
  const uint32_t other = cpu::shuffle(kFullMask, value, has_one ? lane_index() - delta : lane_index());
  return has_one ? other : fill;
#else
  uint32_t other;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, %3;" : "=r"(other) : "r"(value), "r"(delta), "r"(kFullMask));
  return lane_index() >= delta ? other : fill;
#endif
}

/// `value` of the lane whose number differs in the bits `mask`.
MOEGEN_DEVICE uint32_t shuffle_xor(uint32_t value, uint32_t mask) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shuffle(kFullMask, value, lane_index() ^ mask);
#else
  uint32_t other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1F, %3;" : "=r"(other) : "r"(value), "r"(mask), "r"(kFullMask));
  return other;
#endif
}

/// Sum of `value` over the lanes. sm_80 up.
MOEGEN_DEVICE uint32_t warp_sum(uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::warp_sum(kFullMask, value);
#else
  uint32_t sum;
  asm volatile("redux.sync.add.u32 %0, %1, %2;" : "=r"(sum) : "r"(value), "r"(kFullMask));
  return sum;
#endif
}

/// Largest `value` of the lanes. sm_80 up.
MOEGEN_DEVICE uint32_t warp_max(uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::warp_max(kFullMask, value);
#else
  uint32_t largest;
  asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(largest) : "r"(value), "r"(kFullMask));
  return largest;
#endif
}

/// Largest `value` (not negative; a positive NaN is above all numbers) of the `Lanes` lanes, a power of two and aligned
/// to it, of which this is one. All lanes of the warp take part.
template <uint32_t Lanes>
MOEGEN_DEVICE float lanes_max(float value) {
  uint32_t bits = float_bits(value);  // floats that are not negative are ordered as their bits
  if constexpr (Lanes == kWarpSize) return bits_float(warp_max(bits));
#pragma unroll
  for (uint32_t distance = 1; distance < Lanes; distance *= 2) bits = max_of(bits, shuffle_xor(bits, distance));
  return bits_float(bits);
}

/// Bit mask of the lanes below this one.
MOEGEN_DEVICE uint32_t lanes_below() { return (1u << lane_index()) - 1u; }

}  // namespace moegen

// ---- create_indices/args.h -------------------------------------------------------------------------------
// Arguments of create_indices, shared by host and device.


namespace moegen::create_indices {

/// Groups P = num_pairs (token, slot) pairs by expert. E is the number of groups: the local experts of the config, then
/// its shared slots. Shapes: <moegen/shapes.hpp>.
/// All pointers are device memory; an output is written in full by every launch, also for P = 0.
struct Args {
  enum : int { kFamily = 2 };  ///< Family::tag

  const void* topk_ids;            ///< in  [P] ids dtype of the config; aligned to its element
  uint32_t* token_expert_order;    ///< out [order_capacity(P)] pair indices grouped by expert, 0xFFFFFFFF where unused
  uint32_t* expert_start_indices;  ///< out [E + 1] first row of each group, then the end
  uint32_t* restore_token_order;   ///< out [P] row of each pair, 0xFFFFFFFF for a dropped pair
  int32_t* expert_ids;             ///< out [E] local expert of each group, -1 past the last active one
  uint32_t* expert_usage_stats;    ///< out [2] {most tokens of one expert, number of experts with tokens}
  uint32_t* scales_offset;         ///< out [E] scale block offset of each group; null unless indices.scales_offset
  void* workspace;    ///< workspace_bytes(P) of device memory, zero before the first launch; may be null if 0
  int64_t num_pairs;  ///< P = num_tokens * slots, 0 .. 2^31 - 1
};

}  // namespace moegen::create_indices

// ---- create_indices/ids.cuh ------------------------------------------------------------------------------
// create_indices: expert ids as groups.


namespace moegen::create_indices {

/// Group of an expert id, or kNone for one that is masked, out of range, a zero expert or not local. Ids enter
/// unsigned, so that negative ones are out of range.
template <class P, class Unsigned>
MOEGEN_DEVICE uint32_t group_of(Unsigned id) {
  const Unsigned local = id - static_cast<Unsigned>(P::first_expert);
  if (local < static_cast<Unsigned>(P::num_local_experts)) return static_cast<uint32_t>(local);
  if constexpr (P::num_shared_slots > 0) {
    const Unsigned shared = id - static_cast<Unsigned>(P::first_shared_id);
    if (shared < static_cast<Unsigned>(P::num_shared_slots))
      return P::num_local_experts + static_cast<uint32_t>(shared);
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

}  // namespace moegen::create_indices

// ---- create_indices/kernel.cuh ---------------------------------------------------------------------------
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

// ---- create_indices/few.cuh ------------------------------------------------------------------------------
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

// ---- this kernel -----------------------------------------------------------------------------------------
namespace moegen {

/// What this kernel was specialised for.
struct Params {
  using id_dtype = int32_t;  // default: /indices/ids
  enum : uint32_t { num_experts = 256 };  // config: /num_experts
  enum : uint32_t { first_expert = 0 };  // default: /indices/first_expert
  enum : uint32_t { num_local_experts = 256 };  // default: /indices/num_local_experts
  enum : uint32_t { num_shared_slots = 0 };  // default: /router/shared_slots
  enum : uint32_t { first_shared_id = 256 };  // derived: shared slots follow the routed and the zero experts
  enum : bool { all_experts = false };  // default: /indices/experts
  enum : uint32_t { pad_rows_to = 1 };  // default: /indices/pad_rows_to
  enum : bool { scales_offset = false };  // default: /indices/scales_offset
  enum : uint32_t { num_groups = 256 };  // derived: local experts and shared slots
  enum : uint32_t { group_bits = 9 };  // derived: bits that tell the groups and the absence of one apart
  enum : uint32_t { num_warps = 32 };  // derived: a whole block: one private counter array a warp fits in shared memory
  enum : uint32_t { num_threads = 1024 };  // derived: 32 a warp
  enum : uint32_t { max_cluster = 16 };  // derived: the arch's largest cluster
  enum : uint32_t { groups_per_thread = 1 };  // derived: the scan over groups covers all of them
  enum : uint32_t { staged_rows = 4096 };  // derived: pairs that a block gathers by group before it writes them
  enum : uint32_t { shared_bytes = 84608 };  // derived: counters of each warp, the tables of a block, staged pairs
  enum : uint32_t { few_threads = 256 };  // derived: pairs and threads of the entry for few pairs
};

}  // namespace moegen

extern "C" __global__ void __launch_bounds__(1024, 1)
moegen_create_indices(const __grid_constant__ moegen::create_indices::Args args) {
  using namespace moegen;
  create_indices::run<Params>(args);
}

extern "C" __global__ void __launch_bounds__(256, 1)
moegen_create_indices_few(const __grid_constant__ moegen::create_indices::Args args) {
  using namespace moegen;
  create_indices::run_few<Params>(args);
}
