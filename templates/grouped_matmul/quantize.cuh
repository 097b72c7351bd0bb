// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, quantised output: groups of 128 columns of a row of c become e4m3 codes and one scale, by the
// quantiser that all kernels share. A tile holds whole groups: 128 columns of c.
#pragma once

#include "../core/barrier.cuh"
#include "../core/group_magnitude.cuh"
#include "../core/memory.cuh"
#include "../core/quantize.cuh"
#include "finish.cuh"

namespace moegen::grouped_matmul {

/// Codes of `Count` values of a group of 128, which neighbouring lanes hold; returns the scale as it is stored.
template <class P, uint32_t Count>
MOEGEN_DEVICE typename P::scale_dtype quantize_group(float (&value)[Count], uint32_t (&word)[Count / 4]) {
  const Magnitude group = group_magnitude<128>(value);
  if constexpr (sizeof(typename P::scale_dtype) == 4)
    return quantize_float32<P>(value, group, word);
  else
    return {static_cast<uint8_t>(quantize_e8m0<P>(value, group, word))};
}

/// Stores the scale of group `group` of row `row` of c.
template <class P>
MOEGEN_DEVICE void store_scale(const Args& args, uint64_t row, uint32_t group, typename P::scale_dtype scale) {
  constexpr uint32_t kGroups = ceil_div<uint32_t>(P::output_columns, 128);
  const uint64_t index =
      P::column_scales ? group * static_cast<uint64_t>(args.c_scales_stride) + row : row * kGroups + group;
  static_cast<typename P::scale_dtype*>(args.c_scales)[index] = scale;
}

}  // namespace moegen::grouped_matmul
