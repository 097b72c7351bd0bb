// SPDX-License-Identifier: Apache-2.0
// wgmma: issue, commit and wait. A warpgroup's groups take place one after the other, each somewhere between the commit
// of its last thread and the wait of its first, as AsyncTiming has it.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "cpu/model/async_state.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"

namespace moegen::cpu {
namespace {

Warpgroup& warpgroup_of(const Thread& thread, const Call& call) {
  Block& block = *thread.block;
  const std::uint32_t index = thread.index / kWarpgroupSize;
  call.require((index + 1) * kWarpgroupSize <= block.num_threads,
               "the block's threads from here on are no whole warpgroup of 128");
  auto& all = async_state(block).warpgroups;
  if (all.size() <= index) all.resize(index + 1);
  if (!all[index]) {
    all[index] = std::make_unique<Warpgroup>();
    all[index]->block = &block;
    all[index]->index = index;
  }
  return *all[index];
}

void check_operand(const char* which, std::uint64_t bits, std::uint32_t extent, bool transposed, const Block& block,
                   const Call& call) {
  const std::string wrong = MatrixDescriptor::from(bits).wrong(extent, !transposed, block.shared_bytes);
  if (!wrong.empty())
    call.fail(CpuFinding::misuse, fmt::format("{}: descriptor of {} ({:#x}): {}", call.operation, which, bits, wrong));
}

void check_shape(const WgmmaShape& shape, const Block& block, const Call& call) {
  call.require(shape.width >= 8 && shape.width <= 256 && shape.width % 8 == 0, "N is no multiple of 8 up to 256");
  call.require((shape.flags & 24) == 0 || bytes_of(shape.element) == 2,
               "only operands of 16-bit elements can have M or N contiguous");
  if (!shape.a_in_registers) check_operand("A", shape.a, kWgmmaRows, shape.flags & 8, block, call);
  check_operand("B", shape.b, shape.width, shape.flags & 16, block, call);
}

/// Those in flight on `registers` of `thread`; null if none are.
std::shared_ptr<Accumulators> find_accumulators(const Warpgroup& warpgroup, std::uint32_t thread,
                                                const float* registers) {
  for (const auto& group : warpgroup.groups)
    for (const auto& operation : group->operations)
      if (operation->accumulators->registers[thread] == registers && operation->accumulators->operations_left > 0)
        return operation->accumulators;
  return nullptr;
}

std::shared_ptr<Accumulators> make_accumulators(std::uint32_t width) {
  auto accumulators = std::make_shared<Accumulators>();
  accumulators->width = width;
  accumulators->values.resize(std::size_t{kWgmmaRows} * width);
  return accumulators;
}

WgmmaOperation& add_operation(Warpgroup& warpgroup, WgmmaGroup& group, const WgmmaShape& shape, std::uint32_t thread,
                              const float* d, Site site) {
  auto operation = std::make_unique<WgmmaOperation>();
  operation->shape = shape;
  operation->site = site;
  operation->accumulators = find_accumulators(warpgroup, thread, d);
  if (!operation->accumulators) operation->accumulators = make_accumulators(shape.width);
  ++operation->accumulators->operations_left;
  group.operations.push_back(std::move(operation));
  return *group.operations.back();
}

/// The thread's next operation of its open group: the one that others issued there, or a new one.
WgmmaOperation& join_operation(Warpgroup& warpgroup, const WgmmaShape& shape, std::uint32_t thread, const float* d,
                               const Call& call) {
  Warpgroup::Position& position = warpgroup.positions[thread];
  WgmmaGroup& group = warpgroup.group(position.group);
  const std::size_t number = position.operations++;
  if (group.committed > 0 && number >= group.size)
    call.fail(CpuFinding::divergence,
              fmt::format("wgmma: this thread issues more products into a group than the {} that others committed",
                          group.size));
  if (number == group.operations.size()) {
    check_shape(shape, *warpgroup.block, call);
    return add_operation(warpgroup, group, shape, thread, d, call.site);
  }
  if (!(group.operations[number]->shape == shape))
    call.fail(CpuFinding::divergence,
              "wgmma: threads of a warpgroup issue different products (shape, descriptors or scale)");
  return *group.operations[number];
}

/// Takes the thread's accumulators, unless earlier products in flight have them, and leaves NaN.
void take_accumulators(Accumulators& accumulators, std::uint32_t thread, float* d, const Call& call) {
  if (accumulators.registers[thread] == d) return;
  call.require(accumulators.registers[thread] == nullptr, "threads of a warpgroup accumulate in different registers");
  accumulators.take(thread, d);
  std::fill(d, d + accumulators.width / 2, std::numeric_limits<float>::quiet_NaN());
}

struct GroupInFlight final : AsyncOperation {
  explicit GroupInFlight(Warpgroup& owner) : warpgroup(owner) {}
  Warpgroup& warpgroup;
  void perform() override;
};

void submit_next(Warpgroup& warpgroup) {
  if (warpgroup.in_flight || warpgroup.groups.empty() || warpgroup.groups[0]->committed < kWarpgroupSize) return;
  warpgroup.in_flight = true;
  Scheduler::current().submit(std::make_unique<GroupInFlight>(warpgroup));
}

void retire(const Warpgroup& warpgroup, Accumulators& accumulators) {
  if (--accumulators.operations_left > 0) return;
  for (std::uint32_t i = 0; i < kWarpgroupSize; ++i)
    if (warpgroup.block->threads[warpgroup.index * kWarpgroupSize + i]->ended) accumulators.registers[i] = nullptr;
  accumulators.give_back();
  accumulators.registers.fill(nullptr);
}

void GroupInFlight::perform() {
  const std::unique_ptr<WgmmaGroup> group = std::move(warpgroup.groups.front());
  for (std::size_t i = 0; i < group->operations.size(); ++i) {
    perform_wgmma(warpgroup, *group->operations[i], group->readers[i]);
    group->readers[i].release(warpgroup.object(warpgroup.performed));
    group->readers[i].end();
  }
  warpgroup.groups.pop_front();
  for (const auto& operation : group->operations) retire(warpgroup, *operation->accumulators);
  ++warpgroup.performed;
  warpgroup.in_flight = false;
  Scheduler::current().wake_all(warpgroup.waiters);
  submit_next(warpgroup);
}

/// The products of a group begin to read after what all threads did before they committed.
void fork_readers(const Warpgroup& warpgroup, std::uint64_t number, WgmmaGroup& group) {
  std::array<std::uint32_t, kWarpgroupSize> threads;
  std::iota(threads.begin(), threads.end(), warpgroup.index * kWarpgroupSize);
  if (Checker* checker = Scheduler::current().checker()) checker->forget(warpgroup.object(number));
  for (const auto& operation : group.operations)
    group.readers.emplace_back(*warpgroup.block, threads, "wgmma", operation->site).set_async_proxy();
}

std::string describe_wait(const Thread& thread) {
  const Warpgroup& warpgroup = *async_state(*thread.block).warpgroups[thread.index / kWarpgroupSize];
  if (warpgroup.groups.empty()) return "wgmma.wait_group";
  return fmt::format("wgmma.wait_group: {} of the {} threads of warpgroup {} have committed group {}",
                     warpgroup.groups[0]->committed, kWarpgroupSize, warpgroup.index, warpgroup.performed);
}

/// What the thread waited for is ordered before what it does now.
void acquire_groups(const Warpgroup& warpgroup, Warpgroup::Position& position, std::uint64_t until) {
  Scheduler& scheduler = Scheduler::current();
  for (; position.awaited < until; ++position.awaited)
    if (Checker* checker = scheduler.checker())
      checker->acquire(scheduler.running(), warpgroup.object(position.awaited));
}

}  // namespace

WgmmaGroup& Warpgroup::group(std::uint64_t number) {
  while (number - performed >= groups.size()) groups.push_back(std::make_unique<WgmmaGroup>());
  return *groups[number - performed];
}

}  // namespace moegen::cpu

using moegen::CpuFinding;
using namespace moegen::cpu;

extern "C" {

void moegen_cpu_wgmma(float* d, unsigned int n, unsigned int element, unsigned long descriptor_a,
                      const unsigned int* a_registers, unsigned long descriptor_b, unsigned int flags,
                      unsigned int site) {
  const Call call{"wgmma", site};
  Scheduler& scheduler = Scheduler::current();
  Warpgroup& warpgroup = warpgroup_of(scheduler.running(), call);
  const std::uint32_t thread = scheduler.running().index % kWarpgroupSize;
  const WgmmaShape shape{.width = n,
                         .element = static_cast<MoegenCpuElement>(element),
                         .a_in_registers = a_registers != nullptr,
                         .a = a_registers ? 0 : descriptor_a,
                         .b = descriptor_b,
                         .flags = flags};
  WgmmaOperation& operation = join_operation(warpgroup, shape, thread, d, call);
  call.require(operation.accumulators->width == n, "products of different N accumulate in the same registers");
  if (a_registers) std::copy(a_registers, a_registers + 4, operation.a_registers[thread].begin());
  take_accumulators(*operation.accumulators, thread, d, call);
}

void moegen_cpu_wgmma_fence(unsigned int site) {
  const Call call{"wgmma.fence", site};
  Scheduler::current().preemption_point();
  warpgroup_of(Scheduler::current().running(), call);
}

void moegen_cpu_wgmma_commit(unsigned int site) {
  const Call call{"wgmma.commit_group", site};
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Warpgroup& warpgroup = warpgroup_of(scheduler.running(), call);
  Warpgroup::Position& position = warpgroup.positions[scheduler.running().index % kWarpgroupSize];
  WgmmaGroup& group = warpgroup.group(position.group);
  if (group.committed == 0) group.size = group.operations.size();
  if (position.operations != group.size)
    call.fail(CpuFinding::divergence, fmt::format("wgmma.commit_group: this thread issued {} products, others {}",
                                                  position.operations, group.size));
  ++position.group;
  position.operations = 0;
  if (++group.committed < kWarpgroupSize) return;
  fork_readers(warpgroup, position.group - 1, group);
  submit_next(warpgroup);
}

void moegen_cpu_wgmma_wait(unsigned int pending, unsigned int site) {
  const Call call{"wgmma.wait_group", site};
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Warpgroup& warpgroup = warpgroup_of(scheduler.running(), call);
  Warpgroup::Position& position = warpgroup.positions[scheduler.running().index % kWarpgroupSize];
  const std::uint64_t until = position.group > pending ? position.group - pending : 0;
  const Wait wait{.operation = call.operation, .object = pending, .detail = 0, .site = site, .describe = describe_wait};
  while (warpgroup.performed < until) scheduler.park(warpgroup.waiters, wait);
  acquire_groups(warpgroup, position, until);
}

}  // extern "C"
