// SPDX-License-Identifier: Apache-2.0
// finalize: the weighted sum of a token's expert rows, gathered through the restore order.
//
// Algorithm. A thread owns `vector` neighbouring columns of one token. It loads the token's restore entries and
// weights, then its columns of up to `slots_in_flight` rows at once (each 16 bytes a load), and adds them in slot order
// in float. Terms follow in a fixed order: slots 0..num_slots-1, the shared expert, the residual; then the user
// expression; then one rounding and one store. A row that restore does not name is not read.
//
// `Custom` is what a config adds: gate(logit), the weight of the shared expert, and epilogue(args, value, token,
// column).
//
// Roles: all threads alike; block = `threads` columns-vectors of one token, `blocks_per_token` blocks a token.
// Shared memory and barriers: none.
#pragma once

#include "../core/convert.cuh"
#include "../core/elements.cuh"
#include "../core/grid.cuh"
#include "../core/memory.cuh"
#include "../core/thread.cuh"
#include "../core/types.cuh"
#include "args.h"

namespace moegen::finalize {

/// `vector` elements of type T as they lie in memory.
template <class P, class T>
using Packed = Elements<T, P::vector>;

template <class P>
struct Columns {
  float value[P::vector];
};

template <class P, class T>
MOEGEN_DEVICE Packed<P, T> load_packed(const void* base, uint64_t row, uint32_t column) {
  return load_elements<T, P::vector>(base, row * P::hidden + column);
}

/// Rounds to the output's dtype and stores.
template <class P>
MOEGEN_DEVICE void store_columns(const Args& args, uint64_t token, uint32_t column, const Columns<P>& sum) {
  using T = typename P::output_dtype;
  char* pointer = static_cast<char*>(args.output) + (token * P::hidden + column) * sizeof(T);
  Packed<P, T> packed;
#pragma unroll
  for (uint32_t i = 0; i < P::vector; i += 2) {
    if constexpr (sizeof(T) == 4) {
      packed.piece[i / 4].word[i % 4] = float_bits(sum.value[i]);
      packed.piece[i / 4].word[i % 4 + 1] = float_bits(sum.value[i + 1]);
    } else {
      packed.piece[i / 8].word[i % 8 / 2] = pack_pair(T{}, sum.value[i], sum.value[i + 1]);
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < Packed<P, T>::kPieces; ++i) store(pointer + i * sizeof(Vector16), packed.piece[i]);
}

/// Where one slot's contribution comes from.
struct SlotSource {
  uint32_t row;      // row of down, or kNone
  float weight;      // 1 where the rows already carry theirs; 0 where there is no row
  int32_t expert;    // local expert, for its bias; -1 if none
  bool zero_expert;  // the contribution is weight * x[token]
};

/// Local expert of an id as create_indices numbers it, or -1.
template <class P>
MOEGEN_DEVICE int32_t local_expert(int64_t id) {
  if (id >= P::first_expert && id < P::first_expert + P::num_local_experts)
    return static_cast<int32_t>(id - P::first_expert);
  const int64_t first_shared = P::num_experts + P::num_zero_experts;
  if (id >= first_shared && id < first_shared + P::num_shared_slots)
    return static_cast<int32_t>(P::num_local_experts + id - first_shared);
  return -1;
}

template <class P>
MOEGEN_DEVICE SlotSource load_source(const Args& args, uint64_t pair) {
  SlotSource source = {args.restore[pair], 1.0f, -1, false};
  if constexpr (!P::weights_applied)
    source.weight = to_float(static_cast<const typename P::weight_dtype*>(args.weights)[pair]);
  if constexpr (P::num_zero_experts > 0 || P::bias) {
    const int64_t id = static_cast<int64_t>(static_cast<const typename P::id_dtype*>(args.topk_ids)[pair]);
    source.expert = local_expert<P>(id);
    source.zero_expert = id >= P::num_experts && id < P::num_experts + P::num_zero_experts;
  }
  return source;
}

/// Adds `scale` times a packed row to the sum.
template <class P, class T>
MOEGEN_DEVICE void add_row(Columns<P>& sum, const Packed<P, T>& packed, float scale) {
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] += scale * packed[i];
}

/// Adds weight * (row + bias of its expert).
template <class P, class T>
MOEGEN_DEVICE void add_biased_row(const Args& args, Columns<P>& sum, const Packed<P, T>& packed, uint32_t column,
                                  const SlotSource& source) {
  if (source.expert < 0) return add_row<P, T>(sum, packed, source.weight);
  const auto bias = load_packed<P, T>(args.bias, static_cast<uint64_t>(source.expert), column);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] += source.weight * (packed[i] + bias[i]);
}

/// Adds the slots [first, first + Count): all rows are asked for before the first is used.
template <class P, uint32_t Count>
MOEGEN_DEVICE void add_slots(const Args& args, uint64_t token, uint32_t column, uint32_t first, Columns<P>& sum) {
  using Down = typename P::down_dtype;
  SlotSource source[Count];
  Packed<P, Down> rows[Count];
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) source[i] = load_source<P>(args, token * P::num_slots + first + i);
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i)
    if (source[i].row != kNone) rows[i] = load_packed<P, Down>(args.down, source[i].row, column);
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) {
    if (source[i].row != kNone) {
      if constexpr (P::bias)
        add_biased_row<P, Down>(args, sum, rows[i], column, source[i]);
      else
        add_row<P, Down>(sum, rows[i], source[i].weight);
    } else if constexpr (P::num_zero_experts > 0) {
      if (source[i].zero_expert)
        add_row<P>(sum, load_packed<P, typename P::activation_dtype>(args.x, token, column), source[i].weight);
    }
  }
}

/// The terms that follow the experts, in their fixed order.
template <class P, class Custom>
MOEGEN_DEVICE void add_extras(const Args& args, uint64_t token, uint32_t column, Columns<P>& sum) {
  if constexpr (P::shared) {
    float gate = 1.0f;
    if constexpr (P::shared_gate) gate = Custom::gate(args.shared_gate[token]);
    add_row<P>(sum, load_packed<P, typename P::down_dtype>(args.shared, token, column), gate);
  }
  if constexpr (P::residual)
    add_row<P>(sum, load_packed<P, typename P::activation_dtype>(args.residual, token, column), 1.0f);
}

template <class P, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  const uint64_t token = block_index() / P::blocks_per_token;
  const uint32_t slice = block_index() % P::blocks_per_token;
  const uint32_t column = (slice * P::threads + thread_index()) * P::vector;
  launch_dependents();
  wait_for_dependencies();
  if (column >= P::hidden) return;
  Columns<P> sum = {};
  constexpr uint32_t kWhole = P::num_slots / P::slots_in_flight * P::slots_in_flight;
#pragma unroll 1
  for (uint32_t first = 0; first < kWhole; first += P::slots_in_flight)
    add_slots<P, P::slots_in_flight>(args, token, column, first, sum);
  if constexpr (kWhole < P::num_slots) add_slots<P, P::num_slots - kWhole>(args, token, column, kWhole, sum);
  add_extras<P, Custom>(args, token, column, sum);
  if constexpr (P::epilogue) {
#pragma unroll
    for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] = Custom::epilogue(args, sum.value[i], token, column + i);
  }
  store_columns<P>(args, token, column, sum);
}

}  // namespace moegen::finalize
