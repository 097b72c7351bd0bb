// SPDX-License-Identifier: Apache-2.0
// Where a thread is: in its warp, block, cluster and grid.
#pragma once

#include "types.cuh"

namespace moegen {

enum : uint32_t { kWarpSize = 32, kFullMask = 0xFFFFFFFFu };

MOEGEN_DEVICE uint32_t thread_index() { return threadIdx.x; }
MOEGEN_DEVICE uint32_t block_index() { return blockIdx.x; }
MOEGEN_DEVICE uint32_t num_blocks() { return gridDim.x; }
MOEGEN_DEVICE uint32_t lane_index() { return threadIdx.x % kWarpSize; }
MOEGEN_DEVICE uint32_t warp_index() { return threadIdx.x / kWarpSize; }

}  // namespace moegen
