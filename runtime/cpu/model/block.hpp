// SPDX-License-Identifier: Apache-2.0
// Block: what the threads of one block share, and the blocks that are resident together with it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

/// A barrier of `bar.sync` / `bar.arrive`; 0 is the whole block's. Sixteen a block, as the hardware has.
struct NamedBarrier {
  std::uint32_t arrived = 0, expected = 0;
  WaitList waiters;
  std::vector<std::uint32_t> parties;  ///< threads that arrived; kept only where the launch is checked
};
inline constexpr std::uint32_t kNamedBarriers = 16;

/// The exchange of one warp: each lane leaves a value and takes all others'.
struct WarpExchange {
  std::uint32_t arrived = 0, mask = 0;
  Site site = 0;
  std::uint64_t values[32] = {};
  std::uint64_t results[2][32] = {};  ///< of the last two exchanges: a slow lane reads while fast ones leave new values
  std::uint32_t generation = 0;
  WaitList waiters;
};

struct Cohort;
struct AsyncState;

struct Block {
  Cohort* cohort = nullptr;
  std::uint32_t index = 0;         ///< linear index in the grid
  std::uint32_t cluster_rank = 0;  ///< in its cluster
  std::uint32_t num_threads = 0, live_threads = 0;
  char* shared = nullptr;          ///< 1024-byte aligned
  std::uint32_t shared_bytes = 0;  ///< static and dynamic together
  std::array<NamedBarrier, kNamedBarriers> barriers;
  std::vector<WarpExchange> warps;
  std::vector<Thread*> threads;
  std::shared_ptr<AsyncState> async;  ///< mbarriers, copies, tensor core work (async_state.hpp); null where a block starts

  /// Offset of `address` in this block's shared memory; true only inside it.
  bool holds(const void* address) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(shared);
    return at < shared_bytes;
  }
  std::uint32_t offset_of(const void* address) const noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address) -
                                      reinterpret_cast<std::uintptr_t>(shared));
  }
};

/// Blocks that are resident together: one block, the blocks of a cluster, or a whole cooperative grid.
struct Cohort {
  std::vector<std::unique_ptr<Block>> blocks;
  std::uint32_t cluster_size = 1;
  /// The block whose shared memory holds `address`; null if none.
  Block* block_of_shared(const void* address) const noexcept;
};

}  // namespace moegen::cpu
