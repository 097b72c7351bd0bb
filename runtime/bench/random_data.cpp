// SPDX-License-Identifier: Apache-2.0
#include "bench/random_data.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "verify/random.hpp"

namespace moegen::bench {

std::vector<std::uint64_t> repeated_block(std::size_t bytes) {
  return std::vector<std::uint64_t>(std::min<std::size_t>(bytes, std::size_t{32} << 20) / 8 + 1);
}

cuda::DeviceBuffer repeat(const std::vector<std::uint64_t>& block, std::size_t bytes) {
  cuda::DeviceBuffer buffer(bytes);
  for (std::size_t at = 0; at < bytes; at += block.size() * 8)
    buffer.upload(block.data(), std::min(block.size() * 8, bytes - at), at);
  return buffer;
}

// Finite random bytes: 0x3C..0x3F in the high byte of each float keeps any dtype away from NaN and infinity.
cuda::DeviceBuffer random_floats(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::uint64_t> block = repeated_block(bytes);
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = (verify::random_bits(seed, i) & 0x83FF83FF83FF83FFu) | 0x3C003C003C003C00u;
  return repeat(block, bytes);
}

cuda::DeviceBuffer random_permutation(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0u);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[verify::random_below(seed, i, i)]);
  return cuda::DeviceBuffer::of(rows);
}

}  // namespace moegen::bench
