// SPDX-License-Identifier: Apache-2.0
// Calls of kernel text: barriers, warp-wide exchange, clusters, atomics, waits on words, time.
#pragma once

#include "cpu/calls/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Waits at barrier `barrier` (0..15) until `threads` threads have arrived; 0 = all that still run.
MOEGEN_CPU_CALL void moegen_cpu_block_sync(unsigned int barrier, unsigned int threads, unsigned int site);
/// Arrives there without waiting; `threads` as the barrier's waiters say it.
MOEGEN_CPU_CALL void moegen_cpu_block_arrive(unsigned int barrier, unsigned int threads, unsigned int site);

/// Leaves `value`, waits for all lanes of `mask` that have not ended, and returns 32 values by lane and the mask of the
/// lanes that left theirs, valid until the lane's next exchange.
MOEGEN_CPU_CALL const unsigned long* moegen_cpu_warp_exchange(unsigned int mask, unsigned long value,
                                                              unsigned int site);
/// A lane asks for the value of `lane`, which left none in that exchange: ends the launch with a finding.
MOEGEN_CPU_CALL void moegen_cpu_warp_absent(unsigned int mask, unsigned int lane, unsigned int site);
/// The same as an exchange without values, and orders memory among the lanes.
MOEGEN_CPU_CALL void moegen_cpu_warp_sync(unsigned int mask, unsigned int site);

MOEGEN_CPU_CALL void moegen_cpu_cluster_arrive(unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_cluster_wait(unsigned int site);
/// The address in block `rank` of the cluster that corresponds to `address` in this block's shared memory.
MOEGEN_CPU_CALL void* moegen_cpu_map_cluster_shared(const void* address, unsigned int rank, unsigned int site);

enum MoegenCpuAtomic {
  MOEGEN_CPU_ATOMIC_ADD,
  MOEGEN_CPU_ATOMIC_MIN,
  MOEGEN_CPU_ATOMIC_MAX,
  MOEGEN_CPU_ATOMIC_AND,
  MOEGEN_CPU_ATOMIC_OR,
  MOEGEN_CPU_ATOMIC_XOR,
  MOEGEN_CPU_ATOMIC_EXCHANGE,
  MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE,
  MOEGEN_CPU_ATOMIC_LOAD,
  MOEGEN_CPU_ATOMIC_STORE,
};
/// Or-ed into `order`: whether the operation acquires and releases, and its scope.
enum MoegenCpuOrder {
  MOEGEN_CPU_RELAXED = 0,
  MOEGEN_CPU_ACQUIRE = 1,
  MOEGEN_CPU_RELEASE = 2,
  MOEGEN_CPU_SCOPE_BLOCK = 0 << 8,
  MOEGEN_CPU_SCOPE_CLUSTER = 1 << 8,
  MOEGEN_CPU_SCOPE_DEVICE = 2 << 8,
  MOEGEN_CPU_SCOPE_SYSTEM = 3 << 8,
};
/// An atomic operation on an unsigned word of 4 or 8 bytes; returns the old value.
MOEGEN_CPU_CALL unsigned long moegen_cpu_atomic(void* word, unsigned int bytes, unsigned int operation,
                                                unsigned long operand, unsigned long compare, unsigned int order,
                                                unsigned int site);
/// Waits until the word is at least `least` (unsigned); acquires.
MOEGEN_CPU_CALL void moegen_cpu_wait_at_least(const void* word, unsigned int bytes, unsigned long least,
                                              unsigned int order, unsigned int site);
/// A fence: membar / fence.acq_rel of the scope in `order`.
MOEGEN_CPU_CALL void moegen_cpu_fence(unsigned int order, unsigned int site);

/// Nanoseconds of a clock that never goes back.
MOEGEN_CPU_CALL unsigned long moegen_cpu_globaltimer(void);

/// Ends the launch with a finding: the kernel's `trap`.
MOEGEN_CPU_CALL void moegen_cpu_trap(unsigned int site);

/// shared_address() of `pointer`, which is not in the block's shared memory: ends the launch with a finding.
MOEGEN_CPU_CALL void moegen_cpu_not_shared(const void* pointer, unsigned int site);

/// A plain access, put before it by the compiler where checks are on. `kind`: 0 read, 1 write.
MOEGEN_CPU_CALL void moegen_cpu_access(const void* address, unsigned int bytes, unsigned int alignment,
                                       unsigned int kind, unsigned int site);

#ifdef __cplusplus
}
#endif

#define MOEGEN_CPU_SYNC_CALLS(X)   \
  X(moegen_cpu_block_sync)         \
  X(moegen_cpu_block_arrive)       \
  X(moegen_cpu_warp_exchange)      \
  X(moegen_cpu_warp_absent)        \
  X(moegen_cpu_warp_sync)          \
  X(moegen_cpu_cluster_arrive)     \
  X(moegen_cpu_cluster_wait)       \
  X(moegen_cpu_map_cluster_shared) \
  X(moegen_cpu_atomic)             \
  X(moegen_cpu_wait_at_least)      \
  X(moegen_cpu_fence)              \
  X(moegen_cpu_globaltimer)        \
  X(moegen_cpu_trap)               \
  X(moegen_cpu_not_shared)         \
  X(moegen_cpu_access)
