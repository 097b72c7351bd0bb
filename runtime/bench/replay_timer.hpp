// SPDX-License-Identifier: Apache-2.0
// Times small kernels by replaying a CUDA graph that holds many launches over rotating input sets.
#pragma once

#include <cstddef>
#include <functional>

#include "cuda/device.hpp"

namespace moegen::bench {

/// Least bytes that the input sets of one measurement hold together, so that large inputs come from memory and not from
/// a cache: three times the 50 MB of an H200's L2.
inline constexpr std::size_t kRotatedBytes = 160u << 20;

/// Sets to rotate for inputs of `bytes` each: enough for kRotatedBytes, 2 to 16.
std::size_t num_sets(std::size_t bytes);

/// Microseconds of one launch: the median over 15 replays of a graph of about 1.5 ms, at most 200 launches.
/// `launch(set, stream)` puts one launch on the stream, with input set number `set` (0 .. sets - 1).
double time_us(const cuda::Stream& stream, std::size_t sets,
               const std::function<void(std::size_t set, const cuda::Stream& stream)>& launch);

/// GB/s of a device-to-device copy of 1 GiB, bytes read plus bytes written.
double copy_gbps(const cuda::Stream& stream);

}  // namespace moegen::bench
