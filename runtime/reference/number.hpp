// SPDX-License-Identifier: Apache-2.0
// Storage formats on the host, bit by bit: what a tensor's bytes mean, and how far apart its neighbours are.
#pragma once

#include <cstddef>
#include <cstdint>

#include <moegen/dtype.hpp>

namespace moegen::reference {

/// Element `index` of a tensor of float32, bfloat16, float16, float8_e4m3fn or float8_e8m0fnu, exactly.
double load(Dtype dtype, const void* data, std::size_t index);

/// Stores `value` rounded to nearest even; NaN becomes the canonical NaN. float8_e4m3fn saturates at 448. A scale in
/// float8_e8m0fnu becomes the least power of two that is no smaller, from 2^-127 to 2^127.
void store(Dtype dtype, void* data, std::size_t index, double value);

/// What `value` is after store and load.
double rounded_to(Dtype dtype, double value);

/// Half the distance between neighbouring numbers of `dtype` at `value`: the largest error of one rounding.
double half_ulp(Dtype dtype, double value);

/// An integer element of int32, uint32, uint8, uint16 or int64.
std::int64_t load_integer(Dtype dtype, const void* data, std::size_t index);

/// Stores the low bits of `value`.
void store_integer(Dtype dtype, void* data, std::size_t index, std::int64_t value);

}  // namespace moegen::reference
