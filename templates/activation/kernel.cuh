// SPDX-License-Identifier: Apache-2.0
// activation: what lies between the two matmuls of an expert, where no epilogue did it.
//
// Algorithm: one pass of core/rows.cuh. A vector of gates and one of ups are read, the activation is taken in float,
// then the user expression, then the row is rounded or quantised. Where something depends on the expert, the warps of a
// row find its group: the last one that begins at or before the row, 32 candidates a step.
//
// `Custom::epilogue(args, value, row, column, expert)` is what a config adds; expert is a local one, -1: none.
//
// Roles, shared memory and barriers: core/rows.cuh; with `by_expert` a team is whole warps.
#pragma once

#include "../core/activation.cuh"
#include "../core/grid.cuh"
#include "../core/rows.cuh"
#include "args.h"

namespace moegen::activation {

/// Gate and up of one vector.
template <class P>
struct Pairs {
  using T = typename P::activation_dtype;
  Elements<T, P::vector> first, second;  // halves: gate, up. Interleaved: the first and the second half of the pairs

  MOEGEN_DEVICE float gate(uint32_t index) const {
    if constexpr (!P::interleaved) return first[index];
    return index < P::vector / 2 ? first[2 * index] : second[2 * index - P::vector];
  }
  MOEGEN_DEVICE float up(uint32_t index) const {
    if constexpr (!P::interleaved) return second[index];
    return index < P::vector / 2 ? first[2 * index + 1] : second[2 * index + 1 - P::vector];
  }
};

template <class P>
MOEGEN_DEVICE Pairs<P> load_pairs(const void* up, uint64_t row, uint32_t vector) {
  using T = typename P::activation_dtype;
  const uint64_t base = row * 2 * P::width;
  const uint64_t first = base + (P::interleaved ? 2 : 1) * vector * P::vector;
  const uint64_t second = first + (P::interleaved ? P::vector : P::width);
  return {load_elements<T, P::vector>(up, first), load_elements<T, P::vector>(up, second)};
}

/// The activation of one vector.
template <class P>
MOEGEN_DEVICE void activate_vector(const Args& args, uint64_t row, uint32_t vector, float limit,
                                   float (&value)[P::vector]) {
  if constexpr (P::activation_gated) {
    const Pairs<P> pairs = load_pairs<P>(args.up, row, vector);
#pragma unroll
    for (uint32_t i = 0; i < P::vector; ++i) value[i] = activate<P>(pairs.gate(i), pairs.up(i), limit);
  } else {
    const uint64_t first = row * P::width + vector * P::vector;
    const auto packed = load_elements<typename P::activation_dtype, P::vector>(args.up, first);
#pragma unroll
    for (uint32_t i = 0; i < P::vector; ++i) value[i] = activate<P>(packed[i]);
  }
}

/// Number of groups that begin at or before `row`, by all lanes of a warp; the last group begins at its end.
MOEGEN_DEVICE uint32_t groups_before(const uint32_t* starts, uint32_t num_groups, uint64_t row) {
  uint32_t low = 0, high = num_groups;  // the answer is in [low, high]
  while (low < high) {
    const uint32_t step = ceil_div<uint32_t>(high - low, kWarpSize);
    const uint32_t probe = low + (lane_index() + 1) * step - 1;  // the last of this lane's candidates
    const uint32_t passed = popcount(ballot(probe < high && starts[probe] <= row));
    const uint32_t next = low + passed * step;
    high = min_of(high, next + step - 1);
    low = next;
  }
  return low;
}

/// Local expert of a row, or -1.
MOEGEN_DEVICE int32_t expert_of(const Args& args, uint64_t row) {
  const uint32_t groups = groups_before(args.expert_start_indices, static_cast<uint32_t>(args.num_groups), row);
  return groups == 0 ? -1 : args.expert_ids[groups - 1];
}

template <class P, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  launch_dependents();
  wait_for_dependencies();
  const RowOutput output = row_output<P>(args);
  for_each_row<P>(rows_in_use(args.row_count, args.num_rows), [&](uint64_t row, bool has_row, uint32_t slice,
                                                                  uint32_t parity) {
    int32_t expert = -1;
    if constexpr (P::by_expert) expert = expert_of(args, row);
    const float limit = activation_limit<P>(args.limits, expert);
    const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
      activate_vector<P>(args, row, vector, limit, value);
      if constexpr (P::epilogue) {
#pragma unroll
        for (uint32_t i = 0; i < P::vector; ++i)
          value[i] = Custom::epilogue(args, value[i], row, vector * P::vector + i, expert);
      }
    };
    const auto sink = [&](uint32_t vector, const Encoded& encoded) { store_encoded<P>(output, row, vector, encoded); };
    encode_row<P>(output, has_row, slice, source, sink, parity);
  });
}

}  // namespace moegen::activation
