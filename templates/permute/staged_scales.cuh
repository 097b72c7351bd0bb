// SPDX-License-Identifier: Apache-2.0
// permute: the scales of a slice of a token, on their way to its rows. A warp has few of them, and stored from where
// they are found each would be an access of its own for every row; from shared memory neighbours leave together.
#pragma once

#include "../core/rows.cuh"
#include "../core/shared.cuh"

namespace moegen::permute {

/// Scales of the slices of a block, in shared memory: a word each.
template <class P>
struct StagedScales {
  enum : uint32_t { kOfSlice = ceil_div<uint32_t>(P::team * P::vectors, kVectorsOfScale<P>) };
  uint32_t* word;  // of this team
  uint32_t first;  // vector of the row that the slice begins with

  MOEGEN_DEVICE explicit StagedScales(uint32_t slice)
      : word(reinterpret_cast<uint32_t*>(dynamic_shared()) + row_in_block<P>() * kOfSlice),
        first(slice * P::team * P::vectors) {}

  MOEGEN_DEVICE void put(uint32_t vector, uint32_t scale) const {
    if (vector % kVectorsOfScale<P> == 0) word[(vector - first) / kVectorsOfScale<P>] = scale;
  }

  /// Stores all of them in every row that row_of(slot) names, after a barrier. Teams without a token call it, too.
  template <class RowOf>
  MOEGEN_DEVICE void send(const RowOutput& output, bool has_token, const RowOf& row_of) const {
    block_sync();
    if (!has_token) return;
    const uint32_t begin = first / kVectorsOfScale<P>;
    for (uint32_t i = index_in_team<P>(); i < P::num_slots * kOfSlice; i += P::team) {
      const uint32_t slot = i / kOfSlice, scale = i % kOfSlice;
      if (begin + scale >= kScalesOfRow<P>) continue;
      if (const uint32_t row = row_of(slot); row != kNone)
        store_scale<P>(output, uint64_t{row} * kScalesOfRow<P> + begin + scale, word[scale]);
    }
  }
};

}  // namespace moegen::permute
