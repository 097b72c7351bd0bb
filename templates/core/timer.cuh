// SPDX-License-Identifier: Apache-2.0
// Time on the device.
#pragma once

#include "types.cuh"

namespace moegen {

/// Nanoseconds of the device's clock; its step is hardware's, up to about a microsecond.
MOEGEN_DEVICE uint64_t nanoseconds() {
#ifdef MOEGEN_TARGET_CPU
  return cpu::globaltimer();
#else
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
#endif
}

}  // namespace moegen
