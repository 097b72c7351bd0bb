// SPDX-License-Identifier: Apache-2.0
// Moving registers between the warpgroups of a block. sm_90a up; the kernel is compiled for a fixed block size.
#pragma once

#include "types.cuh"

namespace moegen {

/// Gives registers of this warpgroup back, keeping `Registers` a thread (24 .. 256, a multiple of 8).
template <uint32_t Registers>
MOEGEN_DEVICE void release_registers() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
#ifdef MOEGEN_TARGET_CPU
  // The host has its own registers.
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

/// Takes registers that others gave back, up to `Registers` a thread; waits until there are enough.
template <uint32_t Registers>
MOEGEN_DEVICE void acquire_registers() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
#ifdef MOEGEN_TARGET_CPU
  // The host has its own registers.
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

}  // namespace moegen
