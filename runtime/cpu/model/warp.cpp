// SPDX-License-Identifier: Apache-2.0
// Warp-wide exchange: what shuffles, votes and reductions are made of, and __syncwarp.
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/deadlock.hpp"

namespace moegen::cpu {
namespace {

/// What lanes outside the mask seem to have left.
constexpr std::uint64_t kNoValue = 0xA5A5A5A5A5A5A5A5u;

template <class Function>
void for_each_lane(std::uint32_t lanes, Function&& function) {
  for (; lanes != 0; lanes &= lanes - 1) function(static_cast<std::uint32_t>(std::countr_zero(lanes)));
}

std::string lanes_text(std::uint32_t lanes) {
  std::vector<std::uint32_t> numbers;
  for_each_lane(lanes, [&](std::uint32_t lane) { numbers.push_back(lane); });
  return fmt::format("{} {}", numbers.size() == 1 ? "lane" : "lanes", ranges(numbers));
}

const char* name(bool orders_memory) { return orders_memory ? "warp sync" : "warp exchange"; }

Thread& lane_of(const Thread& thread, std::uint32_t lane) {
  return *thread.block->threads[thread.index - thread.lane() + lane];
}

WarpExchange& warp_of(const Thread& thread) { return thread.block->warps[thread.warp()]; }

/// Lanes that those of `mask` wait for: CUDA asks for those that exist and have not ended.
std::uint32_t awaited(const WarpExchange& warp, std::uint32_t mask) { return mask & warp.existing & ~warp.ended; }

/// Why `lane` left no value in an exchange of `mask`.
const char* reason_of_absence(const WarpExchange& warp, std::uint32_t mask, std::uint32_t lane) {
  if ((warp.existing >> lane & 1) == 0) return "which the block does not have";
  return (mask >> lane & 1) == 0 ? "which is not in the mask" : "which has ended";
}

[[noreturn]] void fail_absent(std::uint32_t mask, std::uint32_t lane, Site site) {
  Scheduler& scheduler = Scheduler::current();
  const char* const why = reason_of_absence(warp_of(scheduler.running()), mask, lane);
  scheduler.fail(CpuFinding::divergence, fmt::format("warp shuffle, mask {:#x}, from lane {}, {}", mask, lane, why),
                 site, "warp shuffle");
}

std::string describe(const Thread& thread) {
  const WarpExchange& warp = warp_of(thread);
  const std::uint32_t mask = warp.masks[thread.lane()];
  return fmt::format("{}, mask {:#x}, {} missing", thread.wait.operation, mask,
                     lanes_text(awaited(warp, mask) & ~warp.arrived));
}

CpuReport divergence(std::string what) {
  return {.finding = CpuFinding::divergence, .what = std::move(what), .parties = {}, .repeats = 0};
}

[[noreturn]] void fail_mismatch(Scheduler& scheduler, const Thread& self, const Thread& other, std::uint32_t mask,
                                bool orders_memory, Site site) {
  const WarpExchange& warp = warp_of(self);
  const std::uint32_t other_mask = warp.masks[other.lane()];
  const bool other_orders = warp.orders_memory[other.lane()];
  CpuReport report = divergence(
      mask != other_mask ? fmt::format("lanes of a warp meet with different masks, {:#x} and {:#x}", mask, other_mask)
                         : std::string("lanes of a warp meet in different operations"));
  report.parties.push_back(scheduler.party(self, fmt::format("{}, mask {:#x}", name(orders_memory), mask), site));
  report.parties.push_back(
      scheduler.party(other, fmt::format("{}, mask {:#x}", name(other_orders), other_mask), other.wait.site));
  scheduler.fail(std::move(report));
}

/// Lanes that wait have disjoint masks or equal ones; so must this one.
void check_masks(Scheduler& scheduler, const Thread& self, std::uint32_t mask, bool orders_memory, Site site) {
  const WarpExchange& warp = warp_of(self);
  const auto other = [&](std::uint32_t lanes) -> Thread& {
    return lane_of(self, static_cast<std::uint32_t>(std::countr_zero(lanes)));
  };
  if ((mask >> self.lane() & 1) == 0) {
    scheduler.fail(
        CpuFinding::divergence,
        fmt::format("{}, mask {:#x}: lane {} takes part and is not in it", name(orders_memory), mask, self.lane()),
        site, name(orders_memory));
  }
  if ((warp.pending & mask) == 0) return;
  const std::uint32_t met = warp.arrived & mask;
  if (met != 0) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(met));
    if (warp.masks[lane] == mask && warp.orders_memory[lane] == orders_memory) return;
    fail_mismatch(scheduler, self, other(met), mask, orders_memory, site);
  }
  for_each_lane(warp.arrived, [&](std::uint32_t lane) {
    if ((warp.masks[lane] & mask) != 0) fail_mismatch(scheduler, self, lane_of(self, lane), mask, orders_memory, site);
  });
}

ExchangeResults& free_results(WarpExchange& warp) {
  for (const auto& results : warp.pool) {
    if (results->readers == 0) return *results;
  }
  return *warp.pool.emplace_back(std::make_unique<ExchangeResults>());
}

void complete(Scheduler& scheduler, Thread& self, WarpExchange& warp, std::uint32_t lanes, std::uint32_t mask) {
  ExchangeResults& results = free_results(warp);
  std::memcpy(results.values, warp.values, sizeof warp.values);
  results.values[32] = lanes;
  for_each_lane(~lanes, [&](std::uint32_t lane) { results.values[lane] = kNoValue; });
  results.readers = lanes;
  warp.arrived &= ~lanes;
  warp.pending &= ~mask;
  for_each_lane(lanes, [&](std::uint32_t lane) {
    warp.results[lane] = &results;
    if (lane != self.lane()) scheduler.wake(lane_of(self, lane));
  });
}

void join_lanes(Checker& checker, const Thread& self, std::uint32_t lanes) {
  std::uint32_t indices[32];
  std::size_t count = 0;
  for_each_lane(lanes, [&](std::uint32_t lane) { indices[count++] = self.index - self.lane() + lane; });
  checker.join(*self.block, std::span(indices, count));
}

/// Completes the operation of the lanes of `mask` if all that are waited for are there.
bool meet(Scheduler& scheduler, Thread& self, std::uint32_t mask, bool orders_memory) {
  WarpExchange& warp = warp_of(self);
  const std::uint32_t lanes = awaited(warp, mask);
  if ((warp.arrived & lanes) != lanes) return false;
  if (orders_memory && scheduler.checker() != nullptr) join_lanes(*scheduler.checker(), self, lanes);
  complete(scheduler, self, warp, lanes, mask);
  return true;
}

const std::uint64_t* exchange(std::uint32_t mask, std::uint64_t value, bool orders_memory, Site site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Thread& self = scheduler.running();
  WarpExchange& warp = warp_of(self);
  const std::uint32_t lane = self.lane();
  if (ExchangeResults* const last = warp.results[lane]) last->readers &= ~(1u << lane);
  check_masks(scheduler, self, mask, orders_memory, site);
  warp.values[lane] = value;
  warp.masks[lane] = mask;
  warp.orders_memory[lane] = orders_memory;
  warp.arrived |= 1u << lane;
  warp.pending |= mask;
  if (!meet(scheduler, self, mask, orders_memory)) {
    scheduler.park({.operation = name(orders_memory), .object = mask, .detail = 0, .site = site, .describe = describe});
  }
  return warp.results[lane]->values;
}

}  // namespace

void leave_warp(Scheduler& scheduler, Thread& thread) {
  WarpExchange& warp = warp_of(thread);
  warp.ended |= 1u << thread.lane();
  if (ExchangeResults* const last = warp.results[thread.lane()]) last->readers &= ~(1u << thread.lane());
  if ((warp.pending >> thread.lane() & 1) == 0) return;
  std::uint32_t waiters = warp.arrived;
  while ((warp.masks[std::countr_zero(waiters)] >> thread.lane() & 1) == 0) waiters &= waiters - 1;
  const int waiter = std::countr_zero(waiters);
  meet(scheduler, thread, warp.masks[waiter], warp.orders_memory[waiter]);
}

}  // namespace moegen::cpu

const unsigned long* moegen_cpu_warp_exchange(unsigned mask, unsigned long value, unsigned site) {
  return moegen::cpu::exchange(mask, value, false, site);
}

void moegen_cpu_warp_sync(unsigned mask, unsigned site) { moegen::cpu::exchange(mask, 0, true, site); }

void moegen_cpu_warp_absent(unsigned mask, unsigned lane, unsigned site) { moegen::cpu::fail_absent(mask, lane, site); }
