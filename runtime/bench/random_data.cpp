// SPDX-License-Identifier: Apache-2.0
#include "bench/random_data.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "verify/random.hpp"

namespace moegen::bench {

std::size_t tensor_bytes(Dtype dtype, std::int64_t count) { return static_cast<std::size_t>(count * bits(dtype) / 8); }

// Finite random bytes: 0x3C..0x3F in the high byte of each float keeps any dtype away from NaN and infinity.
cuda::DeviceBuffer random_floats(std::size_t bytes, std::uint64_t seed) {
  cuda::DeviceBuffer buffer(bytes);
  std::vector<std::uint64_t> block(std::min<std::size_t>(bytes, std::size_t{32} << 20) / 8 + 1);
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = (verify::random_bits(seed, i) & 0x83FF83FF83FF83FFu) | 0x3C003C003C003C00u;
  for (std::size_t at = 0; at < bytes; at += block.size() * 8)
    buffer.upload(block.data(), std::min(block.size() * 8, bytes - at), at);
  return buffer;
}

cuda::DeviceBuffer random_permutation(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0u);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[verify::random_below(seed, i, i)]);
  return cuda::DeviceBuffer::of(rows);
}

}  // namespace moegen::bench
