// SPDX-License-Identifier: Apache-2.0
#include "verify/tensor.hpp"

#include <cmath>

#include "reference/number.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace moegen::verify {

std::size_t bytes_of(Dtype dtype, std::int64_t count) { return static_cast<std::size_t>(count * bits(dtype) / 8); }

Tensor random_tensor(Dtype dtype, std::int64_t count, std::uint64_t seed) {
  Tensor tensor{dtype, std::vector<char>(bytes_of(dtype, count)), {}};
  parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      const double sign = random_bits(seed, 2 * at) & 1 ? -1.0 : 1.0;
      const double value = sign * std::exp2(6 * random_unit(seed, 2 * at + 1) - 4);
      reference::store(dtype, tensor.host.data(), static_cast<std::size_t>(i), value);
    }
  });
  return tensor;
}

}  // namespace moegen::verify
