// SPDX-License-Identifier: Apache-2.0
// The quantisers of float8_e4m3fn as contracts define them, at two roundings, so that kernels agree to the bit.
#pragma once

#include <moegen/dtype.hpp>

namespace moegen::reference {

/// Scale of a group whose finite values have this absolute maximum: fl32(max(absmax, floor) / 448), in float8_e8m0fnu
/// rounded up to a power of two.
double e4m3_scale(double absmax, double floor, Dtype scale);

/// What `value` (a float32) becomes under `scale`, decoded: nearest even, saturating, of fl32(value / scale).
double e4m3_value(double value, double scale);

/// The neighbours of code distance: 0 for the same value, 1 for adjacent ones, and so on; NaN is far from all numbers.
int e4m3_distance(double a, double b);

}  // namespace moegen::reference
