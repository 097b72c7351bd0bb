// SPDX-License-Identifier: Apache-2.0
// mbarriers: a 64-bit word of shared memory that counts the arrivals of threads and the bytes of asynchronous copies.
// A phase completes when as many have arrived as the barrier was made for and all expected bytes are there; the next
// begins at once. A waiter names a phase by its parity, 0 for the first. sm_90 up.
#pragma once

#include "shared_address.cuh"
#include "types.cuh"

namespace moegen {

/// Makes a barrier for `count` arrivals a phase, 1 .. 2^20 - 1. One thread does it; mbarrier_fence_init and a barrier
/// of the block (or of the cluster, if others arrive) come before any use.
MOEGEN_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t count) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_init(barrier, count);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
#endif
}

/// Ends a barrier, so that its memory may be used for something else.
MOEGEN_DEVICE void mbarrier_invalidate(uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_invalidate(barrier);
#else
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// Shows this thread's mbarrier_init to the cluster and to asynchronous copies.
MOEGEN_DEVICE void mbarrier_fence_init() {
#ifdef MOEGEN_TARGET_CPU
  // The model has one view of shared memory.
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// Arrives once; what this thread did is seen by those who wait for the phase.
MOEGEN_DEVICE void mbarrier_arrive(uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(barrier, 1, 0);
#else
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// Arrives once, after adding `bytes` to those that asynchronous copies must bring in this phase.
MOEGEN_DEVICE void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(barrier, 1, bytes);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// Adds `bytes` to those that asynchronous copies must bring in this phase.
MOEGEN_DEVICE void mbarrier_expect(uint64_t* barrier, uint32_t bytes) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_expect(barrier, bytes);
#else
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// Arrives once at the barrier that block `rank` of the cluster has where this block has `barrier`.
MOEGEN_DEVICE void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(static_cast<uint64_t*>(cpu::map_cluster_shared(barrier, rank)), 1, 0);
#else
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

/// The same with the order of a block's own arrivals only: enough where the arrival says that reads are over, as a
/// consumer's does. The release of mbarrier_arrive_cluster made a pipeline over two blocks 1.3 to 1.8 times as slow on
/// an H200, as if it were a fence at every stage.
MOEGEN_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_arrive(static_cast<uint64_t*>(cpu::map_cluster_shared(barrier, rank)), 1, 0);
#else
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

/// True if the phase of parity `parity` has completed; what was done before it can then be read. Never waits.
MOEGEN_DEVICE bool mbarrier_test(uint64_t* barrier, uint32_t parity) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::mbarrier_test(barrier, parity);
#else
  uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
#endif
}

/// Waits until the phase of parity `parity` has completed; what was done before it can then be read.
MOEGEN_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#ifdef MOEGEN_TARGET_CPU
  cpu::mbarrier_wait(barrier, parity);
#else
  uint32_t complete;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (complete == 0);
#endif
}

}  // namespace moegen
