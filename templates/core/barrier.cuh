// SPDX-License-Identifier: Apache-2.0
// Named barriers: parts of a block meet at one of 16; number 0 is block_sync's.
#pragma once

#include "types.cuh"

namespace moegen {

/// Waits at barrier `number` until `threads` threads, whole warps, have arrived there; orders their memory accesses.
MOEGEN_DEVICE void named_sync(uint32_t number, uint32_t threads) {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(number, threads);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

/// Arrives there without waiting; `threads` as those who wait say it.
MOEGEN_DEVICE void named_arrive(uint32_t number, uint32_t threads) {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_arrive(number, threads);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

}  // namespace moegen
