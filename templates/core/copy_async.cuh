// SPDX-License-Identifier: Apache-2.0
// Copies of 4, 8 or 16 bytes from global to shared memory that a thread issues, groups and waits for. sm_80 up.
#pragma once

#include "shared_address.cuh"
#include "types.cuh"

namespace moegen {

/// Copies `Bytes` (4, 8, 16; both addresses multiples of it), of which the first `source_bytes` are read and the rest
/// become zero.
template <uint32_t Bytes>
MOEGEN_DEVICE void copy_async(void* shared, const void* global, uint32_t source_bytes = Bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
#ifdef MOEGEN_TARGET_CPU
  cpu::copy_async(shared, global, Bytes, source_bytes);
#else
  if constexpr (Bytes == 16)  // past L1: a tile is read once
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(source_bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global), "n"(Bytes),
                 "r"(source_bytes)
                 : "memory");
#endif
}

/// Closes the thread's group of copies and opens the next.
MOEGEN_DEVICE void copy_commit() {
#ifdef MOEGEN_TARGET_CPU
  cpu::copy_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `Pending` of the thread's groups are incomplete. Only this thread then sees their bytes; a
/// barrier shows them to others.
template <uint32_t Pending>
MOEGEN_DEVICE void copy_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::copy_wait(Pending);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Arrives once at `barrier`, which counts this arrival among those it was made for, when all copies that the thread
/// issued so far are there: at once where none are on their way. The thread does not wait, and what it wrote itself is
/// not part of it. sm_90 up here, as the other operations on such barriers.
MOEGEN_DEVICE void copy_arrive(uint64_t* barrier) {
#ifdef MOEGEN_TARGET_CPU
  cpu::copy_arrive(barrier);
#else
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

}  // namespace moegen
