// SPDX-License-Identifier: Apache-2.0
// bar.sync and bar.arrive: the sixteen barriers of a block.
#include <algorithm>
#include <bit>

#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"

namespace moegen::cpu {
namespace {

std::uint32_t whole_warps(std::uint32_t threads) { return (threads + 31) / 32 * 32; }

std::uint32_t needed(const Block& block, const NamedBarrier& barrier) {
  return barrier.expected == 0 ? block.live_threads : barrier.expected;
}

std::string describe(const Thread& thread) {
  const Block& block = *thread.block;
  const NamedBarrier& barrier = block.barriers[thread.wait.object];
  return fmt::format("bar.sync {} ({} of {} arrived)", thread.wait.object, barrier.arrived, needed(block, barrier));
}

/// Threads that an arrival counts for: barriers count whole warps, so lanes that the block lacks arrive with lane 0.
std::uint32_t weight(const Thread& thread, const NamedBarrier& barrier) {
  const std::uint32_t threads = thread.block->num_threads;
  const bool lacks_lanes = barrier.expected != 0 && thread.lane() == 0 && thread.index + 32 > threads;
  return lacks_lanes ? 1 + (whole_warps(threads) - threads) : 1;
}

void complete(Scheduler& scheduler, Block& block, NamedBarrier& barrier, std::uint32_t number) {
  if (Checker* const checker = scheduler.checker()) {
    checker->join(block, barrier.parties);
    if (barrier.released) {
      for (const std::uint32_t index : barrier.parties) checker->acquire(*block.threads[index], &barrier);
      checker->forget(&barrier);
    }
    barrier.parties.clear();
  }
  barrier.arrived = barrier.expected = 0;
  barrier.released = false;
  block.uncounted_barriers &= ~(1u << number);
  scheduler.wake_all(barrier.waiters);
}

// What is refused is put into words apart from Scheduler::fail: that does not return, and so destroys nothing here.
std::string why_not(const Block& block, const char* operation, std::uint32_t number, std::uint32_t threads) {
  if (number >= kNamedBarriers) {
    return fmt::format("{} {}: a block has {} barriers, 0 to {}", operation, number, kNamedBarriers,
                       kNamedBarriers - 1);
  }
  if (threads % 32 != 0) return fmt::format("{} {}: {} threads is not a multiple of 32", operation, number, threads);
  return fmt::format("{} {}: {} threads, but the block has {}", operation, number, threads, block.num_threads);
}

[[noreturn, gnu::noinline]] void refuse_number(Scheduler& scheduler, const char* operation, std::uint32_t number,
                                               std::uint32_t threads, Site site) {
  const Block& block = *scheduler.running().block;
  scheduler.fail(CpuFinding::misuse, why_not(block, operation, number, threads), site, operation);
}

void check_number(Scheduler& scheduler, const char* operation, std::uint32_t number, std::uint32_t threads, Site site) {
  const bool right =
      number < kNamedBarriers && threads % 32 == 0 && threads <= whole_warps(scheduler.running().block->num_threads);
  if (!right) refuse_number(scheduler, operation, number, threads, site);
}

/// The threads that a count stands for.
std::uint32_t counted(const Block& block, std::uint32_t threads) {
  return threads == 0 ? whole_warps(block.num_threads) : threads;
}

[[noreturn, gnu::noinline]] void refuse_count(Scheduler& scheduler, const char* operation, std::uint32_t number,
                                              std::uint32_t threads, Site site) {
  const Block& block = *scheduler.running().block;
  const NamedBarrier& barrier = block.barriers[number];
  CpuReport report{.finding = CpuFinding::misuse,
                   .what = fmt::format("{} {}: {} threads here, {} elsewhere", operation, number,
                                       counted(block, threads), counted(block, barrier.expected)),
                   .parties = {},
                   .repeats = 0};
  report.parties.push_back(scheduler.party(scheduler.running(), fmt::format("{} {}", operation, number), site));
  report.parties.push_back(
      scheduler.party(*block.threads[barrier.thread], fmt::format("arrived at barrier {}", number), barrier.site));
  scheduler.fail(std::move(report));
}

/// All arrivals of one phase must say the same count.
void check_count(Scheduler& scheduler, const char* operation, std::uint32_t number, std::uint32_t threads, Site site) {
  const Block& block = *scheduler.running().block;
  const NamedBarrier& barrier = block.barriers[number];
  if (barrier.arrived == 0 || barrier.expected == threads) return;
  if (counted(block, barrier.expected) != counted(block, threads)) {
    refuse_count(scheduler, operation, number, threads, site);
  }
}

/// True if this arrival was the last.
bool arrive(Scheduler& scheduler, Thread& thread, std::uint32_t number, std::uint32_t threads, Site site) {
  Block& block = *thread.block;
  NamedBarrier& barrier = block.barriers[number];
  if (barrier.arrived == 0) {
    barrier.expected = threads;
    if (threads == 0) block.uncounted_barriers |= 1u << number;
  }
  barrier.arrived += weight(thread, barrier);
  barrier.site = site;
  barrier.thread = thread.index;
  if (barrier.arrived < needed(block, barrier)) return false;
  complete(scheduler, block, barrier, number);
  return true;
}

}  // namespace

void leave_barriers(Scheduler& scheduler, Thread& thread) {
  Block& block = *thread.block;
  for (std::uint32_t left = block.uncounted_barriers; left != 0; left &= left - 1) {
    const auto number = static_cast<std::uint32_t>(std::countr_zero(left));
    NamedBarrier& barrier = block.barriers[number];
    if (barrier.arrived >= block.live_threads) complete(scheduler, block, barrier, number);
  }
}

}  // namespace moegen::cpu

using moegen::CpuFinding;
using namespace moegen::cpu;

void moegen_cpu_block_sync(unsigned barrier, unsigned threads, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  check_number(scheduler, "bar.sync", barrier, threads, site);
  check_count(scheduler, "bar.sync", barrier, threads, site);
  Thread& self = scheduler.running();
  NamedBarrier& at = self.block->barriers[barrier];
  if (scheduler.checker() != nullptr) at.parties.push_back(self.index);
  if (arrive(scheduler, self, barrier, threads, site)) return;
  scheduler.park(at.waiters,
                 {.operation = "bar.sync", .object = barrier, .detail = threads, .site = site, .describe = describe});
}

void moegen_cpu_block_arrive(unsigned barrier, unsigned threads, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  check_number(scheduler, "bar.arrive", barrier, threads, site);
  Thread& self = scheduler.running();
  self.site = site;
  if (threads == 0) {
    scheduler.fail(CpuFinding::misuse, fmt::format("bar.arrive {}: without a number of threads", barrier), site,
                   "bar.arrive");
  }
  check_count(scheduler, "bar.arrive", barrier, threads, site);
  NamedBarrier& at = self.block->barriers[barrier];
  if (Checker* const checker = scheduler.checker()) {
    checker->release(self, &at);
    at.released = true;
  }
  arrive(scheduler, self, barrier, threads, site);
}
