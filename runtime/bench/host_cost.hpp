// SPDX-License-Identifier: Apache-2.0
// Host cost of a launch: what Kernel::run takes beside a bare cuLaunchKernelEx of the same kernel.
#pragma once

#include <cstddef>

#include <moegen/kernel.hpp>

#include "cuda/device.hpp"

namespace moegen::bench {

struct HostCost {
  double run_ns = 0;   ///< one Kernel::run
  double bare_ns = 0;  ///< one cuLaunchKernelEx with the same function, grid, attributes and parameters
};

/// Interleaved batches of 64 launches, the wait for them excluded; the median batch of each.
HostCost host_cost(const Kernel& kernel, const void* args, std::size_t args_bytes, const cuda::Stream& stream);

}  // namespace moegen::bench
