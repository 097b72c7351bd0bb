// SPDX-License-Identifier: Apache-2.0
// AsyncState: what a block has of mbarriers, copies in flight and tensor core work; hung onto Block at first use.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cpu/model/block.hpp"
#include "cpu/model/mbarrier.hpp"
#include "cpu/model/warp_matrix.hpp"
#include "cpu/model/warpgroup.hpp"

namespace moegen::cpu {

/// Copies that a thread waits for together. The addresses of its members are what the checks know it by.
struct CopyGroup {
  std::uint32_t unread = 0;     ///< copies whose source is still to be read
  std::uint32_t unwritten = 0;  ///< copies that are still to be written
  char read = 0, written = 0;
};

/// What a thread copies by cp.async between two arrivals (copy_async.cpp).
struct CopyBatch;

/// The groups of one thread: of cp.async, or of bulk stores.
struct CopyGroups {
  std::shared_ptr<CopyGroup> open;  ///< null until something was issued
  std::deque<std::shared_ptr<CopyGroup>> committed;
  std::deque<std::shared_ptr<CopyBatch>> batches;  ///< of cp.async: those with an arrival to come, then the open one
  WaitList waiter;
};

struct AsyncState {
  std::unordered_map<std::uint32_t, Mbarrier> mbarriers;  ///< by offset in the block's shared memory
  std::vector<CopyGroups> bulk, copies;                   ///< by thread; empty until used
  std::vector<std::unique_ptr<Warpgroup>> warpgroups;
  std::vector<WarpMatrix> warps;
};

/// Of `block`, made if it has none.
AsyncState& async_state(Block& block);

}  // namespace moegen::cpu
