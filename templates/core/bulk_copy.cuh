// SPDX-License-Identifier: Apache-2.0
// Bulk copies between global and shared memory, and the groups in which a thread waits for its stores. Addresses and
// sizes are multiples of 16 bytes. sm_90 up.
#pragma once

#include "shared_address.cuh"
#include "types.cuh"

namespace moegen {

/// Orders what this thread wrote to shared memory before the bulk and tensor copies and tensor core reads that follow.
/// Nothing on archs without them.
MOEGEN_DEVICE void fence_proxy_async() {
#ifdef MOEGEN_TARGET_CPU
  cpu::fence_proxy_async();
#elif __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Copies `bytes` from global to shared memory; they count on `barrier` when they are there.
MOEGEN_DEVICE void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_load(shared, global, bytes, barrier);
#else
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}

/// Copies `bytes` from shared to global memory, in the thread's open bulk group.
MOEGEN_DEVICE void bulk_store(void* global, const void* shared, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_store(global, shared, bytes);
#else
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
#endif
}

/// Closes the thread's bulk group and opens the next.
MOEGEN_DEVICE void bulk_commit() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_commit();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `Pending` of the thread's bulk groups are still to be written.
template <uint32_t Pending>
MOEGEN_DEVICE void bulk_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_wait(Pending, 0);
#else
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Waits until at most `Pending` of the thread's bulk groups are still to be read from shared memory.
template <uint32_t Pending>
MOEGEN_DEVICE void bulk_wait_read() {
#ifdef MOEGEN_TARGET_CPU
  cpu::bulk_wait(Pending, 1);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace moegen
