// SPDX-License-Identifier: Apache-2.0
// A tensor on the host and its copy on a target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <moegen/dtype.hpp>

#include "verify/memory.hpp"

namespace moegen::verify {

struct Tensor {
  Dtype dtype = Dtype::float32;
  std::vector<char> host;
  Memory device;

  void upload(Target target, const std::string& name) { device = Memory::of(target, name, host); }
};

/// Bytes of `count` elements.
std::size_t bytes_of(Dtype dtype, std::int64_t count);

/// `count` values of both signs over several binades, so that no rounding or exponent is special; on the host only.
Tensor random_tensor(Dtype dtype, std::int64_t count, std::uint64_t seed);

}  // namespace moegen::verify
