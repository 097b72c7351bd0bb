// SPDX-License-Identifier: Apache-2.0
// Neighbouring elements of a row as they lie in memory, in 16-byte pieces, and as floats.
#pragma once

#include "convert.cuh"
#include "memory.cuh"
#include "types.cuh"

namespace moegen {

/// `Count` elements of type T (float, bfloat16, float16).
template <class T, uint32_t Count>
struct Elements {
  static constexpr uint32_t kPieces = Count * sizeof(T) / sizeof(Vector16);
  static_assert(kPieces * sizeof(Vector16) == Count * sizeof(T), "whole 16-byte pieces");
  Vector16 piece[kPieces];

  /// Element `index`, a constant after unrolling.
  MOEGEN_DEVICE float operator[](uint32_t index) const {
    if constexpr (sizeof(T) == 4) {
      return bits_float(piece[index / 4].word[index % 4]);
    } else {
      const uint32_t word = piece[index / 8].word[index % 8 / 2];
      return to_float(T{static_cast<uint16_t>(index % 2 == 0 ? word & 0xFFFFu : word >> 16)});
    }
  }
};

/// The elements from number `first` of `base` on, whose address is a multiple of 16. Nothing writes them meanwhile.
template <class T, uint32_t Count>
MOEGEN_DEVICE Elements<T, Count> load_elements(const void* base, uint64_t first) {
  const char* pointer = static_cast<const char*>(base) + first * sizeof(T);
  Elements<T, Count> elements;
#pragma unroll
  for (uint32_t i = 0; i < Elements<T, Count>::kPieces; ++i)
    elements.piece[i] = load_constant(pointer + i * sizeof(Vector16));
  return elements;
}

/// 16 bytes of elements of type T, rounded from `value`.
template <class T>
MOEGEN_DEVICE Vector16 pack_elements(const float (&value)[16 / sizeof(T)]) {
  Vector16 packed;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      packed.word[i] = float_bits(value[i]);
    else
      packed.word[i] = pack_pair(T{}, value[2 * i], value[2 * i + 1]);
  }
  return packed;
}

}  // namespace moegen
