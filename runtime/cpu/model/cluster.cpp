// SPDX-License-Identifier: Apache-2.0
// Clusters: the barrier that threads arrive at and wait for in two steps, and each other's shared memory.
#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/address.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"

namespace moegen::cpu {
namespace {

std::string describe(const Thread& thread) {
  const Cluster& cluster = *thread.block->cluster;
  return fmt::format("cluster barrier ({} of {} threads arrived)", cluster.arrived, cluster.live_threads);
}

std::string not_in_shared(const Scheduler& scheduler, const Block& block, const void* address) {
  return fmt::format("mapa: {} is not in the block's shared memory", name_address(scheduler, block, address));
}

/// What threads release to in this phase.
const void* released(const Cluster& cluster, std::uint32_t phase) { return &cluster.released[phase % 2]; }

/// All threads have arrived, so all have waited for the phase before: what was released to that one is of no use.
void complete(Scheduler& scheduler, Cluster& cluster) {
  cluster.arrived = 0;
  ++cluster.phase;
  if (Checker* const checker = scheduler.checker()) checker->forget(released(cluster, cluster.phase));
  scheduler.wake_all(cluster.waiters);
}

}  // namespace

void leave_cluster(Scheduler& scheduler, Thread& thread) {
  Cluster& cluster = *thread.block->cluster;
  --cluster.live_threads;
  if (thread.arrived_at_cluster && thread.cluster_phase == cluster.phase) --cluster.arrived;
  if (cluster.arrived != 0 && cluster.arrived == cluster.live_threads) complete(scheduler, cluster);
}

}  // namespace moegen::cpu

using moegen::CpuFinding;
using namespace moegen::cpu;

void moegen_cpu_cluster_arrive(unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Thread& self = scheduler.running();
  Cluster& cluster = *self.block->cluster;
  self.site = site;
  if (self.arrived_at_cluster) {
    scheduler.fail(CpuFinding::misuse, "cluster barrier: a thread arrived twice without waiting in between", site,
                   "arrives at the cluster's barrier");
  }
  self.arrived_at_cluster = true;
  self.cluster_phase = cluster.phase;
  if (Checker* const checker = scheduler.checker()) checker->release(self, released(cluster, cluster.phase));
  if (++cluster.arrived == cluster.live_threads) complete(scheduler, cluster);
}

void moegen_cpu_cluster_wait(unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  Thread& self = scheduler.running();
  Cluster& cluster = *self.block->cluster;
  self.site = site;
  if (!self.arrived_at_cluster) {
    scheduler.fail(CpuFinding::misuse, "cluster barrier: a thread waits without having arrived", site,
                   "waits for the cluster's barrier");
  }
  if (self.cluster_phase == cluster.phase) {
    scheduler.park(cluster.waiters,
                   {.operation = "barrier.cluster.wait", .object = 0, .detail = 0, .site = site, .describe = describe});
  }
  self.arrived_at_cluster = false;
  if (Checker* const checker = scheduler.checker()) checker->acquire(self, released(cluster, self.cluster_phase));
}

void* moegen_cpu_map_cluster_shared(const void* address, unsigned rank, unsigned site) {
  Scheduler& scheduler = Scheduler::current();
  Thread& self = scheduler.running();
  const Block& block = *self.block;
  const char* const action = "maps an address into the cluster";
  if (rank >= block.cohort->cluster_size) {
    scheduler.fail(CpuFinding::misuse,
                   fmt::format("mapa: block rank {} of a cluster of {}", rank, block.cohort->cluster_size), site,
                   action);
  }
  if (!block.holds(address)) {
    scheduler.fail(CpuFinding::misuse, not_in_shared(scheduler, block, address), site, action);
  }
  const Block& peer = *block.cluster->blocks[rank];
  check_resident(scheduler, peer.shared + block.offset_of(address), site, action);
  return peer.shared + block.offset_of(address);
}
