// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, shared memory of a block and the ring of stages that its warps pass through.
//
// Shared memory, in this order:
//   tiles    [stages] of weight_rows x 128 bytes of b, then max_tokens x 128 bytes of a, 128-byte swizzle
//   staging  [warpgroups] of the rows of c on their way out
//   scales   [stages] block128 only: a factor for each token (gate's and up's apart), or with tokens on M and several
//            scales of weights a scale for each token, then those of the weights; mxfp8: MxScales of mx_scales.cuh
//   tiles'   [stages] Tile, valid in the stage with which a tile begins
//   full, empty [stages] barriers
//   notes    [multiplying warps] with tokens on M: the warp's Tile, until its sum is done
//   queue    [kQueuePlaces] Deal, where tiles are dealt (deal.cuh): those that this block has not begun
//   rows     [32] words of the warp that deals: rows of the groups that follow
//   free_at  [kDealTimes] lists of kMostWorkers bytes, of the same warp
//   dealt, taken [kQueuePlaces] barriers
//
// full[s]:  1 arrival of the loading thread with the bytes of its copies, 1 of each warp that brings scales, 1 of the
//           copies of each thread that gathers tokens.
// empty[s]: 1 arrival of each multiplying warp of every block of the cluster.
// dealt[q]: 1 arrival of the warp that deals. taken[q]: 1 of each warp that loads.
// Loaders wait for empty with the opposite parity, so that their first round through the ring waits for nothing.
#pragma once

#include "../core/mbarrier.cuh"
#include "../core/shared.cuh"
#include "../core/shared_address.cuh"
#include "../core/thread.cuh"
#include "../core/types.cuh"
#include "tile.cuh"

namespace moegen::grouped_matmul {

enum : uint32_t {
  kSliceBytes = 128,  // of K in a stage: the widest swizzle
  kWarpgroupThreads = 128,
  kWarpgroupRows = 64,  // of one wgmma
  kQueuePlaces = 4,     // deals that wait for a warp that loads
  kMostWorkers = 160,   // clusters that tiles are dealt to: sm_90a has up to 132 multiprocessors
  kDealTimes = 8,       // for which the warp that deals keeps a list of clusters
};

/// A stage, and the parity of the round through all stages.
template <class T>
struct Ring {
  uint32_t stage = 0, parity = 0;
  MOEGEN_DEVICE void next() {
    stage = stage + 1 == T::stages ? 0 : stage + 1;
    parity ^= stage == 0 ? 1 : 0;
  }
};

/// Tiles that a block is to multiply: `joined_tiles` units of columns, from `unit` on (of the cluster's, which blocks
/// of one share), of a token tile of a group. No rows a tile: the end.
struct alignas(16) Deal {
  uint32_t group, tile, unit, step;  // step: rows of the group's tiles but the last
};

/// A place of the queue of deals, and the parity of the round through all of them.
struct QueueRing {
  uint32_t turn = 0;
  MOEGEN_DEVICE uint32_t place() const { return turn % kQueuePlaces; }
  MOEGEN_DEVICE uint32_t parity() const { return turn / kQueuePlaces % 2; }
  MOEGEN_DEVICE void next() { ++turn; }
};

/// Stages of a tile without an expert, with nothing in them: all of them where tiles begin at stage 0.
template <class T>
constexpr uint32_t kEmptySlices = T::aligned ? T::stages : 1;

/// Arrivals at a full stage.
template <class P, class T>
MOEGEN_DEVICE constexpr uint32_t count_loaders() {
  if constexpr (P::gather_a)
    return 1 + T::scale_warps + T::gather_warps * kWarpSize;
  else
    return 1 + T::scale_warps;
}

template <class P, class T>
struct Layout {
  enum : uint32_t {
    weight_bytes = T::weight_rows * kSliceBytes,
    stage_bytes = weight_bytes + T::max_tokens * kSliceBytes,
    scale_bytes = P::block_scales || P::mx_scales ? T::scale_floats * 4 : 0,
    staging = T::stages * stage_bytes,
    scales = staging + T::warpgroups * T::staging_bytes,
    infos = scales + T::stages * scale_bytes,
    full = infos + T::stages * sizeof(Tile),
    empty = full + T::stages * 8,
    notes = empty + T::stages * 8,
    queue = notes + (T::tokens_on_m ? T::warpgroups * kWarpgroupThreads / kWarpSize * sizeof(Tile) : 0),
    group_rows = queue + (T::dealt ? kQueuePlaces * sizeof(Deal) : 0),
    free_at = group_rows + (T::dealt ? kWarpSize * 4 : 0),
    dealt = free_at + (T::dealt ? kDealTimes * kMostWorkers : 0),
    taken = dealt + (T::dealt ? kQueuePlaces * 8 : 0),
    total = taken + (T::dealt ? kQueuePlaces * 8 : 0),
  };
};

/// The block's shared memory by its parts.
template <class P, class T>
struct Shared {
  using L = Layout<P, T>;
  unsigned char* base;

  MOEGEN_DEVICE unsigned char* weights(uint32_t stage) const { return base + stage * L::stage_bytes; }
  MOEGEN_DEVICE unsigned char* tokens(uint32_t stage) const { return weights(stage) + L::weight_bytes; }
  MOEGEN_DEVICE unsigned char* staging(uint32_t warpgroup) const {
    return base + L::staging + warpgroup * T::staging_bytes;
  }
  MOEGEN_DEVICE float* scales(uint32_t stage) const {
    return reinterpret_cast<float*>(base + L::scales + stage * L::scale_bytes);
  }
  MOEGEN_DEVICE Tile& tile(uint32_t stage) const { return reinterpret_cast<Tile*>(base + L::infos)[stage]; }
  /// This multiplying warp's.
  MOEGEN_DEVICE Tile& note() const {
    return reinterpret_cast<Tile*>(base + L::notes)[warp_index() - kWarpgroupThreads / kWarpSize];
  }
  MOEGEN_DEVICE Deal& deal(uint32_t place) const { return reinterpret_cast<Deal*>(base + L::queue)[place]; }
  MOEGEN_DEVICE uint32_t* group_rows() const { return reinterpret_cast<uint32_t*>(base + L::group_rows); }
  MOEGEN_DEVICE unsigned char* free_at() const { return base + L::free_at; }
  MOEGEN_DEVICE uint64_t* dealt(uint32_t place) const { return reinterpret_cast<uint64_t*>(base + L::dealt) + place; }
  MOEGEN_DEVICE uint64_t* taken(uint32_t place) const { return reinterpret_cast<uint64_t*>(base + L::taken) + place; }
  MOEGEN_DEVICE uint64_t* full(uint32_t stage) const { return reinterpret_cast<uint64_t*>(base + L::full) + stage; }
  MOEGEN_DEVICE uint64_t* empty(uint32_t stage) const { return reinterpret_cast<uint64_t*>(base + L::empty) + stage; }
};

/// Makes the barriers; a barrier of the block or cluster must follow.
template <class P, class T>
MOEGEN_DEVICE void init_barriers(const Shared<P, T>& shared) {
  if (thread_index() != 0) return;
  for (uint32_t stage = 0; stage < T::stages; ++stage) {
    mbarrier_init(shared.full(stage), count_loaders<P, T>());
    mbarrier_init(shared.empty(stage), T::warpgroups * kWarpgroupThreads / kWarpSize * T::cluster);
  }
  if constexpr (T::dealt) {
    for (uint32_t place = 0; place < kQueuePlaces; ++place) {
      mbarrier_init(shared.dealt(place), 1);
      mbarrier_init(shared.taken(place), 1 + T::scale_warps);
    }
  }
  mbarrier_fence_init();
}

/// Gives a stage back to the loaders, as far as this warp goes.
template <class P, class T>
MOEGEN_DEVICE void release_stage(const Shared<P, T>& shared, uint32_t stage) {
  if constexpr (T::cluster == 1) {
    if (lane_index() == 0) mbarrier_arrive(shared.empty(stage));
  } else {
    if (lane_index() < T::cluster) mbarrier_arrive_remote(shared.empty(stage), lane_index());
  }
}

}  // namespace moegen::grouped_matmul
