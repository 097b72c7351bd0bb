// SPDX-License-Identifier: Apache-2.0
// Storage formats on the host, bit by bit: what a tensor's bytes mean, and how far apart its neighbours are.
#pragma once

#include <cstddef>
#include <cstdint>

#include <moegen/dtype.hpp>

namespace moegen::reference {

/// Element `index` of a tensor of float32, bfloat16 or float16, exactly.
double load(Dtype dtype, const void* data, std::size_t index);

/// Stores `value` rounded to nearest even; NaN becomes the canonical NaN.
void store(Dtype dtype, void* data, std::size_t index, double value);

/// Half the distance between neighbouring numbers of `dtype` at `value`: the largest error of one rounding.
double half_ulp(Dtype dtype, double value);

/// An integer element of int32, uint32, uint8, uint16 or int64.
std::int64_t load_integer(Dtype dtype, const void* data, std::size_t index);

/// Stores the low bits of `value`.
void store_integer(Dtype dtype, void* data, std::size_t index, std::int64_t value);

}  // namespace moegen::reference
