// SPDX-License-Identifier: Apache-2.0
// Random contents of a workload's tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <moegen/dtype.hpp>

#include "cuda/device.hpp"

namespace moegen::bench {

/// Bytes of `count` elements.
std::size_t tensor_bytes(Dtype dtype, std::int64_t count);

/// Bytes that are finite floats in any dtype of 16 or 32 bits.
cuda::DeviceBuffer random_floats(std::size_t bytes, std::uint64_t seed);

/// 0 .. count - 1 in random order, as uint32.
cuda::DeviceBuffer random_permutation(std::int64_t count, std::uint64_t seed);

}  // namespace moegen::bench
