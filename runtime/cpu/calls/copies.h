// SPDX-License-Identifier: Apache-2.0
// Calls of kernel text: mbarriers and asynchronous copies (cp.async, bulk, tensor).
#pragma once

#include "cpu/calls/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/// mbarriers: a 64-bit word of shared memory.
MOEGEN_CPU_CALL void moegen_cpu_mbarrier_init(unsigned long* barrier, unsigned int count, unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_mbarrier_invalidate(unsigned long* barrier, unsigned int site);
/// Arrives `count` times, after expecting `bytes` more of asynchronous copies. The barrier may be another block's of
/// the cluster (a mapped address).
MOEGEN_CPU_CALL void moegen_cpu_mbarrier_arrive(unsigned long* barrier, unsigned int count, unsigned int bytes,
                                                unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_mbarrier_expect(unsigned long* barrier, unsigned int bytes, unsigned int site);
/// Waits until the phase of parity `parity` has completed.
MOEGEN_CPU_CALL void moegen_cpu_mbarrier_wait(unsigned long* barrier, unsigned int parity, unsigned int site);
/// 1 if it has completed; never waits.
MOEGEN_CPU_CALL unsigned int moegen_cpu_mbarrier_test(unsigned long* barrier, unsigned int parity, unsigned int site);

/// cp.async.bulk: global -> shared, completing `bytes` on `barrier`; shared -> global, in the thread's bulk group.
MOEGEN_CPU_CALL void moegen_cpu_bulk_load(void* shared, const void* global, unsigned int bytes, unsigned long* barrier,
                                          unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_bulk_store(void* global, const void* shared, unsigned int bytes, unsigned int site);
/// cp.async.bulk.tensor, tiled mode, 1 to 5 dimensions; innermost coordinate first. `multicast`: mask of cluster ranks
/// that receive the tile at the same offset and the completion on their barrier; 0 = this block alone.
MOEGEN_CPU_CALL void moegen_cpu_tensor_load(void* shared, const void* tensor_map, const int* coordinates,
                                            unsigned int dimensions, unsigned long* barrier, unsigned int multicast,
                                            unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_tensor_store(const void* tensor_map, const int* coordinates, unsigned int dimensions,
                                             const void* shared, unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_bulk_commit(unsigned int site);
/// Waits until at most `pending` bulk groups of the thread are incomplete; `read` = 1: until their sources were read.
MOEGEN_CPU_CALL void moegen_cpu_bulk_wait(unsigned int pending, unsigned int read, unsigned int site);

/// cp.async: `bytes` (4, 8, 16) to shared memory, of which `source_bytes` are read and the rest is zero.
MOEGEN_CPU_CALL void moegen_cpu_copy_async(void* shared, const void* global, unsigned int bytes,
                                           unsigned int source_bytes, unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_copy_commit(unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_copy_wait(unsigned int pending, unsigned int site);
/// cp.async.mbarrier.arrive.noinc: an arrival at `barrier` when all copies that the thread has issued are there.
MOEGEN_CPU_CALL void moegen_cpu_copy_arrive(unsigned long* barrier, unsigned int site);

/// fence.proxy.async: what the thread knows to be written to shared memory is seen by bulk copies and tensor cores.
MOEGEN_CPU_CALL void moegen_cpu_fence_proxy_async(unsigned int site);

#ifdef __cplusplus
}
#endif

#define MOEGEN_CPU_COPY_CALLS(X)    \
  X(moegen_cpu_mbarrier_init)       \
  X(moegen_cpu_mbarrier_invalidate) \
  X(moegen_cpu_mbarrier_arrive)     \
  X(moegen_cpu_mbarrier_expect)     \
  X(moegen_cpu_mbarrier_wait)       \
  X(moegen_cpu_mbarrier_test)       \
  X(moegen_cpu_bulk_load)           \
  X(moegen_cpu_bulk_store)          \
  X(moegen_cpu_tensor_load)         \
  X(moegen_cpu_tensor_store)        \
  X(moegen_cpu_bulk_commit)         \
  X(moegen_cpu_bulk_wait)           \
  X(moegen_cpu_copy_async)          \
  X(moegen_cpu_copy_commit)         \
  X(moegen_cpu_copy_wait)           \
  X(moegen_cpu_copy_arrive)         \
  X(moegen_cpu_fence_proxy_async)
