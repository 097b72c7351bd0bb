// SPDX-License-Identifier: Apache-2.0
// Shared memory and the barrier of a block.
#pragma once

#include "types.cuh"

namespace moegen {

/// All threads of the block have arrived, and what they wrote to shared and global memory is visible to each other.
MOEGEN_DEVICE void block_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(0);
#else
  asm volatile("bar.sync 0;" ::: "memory");
#endif
}

/// The block's dynamic shared memory, 16-byte aligned.
MOEGEN_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char moegen_dynamic_shared[];
  return moegen_dynamic_shared;
}

/// Adds `value` to a word of shared memory; block scope, no ordering.
MOEGEN_DEVICE void shared_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  cpu::shared_add(word, value);
#else
  asm volatile(
      "red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(word))),
      "r"(value)
      : "memory");
#endif
}

}  // namespace moegen
