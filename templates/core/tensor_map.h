// SPDX-License-Identifier: Apache-2.0
// TensorMap: how a tensor lies in global memory, for tensor copies; part of the argument structs of kernels that use
// them. The host fills it (runtime/tensor_map.hpp).
#pragma once

#include <cstdint>

namespace moegen {

/// 128 bytes that only tensor copies look into: CUtensorMap on GPUs. Kernels take it inside a __grid_constant__ struct.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace moegen
