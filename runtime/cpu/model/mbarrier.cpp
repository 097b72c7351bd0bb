// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/mbarrier.hpp"

#include <array>

#include <fmt/core.h>

#include "cpu/model/actor.hpp"
#include "cpu/model/async_state.hpp"
#include "cpu/model/calls.hpp"

namespace moegen::cpu {
namespace {

/// Owns no memory: the frame of a call that fails is never unwound.
struct MbarrierName {
  std::array<char, 64> text = {};
};

MbarrierName name_of(const Block& block, const void* address) {
  MbarrierName name;
  fmt::format_to_n(name.text.begin(), name.text.size() - 1, "mbarrier at shared+{:#x} of block {}",
                   block.offset_of(address), block.index);
  return name;
}

/// What the issuer of a copy did, as findings say it.
constexpr const char* kCopy = "issued the copy";

[[noreturn]] void misuse(std::string what, Site site, const char* operation) {
  Scheduler::current().fail(CpuFinding::misuse, std::move(what), site, operation);
}

Block* block_that_holds(const void* address) {
  Block& own = *Scheduler::current().running().block;
  return own.holds(address) ? &own : own.cohort->block_of_shared(address);
}

/// The block in whose shared memory an mbarrier may lie at `address`.
Block& block_of_mbarrier(std::uint64_t* address, const char* operation, Site site) {
  Block* block = block_that_holds(address);
  if (!block)
    misuse(fmt::format("{} of {}, which is not in shared memory", operation, static_cast<void*>(address)), site,
           operation);
  if (block->offset_of(address) % 8 != 0)
    misuse(fmt::format("{} of an address that 8 does not divide: {}", operation, name_of(*block, address).text.data()),
           site, operation);
  return *block;
}

/// PTX takes a barrier of the thread's own block alone for all but an arrival.
void require_own(const std::uint64_t* address, const char* operation, Site site) {
  const Block& own = *Scheduler::current().running().block;
  if (!own.holds(address))
    misuse(fmt::format("{} of the {}, which is another block's; allowed for mbarrier.arrive alone", operation,
                       name_of(*block_that_holds(address), address).text.data()),
           site, operation);
}

Mbarrier& find_own_mbarrier(std::uint64_t* address, const char* operation, Site site) {
  Mbarrier& found = find_mbarrier(address, operation, site);
  require_own(address, operation, site);
  return found;
}

/// Tells the checks that the running thread counts in the word.
void check_count(std::uint64_t* address, Site site) {
  Scheduler& scheduler = Scheduler::current();
  if (Checker* checker = scheduler.checker())
    checker->access(scheduler.running(), address, 8, 8, Access::atomic, Scope::cluster, site);
}

void store(Mbarrier& barrier, const MbarrierWord& word) { *barrier.address = barrier.word = word.word(); }

/// Begins the next phase if the current one is complete.
void advance(Mbarrier& barrier, MbarrierWord word) {
  const bool complete = word.complete();
  if (complete) {
    word.phase = word.phase ^ 1;
    word.pending = word.expected;
  }
  store(barrier, word);
  if (complete) Scheduler::current().wake_all(barrier.waiters);
}

void expect_bytes(const Mbarrier& barrier, MbarrierWord& word, std::uint32_t bytes, const char* operation, Site site) {
  const std::int64_t sum = word.bytes + static_cast<std::int64_t>(bytes);
  if (bytes > kMostBytes || sum > kMostBytes)
    misuse(fmt::format("{} bytes are expected at the {}; at most {} may be", sum,
                       name_of(*block_that_holds(barrier.address), barrier.address).text.data(), kMostBytes),
           site, operation);
  word.bytes = sum;
}

/// The barrier at `offset` in `block` that a copy completes on.
Mbarrier& barrier_of_copy(Block& block, std::uint32_t offset, Site site) {
  auto& barriers = async_state(block).mbarriers;
  const auto found = barriers.find(offset);
  std::uint64_t* const address = reinterpret_cast<std::uint64_t*>(block.shared + offset);
  if (found == barriers.end())
    misuse(fmt::format("a copy completes on the {}, which was invalidated", name_of(block, address).text.data()), site,
           kCopy);
  if (*address != found->second.word)
    misuse(fmt::format("a copy completes on the {}, which something else wrote to: it holds {:#x}",
                       name_of(block, address).text.data(), *address),
           site, kCopy);
  return found->second;
}

std::string describe_wait(const Thread& thread) {
  std::string where = fmt::format("mbarrier at shared+{:#x}, parity {}", thread.wait.object, thread.wait.detail);
  const auto& barriers = async_state(*thread.block).mbarriers;
  const auto found = barriers.find(static_cast<std::uint32_t>(thread.wait.object));
  if (found == barriers.end()) return where;
  const auto word = MbarrierWord::from(found->second.word);
  return fmt::format("{}: {} of {} arrivals and {} bytes are missing", where, word.pending, word.expected, word.bytes);
}

/// True if the phase of `parity` is the one before the current one.
bool has_completed(const Mbarrier& barrier, std::uint32_t parity) {
  return MbarrierWord::from(barrier.word).phase != (parity & 1);
}

void acquire_phase(const Mbarrier& barrier, std::uint32_t parity) {
  Scheduler& scheduler = Scheduler::current();
  if (Checker* checker = scheduler.checker()) checker->acquire(scheduler.running(), barrier.phase_object(parity & 1));
}

}  // namespace

Mbarrier& find_mbarrier(std::uint64_t* address, const char* operation, Site site) {
  Block& block = block_of_mbarrier(address, operation, site);
  auto& barriers = async_state(block).mbarriers;
  const auto found = barriers.find(block.offset_of(address));
  if (found == barriers.end())
    misuse(fmt::format("{} of the {}, which was not initialised", operation, name_of(block, address).text.data()), site,
           operation);
  if (*address != found->second.word)
    misuse(fmt::format("{} of the {}, which something else wrote to: it holds {:#x}", operation,
                       name_of(block, address).text.data(), *address),
           site, operation);
  return found->second;
}

void complete_bytes(Block& block, std::uint32_t offset, std::int64_t bytes, const CheckedActor& actor) {
  Mbarrier& barrier = barrier_of_copy(block, offset, 0);
  actor.count(barrier.address);
  auto word = MbarrierWord::from(barrier.word);
  actor.release(barrier.phase_object(word.phase));
  word.bytes = word.bytes - bytes;
  if (word.bytes < -kMostBytes)
    misuse(fmt::format("copies bring {} bytes more than are expected at the {}; at most {} may be", -word.bytes,
                       name_of(block, barrier.address).text.data(), kMostBytes),
           0, kCopy);
  advance(barrier, word);
}

void complete_arrival(Block& block, std::uint32_t offset, const CheckedActor& actor, Site site) {
  Mbarrier& barrier = barrier_of_copy(block, offset, site);
  actor.count(barrier.address);
  auto word = MbarrierWord::from(barrier.word);
  if (word.pending == 0)
    misuse(fmt::format("one arrival of copies too many at the {}: it was made for {} a phase, and all have arrived",
                       name_of(block, barrier.address).text.data(), word.expected),
           site, "cp.async.mbarrier.arrive");
  actor.release(barrier.phase_object(word.phase));
  word.pending = word.pending - 1;
  advance(barrier, word);
}

}  // namespace moegen::cpu

using namespace moegen::cpu;

extern "C" {

void moegen_cpu_mbarrier_init(unsigned long* barrier, unsigned int count, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.init";
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Block& block = block_of_mbarrier(barrier, kOperation, site);
  require_own(barrier, kOperation, site);
  if (count == 0 || count > kMostArrivals)
    misuse(fmt::format("mbarrier.init with a count of {}; allowed 1 to {}", count, kMostArrivals), site, kOperation);
  const auto [entry, is_new] = async_state(block).mbarriers.try_emplace(block.offset_of(barrier));
  if (!is_new && *barrier == entry->second.word)
    misuse(fmt::format("mbarrier.init of the {}, which is one already; mbarrier.inval comes first",
                       name_of(block, barrier).text.data()),
           site, kOperation);
  entry->second = Mbarrier{.address = barrier, .word = 0, .waiters = {}};
  if (Checker* checker = scheduler.checker()) {
    checker->access(scheduler.running(), barrier, 8, 8, Access::write, Scope::cluster, site);
    for (unsigned int parity : {0u, 1u}) checker->forget(entry->second.phase_object(parity));
  }
  store(entry->second, MbarrierWord{.pending = count, .expected = count, .bytes = 0, .phase = 0});
}

void moegen_cpu_mbarrier_invalidate(unsigned long* barrier, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.inval";
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Mbarrier& found = find_own_mbarrier(barrier, kOperation, site);
  if (!found.waiters.empty())
    misuse(fmt::format("mbarrier.inval of a barrier that threads wait for: {}",
                       name_of(*block_that_holds(barrier), barrier).text.data()),
           site, kOperation);
  if (Checker* checker = scheduler.checker())
    checker->access(scheduler.running(), barrier, 8, 8, Access::write, Scope::cluster, site);
  Block& block = *block_that_holds(barrier);
  async_state(block).mbarriers.erase(block.offset_of(barrier));
}

void moegen_cpu_mbarrier_arrive(unsigned long* barrier, unsigned int count, unsigned int bytes, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.arrive";
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Mbarrier& found = find_mbarrier(barrier, kOperation, site);
  check_count(barrier, site);
  auto word = MbarrierWord::from(found.word);
  if (count > word.pending)
    misuse(fmt::format("one arrival too many at the {}: it was made for {} a phase, and all have arrived",
                       name_of(*block_that_holds(barrier), barrier).text.data(), word.expected),
           site, kOperation);
  expect_bytes(found, word, bytes, kOperation, site);
  if (Checker* checker = scheduler.checker()) checker->release(scheduler.running(), found.phase_object(word.phase));
  word.pending = word.pending - count;
  advance(found, word);
}

void moegen_cpu_mbarrier_expect(unsigned long* barrier, unsigned int bytes, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.expect_tx";
  Scheduler::current().preemption_point();
  Mbarrier& found = find_own_mbarrier(barrier, kOperation, site);
  check_count(barrier, site);
  auto word = MbarrierWord::from(found.word);
  expect_bytes(found, word, bytes, kOperation, site);
  store(found, word);
}

void moegen_cpu_mbarrier_wait(unsigned long* barrier, unsigned int parity, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.try_wait";
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Mbarrier& found = find_own_mbarrier(barrier, kOperation, site);
  check_count(barrier, site);
  if (!has_completed(found, parity)) {
    Wait wait{.operation = kOperation,
              .object = block_that_holds(barrier)->offset_of(barrier),
              .detail = parity & 1,
              .site = site,
              .describe = describe_wait};
    scheduler.park(found.waiters, wait);  // woken when the phase completes; another completion needs this thread's own
  }
  // Others ran while this one waited: the barrier must not have ended under it.
  acquire_phase(find_own_mbarrier(barrier, kOperation, site), parity);
}

unsigned int moegen_cpu_mbarrier_test(unsigned long* barrier, unsigned int parity, unsigned int site) {
  constexpr const char* kOperation = "mbarrier.test_wait";
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Mbarrier& found = find_own_mbarrier(barrier, kOperation, site);
  check_count(barrier, site);
  if (!has_completed(found, parity)) {
    scheduler.yield();
    return 0;
  }
  acquire_phase(found, parity);
  return 1;
}

}  // extern "C"
