// SPDX-License-Identifier: Apache-2.0
// permute: the tokens in expert order, quantised where the plan says so.
//
// Algorithm. Most blocks take tokens: a team reads its slice of a token, encodes it once and writes it to the row of
// every slot that has one (restore), so that a token is read and quantised once however many experts it goes to; where
// there are few tokens, several blocks share the slots of each. With weights on the input each slot has values of its
// own and is encoded by itself. The last `pad_blocks`, one for each `pads_per_block` rows that may pad a group, write
// zeros to those that order says are padding.
//
// Roles, shared memory and barriers: core/rows.cuh. With `staged_scales` the scales of a slice meet in shared memory;
// one barrier more.
#pragma once

#include "../core/grid.cuh"
#include "../core/rows.cuh"
#include "args.h"
#include "staged_scales.cuh"

namespace moegen::permute {

template <class P>
using Row = Elements<typename P::activation_dtype, P::vector>;

/// The slots of a token that this block takes.
struct Slots {
  uint32_t first, end;
};

/// Rows of the pairs of one token, none for slots of other blocks.
template <class P>
struct Targets {
  uint32_t row[P::num_slots];
};

template <class P>
MOEGEN_DEVICE uint32_t target_of(const Args& args, uint64_t token, const Slots& slots, uint32_t slot) {
  return slot >= slots.first && slot < slots.end ? args.restore[token * P::num_slots + slot] : kNone;
}

template <class P>
MOEGEN_DEVICE Targets<P> load_targets(const Args& args, uint64_t token, bool has_token, const Slots& slots) {
  Targets<P> targets;
#pragma unroll
  for (uint32_t slot = 0; slot < P::num_slots; ++slot)
    targets.row[slot] = has_token ? target_of<P>(args, token, slots, slot) : kNone;
  return targets;
}

template <class P>
MOEGEN_DEVICE void read_token(const Args& args, uint64_t token, uint32_t vector, float factor,
                              float (&value)[P::vector]) {
  const uint64_t first = token * P::width + vector * P::vector;
  const Row<P> packed = load_elements<typename P::activation_dtype, P::vector>(args.x, first);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) value[i] = P::weights_on_input ? packed[i] * factor : packed[i];
}

/// One token to all of its rows, bit by bit.
template <class P>
MOEGEN_DEVICE void copy_token(const Args& args, const RowOutput& output, uint64_t token, const Slots& slots,
                              uint32_t slice) {
  const Targets<P> targets = load_targets<P>(args, token, true, slots);
  const char* source = static_cast<const char*>(args.x) + token * kVectorsOfRow<P> * sizeof(Vector16);
  const uint32_t first = slice * P::team * P::vectors + index_in_team<P>();
  Vector16 piece[P::vectors];
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i)
    if (first + i * P::team < kVectorsOfRow<P>)
      piece[i] = load_constant(source + (first + i * P::team) * sizeof(Vector16));
#pragma unroll
  for (uint32_t slot = 0; slot < P::num_slots; ++slot) {
    if (targets.row[slot] == kNone) continue;
#pragma unroll
    for (uint32_t i = 0; i < P::vectors; ++i)
      if (first + i * P::team < kVectorsOfRow<P>)
        store_codes<P>(output, targets.row[slot], first + i * P::team, {piece[i], 0});
  }
}

/// One token to all of its rows, encoded once.
template <class P>
MOEGEN_DEVICE void scatter_token(const Args& args, const RowOutput& output, uint64_t token, bool has_token,
                                 const Slots& slots, uint32_t slice) {
  const Targets<P> targets = load_targets<P>(args, token, has_token, slots);
  const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
    read_token<P>(args, token, vector, 1.0f, value);
  };
  const auto sink = [&](uint32_t vector, const Encoded& encoded) {
#pragma unroll
    for (uint32_t slot = 0; slot < P::num_slots; ++slot) {
      if (targets.row[slot] == kNone) continue;
      store_codes<P>(output, targets.row[slot], vector, encoded);
      if constexpr (!P::staged_scales) store_scales<P>(output, targets.row[slot], vector, encoded);
    }
    if constexpr (P::staged_scales) StagedScales<P>(slice).put(vector, encoded.scale);
  };
  encode_row<P>(output, has_token, slice, source, sink, 0);
  const auto row_of = [&](uint32_t slot) { return target_of<P>(args, token, slots, slot); };
  if constexpr (P::staged_scales) StagedScales<P>(slice).send(output, has_token, row_of);
}

/// One token to all of its rows, each times its weight.
template <class P>
MOEGEN_DEVICE void scatter_weighted(const Args& args, const RowOutput& output, uint64_t token, bool has_token,
                                    const Slots& slots, uint32_t slice) {
#pragma unroll 1
  for (uint32_t slot = slots.first; slot < (P::num_slots == 1 ? 1 : slots.end); ++slot) {
    const uint64_t pair = token * P::num_slots + slot;
    const uint32_t row = has_token ? args.restore[pair] : kNone;  // the token is read meanwhile
    const float factor =
        row != kNone ? to_float(static_cast<const typename P::weight_dtype*>(args.weights)[pair]) : 0.0f;
    const auto source = [&](uint32_t vector, float(&value)[P::vector]) {
      read_token<P>(args, token, vector, factor, value);
    };
    const auto sink = [&](uint32_t vector, const Encoded& encoded) {
      if (row != kNone) store_encoded<P>(output, row, vector, encoded);
    };
    encode_row<P>(output, has_token, slice, source, sink, slot % 2);
  }
}

/// Zeros in row `row`, by its team: codes of 0 under the scale of a group of zeros.
template <class P>
MOEGEN_DEVICE void clear_row(const RowOutput& output, uint64_t row) {
  const Encoded zeros = {{}, P::scheme_kind::template scale_of_zeros<P>()};
#pragma unroll 1
  for (uint32_t vector = index_in_team<P>(); vector < kVectorsOfRow<P>; vector += P::team)
    store_encoded<P>(output, row, vector, zeros);
}

/// Padding rows of one block: `pads_per_block` distances from the end of one group, a team each. Padding is at the end,
/// and order says where it begins.
template <class P>
MOEGEN_DEVICE void clear_padding(const Args& args, const RowOutput& output, uint32_t block) {
  constexpr uint32_t kBlocksPerGroup = ceil_div<uint32_t>(P::pad_rows_to - 1, P::pads_per_block);
  const uint32_t group = block / kBlocksPerGroup, first = block % kBlocksPerGroup * P::pads_per_block + 1;
  const uint32_t begin = args.expert_start_indices[group], end = args.expert_start_indices[group + 1];
  if (row_in_block<P>() >= P::rows_per_block) return;
#pragma unroll 1
  for (uint32_t i = 0; i < P::pads_per_block; i += P::rows_per_block) {
    const uint32_t distance = first + i + row_in_block<P>();
    const bool in_group = distance < P::pad_rows_to && begin + distance <= end;
    if (in_group && args.order[end - distance] == kNone) clear_row<P>(output, end - distance);
  }
}

/// The slots of part `part` of the blocks.
template <class P>
MOEGEN_DEVICE Slots slots_of(uint32_t part, uint32_t token_blocks) {
  if constexpr (P::num_slots == 1) return {0, 1};
  const uint32_t num_parts = (num_blocks() - P::pad_blocks) / token_blocks;
  const uint32_t share = ceil_div<uint32_t>(P::num_slots, num_parts);
  return {part * share, min_of<uint32_t>((part + 1) * share, P::num_slots)};
}

/// Tokens of this block: blocks below `token_blocks` have all tokens once, and so on for each part of their slots.
template <class P>
MOEGEN_DEVICE void scatter(const Args& args, const RowOutput& output, uint32_t token_blocks) {
  const uint32_t part = P::num_slots == 1 ? 0 : block_index() / token_blocks;
  const uint32_t unit = block_index() - part * token_blocks;
  const Slots slots = slots_of<P>(part, token_blocks);
  const uint32_t slice = unit % P::blocks_per_row, in_block = row_in_block<P>();
  const uint64_t token = uint64_t{unit / P::blocks_per_row} * P::rows_per_block + in_block;
  const bool has_token = in_block < P::rows_per_block && token < static_cast<uint64_t>(args.num_tokens);
  if constexpr (P::weights_on_input)
    scatter_weighted<P>(args, output, token, has_token, slots, slice);
  else if constexpr (P::quantised)
    scatter_token<P>(args, output, token, has_token, slots, slice);
  else if (has_token)
    copy_token<P>(args, output, token, slots, slice);
}

template <class P>
MOEGEN_DEVICE void run(const Args& args) {
  launch_dependents();
  wait_for_dependencies();
  const RowOutput output = row_output<P>(args);
  const auto token_blocks = static_cast<uint32_t>(
      ceil_div<uint64_t>(static_cast<uint64_t>(args.num_tokens), P::rows_per_block) * P::blocks_per_row);
  if (const uint32_t rest = num_blocks() - P::pad_blocks; block_index() < rest)
    scatter<P>(args, output, token_blocks);
  else if constexpr (P::pad_rows_to > 1)
    clear_padding<P>(args, output, block_index() - rest);
}

}  // namespace moegen::permute
