// SPDX-License-Identifier: Apache-2.0
// The arithmetic of tensor cores: operands widened to float, products exact, sums in float in the order of K. Hardware
// adds several products at once, for 8-bit elements with fewer bits; results agree where sums are exact.
#pragma once

#include <cstdint>

#include "cpu/model/calls.hpp"

namespace moegen::cpu {

/// Bytes of an element: 1 or 2.
std::uint32_t bytes_of(MoegenCpuElement element) noexcept;

/// `count` elements at `source` as floats.
void widen_elements(const void* source, std::uint32_t count, MoegenCpuElement element, float* values) noexcept;

/// c[m][n] += sum over k of a[m][k] * b[k][n], all row-major; `width` columns (a multiple of 8), `rows` a multiple
/// of 4.
struct Product {
  const float* a;
  const float* b;
  float* c;
  std::uint32_t rows, width, depth;
};
void multiply(const Product& product) noexcept;

}  // namespace moegen::cpu
