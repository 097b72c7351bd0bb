// SPDX-License-Identifier: Apache-2.0
// Atomic operations, waits on words, fences. Blocks may run on several threads of the host, so the operations are the
// host's own; the order that kernels ask for matters to the checks alone.
#include <algorithm>

#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/address.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/word.hpp"

namespace moegen::cpu {
namespace {

Scope scope_of(std::uint32_t order) { return static_cast<Scope>(order >> 8 & 3); }

struct Change {
  std::uint64_t before = 0;
  bool changed = false;
};

/// Operations that the host has no instruction for.
template <class Word, class Function>
Change update(Word* word, Function&& function) {
  Word before = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  Word after = function(before);
  while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    after = function(before);
  }
  return {before, before != after};
}

template <class Word>
Change compare_exchange(Word* word, Word compare, Word operand) {
  Word before = compare;
  const bool done = __atomic_compare_exchange_n(word, &before, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return {before, done && before != operand};
}

template <class Word>
Change apply(Word* word, std::uint32_t operation, Word operand, Word compare) {
  constexpr int kOrder = __ATOMIC_SEQ_CST;
  const auto change = [](Word before, Word after) { return Change{before, before != after}; };
  Word before = 0;
  switch (operation) {
    case MOEGEN_CPU_ATOMIC_ADD: return {__atomic_fetch_add(word, operand, kOrder), operand != 0};
    case MOEGEN_CPU_ATOMIC_MIN: return update(word, [&](Word old) { return std::min(old, operand); });
    case MOEGEN_CPU_ATOMIC_MAX: return update(word, [&](Word old) { return std::max(old, operand); });
    case MOEGEN_CPU_ATOMIC_AND:
      before = __atomic_fetch_and(word, operand, kOrder);
      return change(before, before & operand);
    case MOEGEN_CPU_ATOMIC_OR:
      before = __atomic_fetch_or(word, operand, kOrder);
      return change(before, before | operand);
    case MOEGEN_CPU_ATOMIC_XOR: return {__atomic_fetch_xor(word, operand, kOrder), operand != 0};
    case MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE: return compare_exchange(word, compare, operand);
    case MOEGEN_CPU_ATOMIC_LOAD: return {__atomic_load_n(word, kOrder), false};
    default:  // exchange, store
      before = __atomic_exchange_n(word, operand, kOrder);
      return change(before, operand);
  }
}

Change apply(void* word, std::uint32_t bytes, std::uint32_t operation, std::uint64_t operand, std::uint64_t compare) {
  if (bytes == 8) return apply(static_cast<std::uint64_t*>(word), operation, operand, compare);
  return apply(static_cast<std::uint32_t*>(word), operation, static_cast<std::uint32_t>(operand),
               static_cast<std::uint32_t>(compare));
}

Access kind_of(std::uint32_t operation) {
  switch (operation) {
    case MOEGEN_CPU_ATOMIC_LOAD: return Access::atomic_load;
    case MOEGEN_CPU_ATOMIC_STORE: return Access::atomic_store;
    default: return Access::atomic;
  }
}

std::string misaligned(const Scheduler& scheduler, const Block& block, const void* word, std::uint32_t bytes) {
  return fmt::format("{} is no multiple of {}", name_address(scheduler, block, word), bytes);
}

/// Bounds, alignment and races, before the word is touched.
void check_word(Scheduler& scheduler, Thread& self, const void* word, std::uint32_t bytes, std::uint32_t operation,
                std::uint32_t order, Site site, const char* action) {
  check_resident(scheduler, word, site, action);
  if (Checker* const checker = scheduler.checker()) {
    checker->access(self, word, bytes, bytes, kind_of(operation), scope_of(order), site);
  } else if (reinterpret_cast<std::uintptr_t>(word) % bytes != 0) {
    scheduler.fail(CpuFinding::misaligned, misaligned(scheduler, *self.block, word, bytes), site, action);
  }
}

/// Whether the operation, which found `before`, wrote the word.
bool wrote(std::uint32_t operation, std::uint64_t before, std::uint64_t compare) {
  return operation != MOEGEN_CPU_ATOMIC_LOAD && (operation != MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE || before == compare);
}

/// Nothing else of a checked launch runs between the operation and this.
void order_memory(Checker& checker, Thread& self, const void* word, std::uint32_t order, bool reads, bool writes) {
  if (writes && (order & MOEGEN_CPU_RELEASE) != 0) checker.release(self, word);
  if (reads && (order & MOEGEN_CPU_ACQUIRE) != 0) checker.acquire(self, word);
}

std::string describe(const Thread& thread) {
  const Scheduler& scheduler = Scheduler::current();
  const auto* const word = reinterpret_cast<const void*>(thread.wait.object);
  const auto watch = std::ranges::find(scheduler.watches(), &thread, &Watch::thread);
  const std::uint32_t bytes = watch == scheduler.watches().end() ? 4 : watch->bytes;
  return fmt::format("the word {} to become at least {}, is {}", name_address(scheduler, *thread.block, word),
                     thread.wait.detail, load_word(word, bytes));
}

}  // namespace
}  // namespace moegen::cpu

using namespace moegen::cpu;

unsigned long moegen_cpu_atomic(void* word, unsigned bytes, unsigned operation, unsigned long operand,
                                unsigned long compare, unsigned order, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Thread& self = scheduler.running();
  self.site = site;
  check_word(scheduler, self, word, bytes, operation, order, site, "an atomic operation");
  const Change change = apply(word, bytes, operation, operand, compare);
  if (Checker* const checker = scheduler.checker()) {
    order_memory(*checker, self, word, order, operation != MOEGEN_CPU_ATOMIC_STORE,
                 wrote(operation, change.before, compare));
  }
  if (change.changed) {
    scheduler.word_changed(word);
  } else {
    scheduler.yield();  // it may ask in a loop
  }
  return change.before;
}

void moegen_cpu_wait_at_least(const void* word, unsigned bytes, unsigned long least, unsigned order, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Thread& self = scheduler.running();
  self.site = site;
  check_word(scheduler, self, word, bytes, MOEGEN_CPU_ATOMIC_LOAD, order, site, "a wait for a word");
  while (load_word(word, bytes) < least) {
    scheduler.park_on_word({.word = word, .bytes = bytes, .least = least},
                           {.operation = "a word",
                            .object = reinterpret_cast<std::uintptr_t>(word),
                            .detail = least,
                            .site = site,
                            .describe = describe});
  }
  if (Checker* const checker = scheduler.checker()) checker->acquire(self, word);
}

void moegen_cpu_fence(unsigned /*order*/, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  Thread& self = scheduler.running();
  self.site = site;
  if (Checker* const checker = scheduler.checker()) checker->fence(self);
}
