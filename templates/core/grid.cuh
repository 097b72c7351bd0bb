// SPDX-License-Identifier: Apache-2.0
// Agreement between all blocks of a grid through words in global memory, and dependent launch.
#pragma once

#include "shared.cuh"
#include "thread.cuh"
#include "types.cuh"

namespace moegen {

/// Adds to a word of global memory and returns its old value; device scope, acquire and release.
MOEGEN_DEVICE uint32_t global_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::global_add(word, value);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
#endif
}

/// Waits until `*word` is at least `least`, which some other block will make it; device scope, acquire.
MOEGEN_DEVICE void wait_at_least(const uint32_t* word, uint32_t least) {
#ifdef MOEGEN_TARGET_CPU
  cpu::wait_at_least(word, least);
#else
  uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
  } while (seen < least);
#endif
}

/// All threads of all blocks have arrived, and what they wrote is visible to each other. `arrived` counts blocks from
/// 0; every block of the grid must be resident (cooperative launch).
MOEGEN_DEVICE void grid_sync(uint32_t* arrived) {
  block_sync();
  if (thread_index() == 0) {
    global_add(arrived, 1);
    wait_at_least(arrived, num_blocks());
  }
  block_sync();
}

/// Waits until the kernels this one depends on have ended and their writes are visible. Nothing that an earlier kernel
/// may write is read, and nothing that it may read is written, before this. sm_90 up; elsewhere launches are in order.
MOEGEN_DEVICE void wait_for_dependencies() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets kernels that wait for this one be put on the chip early; they still wait for its end before they read.
MOEGEN_DEVICE void launch_dependents() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace moegen
