// SPDX-License-Identifier: Apache-2.0
// Which experts a lane of a team holds, and how their logits and biases come into its registers.
//
// A team of `lanes` lanes has one token. With num_groups <= lanes each group of experts has `group_lanes` lanes of its
// own, `group_share` experts each; else each lane has `lane_groups` whole groups. Zero experts belong to no group: each
// lane has `zero_share` of them after its others. Ids ascend inside a lane.
#pragma once

#include "../core/convert.cuh"
#include "../core/lanes.cuh"
#include "../core/memory.cuh"
#include "../core/types.cuh"
#include "args.h"

namespace moegen::router {

/// Experts that one lane holds: `count` from `first` on, then `zero_count` from `zero_first` on.
struct Place {
  uint32_t first, count, zero_first, zero_count;
};

/// Signed, so that lanes past the last expert have none.
MOEGEN_DEVICE uint32_t share_of(int32_t left, uint32_t most) {
  return left <= 0 ? 0 : min_of(static_cast<uint32_t>(left), most);
}

/// Place of lane `lane` of a team.
template <class P>
MOEGEN_DEVICE Place place_of(uint32_t lane) {
  Place place;
  if constexpr (P::lane_groups == 1) {
    const uint32_t group = lane / P::group_lanes, part = lane % P::group_lanes;
    const uint32_t begin = part * P::group_share;
    place.first = group * P::group_size + begin;
    place.count = group < P::num_groups ? share_of(static_cast<int32_t>(P::group_size - begin), P::group_share) : 0;
  } else {
    place.first = lane * P::group_share;
    place.count = share_of(static_cast<int32_t>(P::num_experts - place.first), P::group_share);
  }
  const uint32_t zero_begin = lane * P::zero_share;
  place.zero_first = P::num_experts + zero_begin;
  place.zero_count = share_of(static_cast<int32_t>(P::num_zero_experts - zero_begin), P::zero_share);
  return place;
}

/// True if element `index` of the lane is an expert. A constant where every lane is full.
template <class P>
MOEGEN_DEVICE bool holds(const Place& place, uint32_t index) {
  if constexpr (P::full_lanes) return true;
  return index < P::group_share ? index < place.count : index - P::group_share < place.zero_count;
}

/// Id of element `index`.
template <class P>
MOEGEN_DEVICE uint32_t expert_at(const Place& place, uint32_t index) {
  return index < P::group_share ? place.first + index : place.zero_first + index - P::group_share;
}

/// One float for each expert of a lane; unspecified where it holds none.
template <class P>
struct Lane {
  float value[P::per_lane];
};

/// The words of one load, 4, 8 or 16 bytes. Nothing writes them while the kernel runs. `pointer` is aligned to them.
template <uint32_t Words>
MOEGEN_DEVICE void load_words(const void* pointer, uint32_t (&word)[Words]) {
#ifdef MOEGEN_TARGET_CPU
  struct alignas(4 * Words) Piece {
    uint32_t word[Words];
  };
  const Piece piece = *static_cast<const Piece*>(pointer);
  for (uint32_t i = 0; i < Words; ++i) word[i] = piece.word[i];
#else
  if constexpr (Words == 4)
    asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
        : "l"(pointer));
  else if constexpr (Words == 2)
    asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "l"(pointer));
  else
    asm("ld.global.nc.b32 %0, [%1];" : "=r"(word[0]) : "l"(pointer));
#endif
}

/// Element `index` of packed `word`s; a constant after unrolling.
template <class T, uint32_t Words>
MOEGEN_DEVICE float element(const uint32_t (&word)[Words], uint32_t index) {
  if constexpr (sizeof(T) == 4) {
    return bits_float(word[index]);
  } else {
    const uint32_t pair = word[index / 2];
    return to_float(T{static_cast<uint16_t>(index % 2 == 0 ? pair & 0xFFFFu : pair >> 16)});
  }
}

/// True if every lane's experts in a row at `row` can be loaded in pieces of `vector` elements.
template <class P, class T>
MOEGEN_DEVICE bool in_pieces(const void* row) {
  return P::vector * sizeof(T) >= 4 && reinterpret_cast<uint64_t>(row) % (P::vector * sizeof(T)) == 0;
}

/// Elements [begin, begin + Count) of a row of T into `lane` from element `At` on, in pieces of `vector`.
template <class P, class T, uint32_t At, uint32_t Count>
MOEGEN_DEVICE void load_pieces(const T* row, uint32_t begin, Lane<P>& lane) {
  constexpr uint32_t kVector = P::vector, kWords = max_of<uint32_t>(kVector * sizeof(T) / 4, 1);
#pragma unroll
  for (uint32_t i = 0; i < Count; i += kVector) {
    uint32_t word[kWords];
    load_words(row + begin + i, word);
#pragma unroll
    for (uint32_t e = 0; e < kVector; ++e) lane.value[At + i + e] = element<T>(word, e);
  }
}

/// Loads a lane's elements of a row of T. What lies outside the row's experts is never read.
template <class P, class T>
MOEGEN_DEVICE void load_lane(const T* row, const Place& place, Lane<P>& lane) {
  const bool whole = P::full_lanes || (place.count == P::group_share && P::zero_share == 0);
  if constexpr (P::vector * sizeof(T) >= 4 && P::vector * sizeof(T) <= 16) {
    if (in_pieces<P, T>(row) && whole) {
      load_pieces<P, T, 0, P::group_share>(row, place.first, lane);
      if constexpr (P::full_lanes && P::zero_share > 0)
        load_pieces<P, T, P::group_share, P::zero_share>(row, place.zero_first, lane);
      return;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < P::per_lane; ++i)
    lane.value[i] = holds<P>(place, i) ? to_float(row[expert_at<P>(place, i)]) : 0.0f;
}

/// Row of logits of `token`.
template <class P>
MOEGEN_DEVICE const typename P::logits_dtype* logits_row(const Args& args, uint32_t token) {
  return static_cast<const typename P::logits_dtype*>(args.logits) + token * static_cast<uint64_t>(args.row_stride);
}

}  // namespace moegen::router
