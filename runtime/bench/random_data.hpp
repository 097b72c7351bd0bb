// SPDX-License-Identifier: Apache-2.0
// Random contents of a workload's tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device.hpp"

namespace moegen::bench {

/// Room for what repeat() takes: `bytes`, or 32 MiB where that is less.
std::vector<std::uint64_t> repeated_block(std::size_t bytes);

/// `bytes` bytes of device memory: `block` again and again.
cuda::DeviceBuffer repeat(const std::vector<std::uint64_t>& block, std::size_t bytes);

/// Bytes that are finite floats in any dtype of 16 or 32 bits.
cuda::DeviceBuffer random_floats(std::size_t bytes, std::uint64_t seed);

/// 0 .. count - 1 in random order, as uint32.
cuda::DeviceBuffer random_permutation(std::int64_t count, std::uint64_t seed);

}  // namespace moegen::bench
