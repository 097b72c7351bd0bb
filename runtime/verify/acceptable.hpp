// SPDX-License-Identifier: Apache-2.0
// What a kernel may store where float64 says a value and how far float32 arithmetic may be from it.
#pragma once

#include <cmath>

#include "reference/number.hpp"

namespace moegen::verify {

/// True if `got`, of `dtype`, is what arithmetic within `error` of `want` may be rounded to. An infinite error: an
/// expression at the edge of float32, of which nothing is claimed.
inline bool acceptable(Dtype dtype, double got, double want, double error) {
  if (std::isinf(error)) return true;
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  if (std::isinf(got)) return got == reference::rounded_to(dtype, want + std::copysign(error, want));
  return std::abs(got - want) <= error + reference::half_ulp(dtype, std::abs(want) + error);
}

}  // namespace moegen::verify
