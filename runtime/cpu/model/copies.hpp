// SPDX-License-Identifier: Apache-2.0
// Copies: what bulk, tensor and cp.async copies have in common: places in shared memory and groups.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cpu/model/actor.hpp"
#include "cpu/model/async_state.hpp"

namespace moegen::cpu {

/// The running thread's call, for messages about it.
struct Call {
  const char* operation;
  Site site;

  [[noreturn]] void fail(CpuFinding finding, std::string what) const;
  void require(bool holds, const char* fact) const {
    if (!holds) fail(CpuFinding::misuse, std::string(operation) + ": " + fact);
  }
  /// `address` is a multiple of `alignment`.
  void require_aligned(const void* address, std::uint32_t alignment, const char* which) const;
};

/// A range of some resident block's shared memory.
struct SharedRange {
  Block* block = nullptr;
  std::uint32_t offset = 0;
  char* data() const noexcept { return block->shared + offset; }
};

/// The range [address, address + bytes) of a resident block. Fails where it is in none.
SharedRange find_shared(const void* address, std::uint32_t bytes, const Call& call);
/// The same in the running thread's own block.
SharedRange find_own_shared(const void* address, std::uint32_t bytes, const Call& call);

/// The group that the running thread's next copy belongs to. `which` is AsyncState::bulk or ::copies.
CopyGroups& groups_of_running(std::vector<CopyGroups> AsyncState::* which);
std::shared_ptr<CopyGroup> open_group(CopyGroups& groups);

/// Ends a group; waits until at most `pending` are unfinished (read = true: unread).
void commit_group(CopyGroups& groups);
void wait_for_groups(CopyGroups& groups, std::uint32_t pending, bool read, const Wait& wait);

}  // namespace moegen::cpu
