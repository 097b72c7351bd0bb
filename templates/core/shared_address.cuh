// SPDX-License-Identifier: Apache-2.0
// Shared memory as asynchronous copies and tensor cores see it: by offset, in aligned tiles.
#pragma once

#include "types.cuh"

namespace moegen {

/// Where `pointer` is in the window of shared memory: what PTX and matrix descriptors take for an address.
MOEGEN_DEVICE uint32_t shared_address(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::shared_address(pointer);
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#endif
}

/// The block's dynamic shared memory, 1024-byte aligned: the pattern of the widest swizzle repeats there.
MOEGEN_DEVICE unsigned char* dynamic_shared_tiles() {
  extern __shared__ __align__(1024) unsigned char moegen_dynamic_shared_tiles[];
  return moegen_dynamic_shared_tiles;
}

}  // namespace moegen
