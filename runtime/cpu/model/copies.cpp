// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/copies.hpp"

#include <fmt/core.h>

namespace moegen::cpu {
namespace {

bool is_done(const CopyGroup& group, bool read) {
  return read ? group.unread == 0 : group.unread + group.unwritten == 0;
}

/// How many of the committed groups must be done so that at most `pending` are not.
std::size_t num_awaited(const CopyGroups& groups, std::uint32_t pending) {
  return groups.committed.size() > pending ? groups.committed.size() - pending : 0;
}

bool all_done(const CopyGroups& groups, std::size_t count, bool read) {
  for (std::size_t i = 0; i < count; ++i)
    if (!is_done(*groups.committed[i], read)) return false;
  return true;
}

void acquire_groups(const CopyGroups& groups, std::size_t count, bool read) {
  Scheduler& scheduler = Scheduler::current();
  Checker* checker = scheduler.checker();
  if (!checker) return;
  for (std::size_t i = 0; i < count; ++i) {
    checker->acquire(scheduler.running(), &groups.committed[i]->read);
    if (!read) checker->acquire(scheduler.running(), &groups.committed[i]->written);
  }
}

}  // namespace

void Call::fail(CpuFinding finding, std::string what) const {
  Scheduler::current().fail(finding, std::move(what), site, operation);
}

void Call::require_aligned(const void* address, std::uint32_t alignment, const char* which) const {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0)
    fail(CpuFinding::misaligned,
         fmt::format("{}: the {} address {} is not a multiple of {}", operation, which, address, alignment));
}

SharedRange find_shared(const void* address, std::uint32_t bytes, const Call& call) {
  Block& own = *Scheduler::current().running().block;
  Block* block = own.holds(address) ? &own : own.cohort->block_of_shared(address);
  if (!block)
    call.fail(CpuFinding::out_of_bounds,
              fmt::format("{}: [{}, +{:#x}) is not in shared memory", call.operation, address, bytes));
  const std::uint32_t offset = block->offset_of(address);
  if (bytes > block->shared_bytes - offset)
    call.fail(CpuFinding::out_of_bounds,
              fmt::format("{}: {} bytes at shared+{:#x} pass the end of shared memory at {:#x}", call.operation, bytes,
                          offset, block->shared_bytes));
  return {block, offset};
}

SharedRange find_own_shared(const void* address, std::uint32_t bytes, const Call& call) {
  const SharedRange range = find_shared(address, bytes, call);
  call.require(range.block == Scheduler::current().running().block, "the tile is in another block's shared memory");
  return range;
}

CopyGroups& groups_of_running(std::vector<CopyGroups> AsyncState::* which) {
  const Thread& thread = Scheduler::current().running();
  auto& groups = async_state(*thread.block).*which;
  if (groups.empty()) groups.resize(thread.block->num_threads);
  return groups[thread.index];
}

std::shared_ptr<CopyGroup> open_group(CopyGroups& groups) {
  if (!groups.open) {
    groups.open = std::make_shared<CopyGroup>();
    if (Checker* checker = Scheduler::current().checker())
      for (const char* object : {&groups.open->read, &groups.open->written}) checker->forget(object);
  }
  return groups.open;
}

void commit_group(CopyGroups& groups) {
  groups.committed.push_back(open_group(groups));
  groups.open = nullptr;
}

void wait_for_groups(CopyGroups& groups, std::uint32_t pending, bool read, const Wait& wait) {
  const std::size_t count = num_awaited(groups, pending);
  while (!all_done(groups, count, read)) Scheduler::current().park(groups.waiter, wait);
  acquire_groups(groups, count, read);
  if (!read)
    groups.committed.erase(groups.committed.begin(), groups.committed.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace moegen::cpu
