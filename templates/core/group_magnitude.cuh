// SPDX-License-Identifier: Apache-2.0
// Magnitudes of groups whose values lie in neighbouring lanes of a warp. All its lanes take part.
#pragma once

#include "quantize.cuh"
#include "warp.cuh"

namespace moegen {

/// Magnitude of the group of `Width` values that this thread's are part of; `finite` and `nan` are those of its own.
template <uint32_t Width, uint32_t Count>
MOEGEN_DEVICE Magnitude group_magnitude(const float (&value)[Count]) {
  Magnitude group = finite_magnitude(value);
  group.largest = lanes_max<Width / Count>(group.largest);
  return group;
}

/// The same where a NaN is one of the whole group, whose largest value then means nothing.
template <uint32_t Width, uint32_t Count>
MOEGEN_DEVICE Magnitude group_magnitude_or_nan(const float (&value)[Count]) {
  Magnitude group = finite_magnitude(value);
  group.largest = lanes_max<Width / Count>(group.nan ? bits_float(0x7FFFFFFFu) : group.largest);
  group.nan = group.largest != group.largest;
  return group;
}

}  // namespace moegen
