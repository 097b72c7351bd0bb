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
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  ///< threads, as they say it; 0 = all that still run
  Site site = 0;               ///< of the last arrival
  std::uint32_t thread = 0;    ///< that arrived last
  bool released = false;       ///< a thread arrived without waiting
  WaitList waiters;
  std::vector<std::uint32_t> parties;  ///< threads that wait; kept only where the launch is checked
};
inline constexpr std::uint32_t kNamedBarriers = 16;

/// Results of one exchange. A slow lane reads them while fast ones leave new values elsewhere.
struct ExchangeResults {
  std::uint64_t values[33];   ///< the last: mask of the lanes that left theirs
  std::uint32_t readers = 0;  ///< lanes that may still read
};

/// The exchanges of one warp: each lane leaves a value and takes all others'. Lanes of disjoint masks do not meet.
struct WarpExchange {
  std::uint32_t arrived = 0;     ///< lanes that wait
  std::uint32_t pending = 0;     ///< all lanes that they wait for, and they
  std::uint32_t existing = 0;    ///< lanes that the block has
  std::uint32_t ended = 0;       ///< lanes that have ended
  std::uint32_t masks[32] = {};  ///< of the lanes that wait
  bool orders_memory[32] = {};   ///< whether a lane waits in warp_sync
  std::uint64_t values[32] = {};
  ExchangeResults* results[32] = {};  ///< of each lane's last exchange
  std::vector<std::unique_ptr<ExchangeResults>> pool;
};

/// The barrier of one cluster, whose threads arrive and wait in two steps.
struct Cluster {
  std::span<const std::unique_ptr<Block>> blocks;
  std::uint32_t live_threads = 0;
  std::uint32_t arrived = 0;  ///< of those that still run
  std::uint32_t phase = 0;
  WaitList waiters;
  char released[2] = {};  ///< what threads release to and acquire from, by parity of the phase
};

struct AsyncState;

struct Block {
  Cohort* cohort = nullptr;
  Cluster* cluster = nullptr;
  std::uint32_t index = 0;         ///< linear index in the grid
  std::uint32_t cluster_rank = 0;  ///< in its cluster
  std::uint32_t num_threads = 0, live_threads = 0;
  char* shared = nullptr;          ///< 1024-byte aligned
  std::uint32_t shared_bytes = 0;  ///< static and dynamic together
  std::array<NamedBarrier, kNamedBarriers> barriers;
  std::uint32_t uncounted_barriers = 0;  ///< mask of those where threads wait for all that still run
  std::vector<WarpExchange> warps;
  std::vector<Thread*> threads;
  std::shared_ptr<AsyncState>
      async;                   ///< mbarriers, copies, tensor core work (async_state.hpp); null where a block starts
  MoegenCpuContext context{};  ///< of its threads, but for what tells them apart

  /// Offset of `address` in this block's shared memory; true only inside it.
  bool holds(const void* address) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(shared);
    return at < shared_bytes;
  }
  std::uint32_t offset_of(const void* address) const noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address) -
                                      reinterpret_cast<std::uintptr_t>(shared));
  }
  bool ended() const noexcept { return live_threads == 0; }
};

/// What all blocks of a launch have alike.
struct BlockShape {
  MoegenCpuIndex block_dim, grid_dim;
  std::uint32_t num_threads = 0;
  std::uint32_t num_blocks = 0;  ///< of a cohort
  std::uint32_t cluster_size = 1;
  std::uint32_t shared_bytes = 0;
};

/// Blocks that are resident together: one block, the blocks of a cluster, or a whole cooperative grid. Its memory
/// serves one set of blocks after the other.
struct Cohort {
  explicit Cohort(const BlockShape& shape);
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;

  /// Makes it blocks [first_block, first_block + num_blocks) of the grid, none of whose threads has started.
  void reset(std::uint64_t first_block);

  BlockShape shape;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Cluster> clusters;
  std::uint32_t cluster_size = 1;
  /// The block whose shared memory holds `address`; null if none.
  Block* block_of_shared(const void* address) const noexcept;

 private:
  struct Free {
    void operator()(char* memory) const noexcept;
  };
  std::unique_ptr<Thread[]> threads_;
  std::unique_ptr<char, Free> arena_;
  std::size_t shared_stride_ = 0;
};

// What a thread's end does to those who wait for it (block_barrier.cpp, warp.cpp, cluster.cpp).
void leave_barriers(Scheduler& scheduler, Thread& thread);
void leave_warp(Scheduler& scheduler, Thread& thread);
void leave_cluster(Scheduler& scheduler, Thread& thread);

}  // namespace moegen::cpu
