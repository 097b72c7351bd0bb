// SPDX-License-Identifier: Apache-2.0
// quantize: rows of floats to codes and scales, where the kernel that produced them did not quantise them.
//
// Algorithm: one pass of core/rows.cuh. Roles, shared memory and barriers: there.
#pragma once

#include "../core/grid.cuh"
#include "../core/rows.cuh"
#include "args.h"

namespace moegen::quantize {

template <class P>
MOEGEN_DEVICE void run(const Args& args) {
  launch_dependents();
  wait_for_dependencies();
  const RowOutput output = row_output<P>(args);
  for_each_row<P>(rows_in_use(args.row_count, args.num_rows), [&](uint64_t row, bool has_row, uint32_t slice,
                                                                  uint32_t parity) {
    const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
      const uint64_t first = row * P::width + vector * P::vector;
      const auto packed = load_elements<typename P::activation_dtype, P::vector>(args.x, first);
#pragma unroll
      for (uint32_t i = 0; i < P::vector; ++i) value[i] = packed[i];
    };
    const auto sink = [&](uint32_t vector, const Encoded& encoded) { store_encoded<P>(output, row, vector, encoded); };
    encode_row<P>(output, has_row, slice, source, sink, parity);
  });
}

}  // namespace moegen::quantize
