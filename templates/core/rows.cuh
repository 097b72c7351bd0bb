// SPDX-License-Identifier: Apache-2.0
// Rows of floats, element by element in and encoded out: what permute, activation and quantize have in common.
//
// A team of `team` threads takes a slice of `team * vectors` vectors of one row, thread t the vectors t, t + team, ...
// of it; `rows_per_block` teams make a block, `blocks_per_row` slices a row. Schemes whose scale depends on the whole
// row (rowwise) have one slice a row, kept in registers between the two steps; a row too wide for that is read twice.
// Shared memory: one word for each warp and parity, for the maximum of a row of several warps. One barrier a row.
#pragma once

#include "row_codes.cuh"
#include "shared.cuh"
#include "thread.cuh"
#include "types.cuh"
#include "warp.cuh"

namespace moegen {

/// This thread's place in its block.
template <class P>
MOEGEN_DEVICE uint32_t row_in_block() {
  return P::rows_per_block == 1 ? 0 : thread_index() / P::team;
}
template <class P>
MOEGEN_DEVICE uint32_t index_in_team() {
  return P::rows_per_block == 1 ? thread_index() : thread_index() % P::team;
}

/// Largest of `value` in the team. `parity` alternates from one call of a block to its next.
template <class P>
MOEGEN_DEVICE float team_max(float value, uint32_t parity) {
  const uint32_t largest = warp_max(float_bits(value));
  if constexpr (P::team == kWarpSize) return bits_float(largest);
  constexpr uint32_t kWarps = P::team / kWarpSize;
  uint32_t* word = reinterpret_cast<uint32_t*>(dynamic_shared()) + parity * kWarps;
  if (lane_index() == 0) word[warp_index()] = largest;
  block_sync();
  return bits_float(warp_max(lane_index() < kWarps ? word[lane_index()] : 0));
}

/// The values of vector `vector`, zeros past the end of a row or without one.
template <class P, class Source>
MOEGEN_DEVICE void read_vector(const Source& source, bool has_row, uint32_t vector, float (&value)[P::vector]) {
  if (has_row && vector < kVectorsOfRow<P>) return source(vector, value);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) value[i] = 0.0f;
}

/// Encodes the team's slice of a row. source(vector, value) gives floats, sink(vector, encoded) takes what they become.
/// All threads of the block call it; those without a row get zeros and give nothing.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_slice(const RowOutput& output, bool has_row, uint32_t first, const Source& source,
                                const Sink& sink, uint32_t parity) {
  using Scheme = typename P::scheme_kind;
  float value[P::vectors][P::vector];
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i) read_vector<P>(source, has_row, first + i * P::team, value[i]);
  Magnitude row = kNothing;
  if constexpr (Scheme::whole_row) {
#pragma unroll
    for (uint32_t i = 0; i < P::vectors; ++i) row = larger_of(row, finite_magnitude(value[i]));
    row.largest = team_max<P>(row.largest, parity);
  }
#pragma unroll
  for (uint32_t i = 0; i < P::vectors; ++i) {
    const uint32_t vector = first + i * P::team;
    const Encoded encoded = Scheme::template encode<P>(value[i], row, output);
    if (has_row && vector < kVectorsOfRow<P>) sink(vector, encoded);
  }
}

/// The same for a row that is too wide to keep: once for its maximum, once for its codes.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_wide_row(const RowOutput& output, bool has_row, const Source& source, const Sink& sink,
                                   uint32_t parity) {
  constexpr uint32_t kSteps = ceil_div<uint32_t>(kVectorsOfRow<P>, P::team);
  float value[P::vector];
  Magnitude row = kNothing;
#pragma unroll 1
  for (uint32_t step = 0; step < kSteps; ++step) {
    read_vector<P>(source, has_row, step * P::team + index_in_team<P>(), value);
    row = larger_of(row, finite_magnitude(value));
  }
  row.largest = team_max<P>(row.largest, parity);
#pragma unroll 1
  for (uint32_t step = 0; step < kSteps; ++step) {
    const uint32_t vector = step * P::team + index_in_team<P>();
    read_vector<P>(source, has_row, vector, value);
    const Encoded encoded = P::scheme_kind::template encode<P>(value, row, output);
    if (has_row && vector < kVectorsOfRow<P>) sink(vector, encoded);
  }
}

/// Slice `slice` of a row, by whichever of the two the plan chose.
template <class P, class Source, class Sink>
MOEGEN_DEVICE void encode_row(const RowOutput& output, bool has_row, uint32_t slice, const Source& source,
                              const Sink& sink, uint32_t parity) {
  if constexpr (P::row_kept)
    encode_slice<P>(output, has_row, slice * P::team * P::vectors + index_in_team<P>(), source, sink, parity);
  else
    encode_wide_row<P>(output, has_row, source, sink, parity);
}

/// Rows that a kernel goes over: `count` on the device where there is one, at most `bound`.
MOEGEN_DEVICE uint64_t rows_in_use(const uint32_t* count, int64_t bound) {
  const uint64_t rows = static_cast<uint64_t>(bound);
  return count == nullptr ? rows : min_of<uint64_t>(*count, rows);
}

/// Calls body(row, has_row, slice, parity) for every row below `count` that is this block's: the grid strides over
/// them, as it may be smaller than their number, and their number smaller than the host knows.
template <class P, class Body>
MOEGEN_DEVICE void for_each_row(uint64_t count, const Body& body) {
  uint32_t parity = 0;
  for (uint64_t unit = block_index();; unit += num_blocks(), parity ^= 1) {
    const uint64_t first = unit / P::blocks_per_row * P::rows_per_block;
    if (first >= count) return;
    const uint64_t row = first + row_in_block<P>();
    const bool in_team = P::rows_per_block == 1 || row_in_block<P>() < P::rows_per_block;
    body(row, in_team && row < count, static_cast<uint32_t>(unit % P::blocks_per_row), parity);
  }
}

}  // namespace moegen
