// SPDX-License-Identifier: Apache-2.0
// The calls that belong to no primitive: plain accesses of checked kernels, the clock, the trap.
#include <chrono>

#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/address.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"

namespace moegen::cpu {
namespace {

std::string not_shared(const Scheduler& scheduler, const void* pointer) {
  return fmt::format("shared_address: {} is not in the block's shared memory",
                     name_address(scheduler, *scheduler.running().block, pointer));
}

}  // namespace
}  // namespace moegen::cpu

using namespace moegen::cpu;

void moegen_cpu_access(const void* address, unsigned bytes, unsigned alignment, unsigned kind, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  Checker* const checker = scheduler.checker();
  if (checker == nullptr || bytes == 0) return;
  Thread& self = scheduler.running();
  self.site = site;
  const bool writes = kind != 0;
  check_resident(scheduler, address, site, writes ? "write" : "read");
  checker->access(self, address, bytes, alignment, writes ? Access::write : Access::read, Scope::block, site);
}

unsigned long moegen_cpu_globaltimer(void) {
  Scheduler::current().yield();  // a loop may wait for time to pass
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<unsigned long>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

void moegen_cpu_trap(unsigned site) {
  Scheduler::current().fail(moegen::CpuFinding::fault, "the kernel trapped", site, "trap");
}

void moegen_cpu_not_shared(const void* pointer, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.fail(moegen::CpuFinding::misuse, not_shared(scheduler, pointer), site, "takes an address in shared memory");
}
