// SPDX-License-Identifier: Apache-2.0
// TensorMapLayout: what the 128 bytes of a TensorMap hold on the CPU target. The host writes it (tensor_map.cpp), the
// model of tensor copies reads it.
#pragma once

#include <cstdint>

namespace moegen::cpu {

struct TensorMapLayout {
  static constexpr std::uint64_t kSignature = 0x50414d544e47454dull;  ///< so that a GPU's map, or none, is told apart

  std::uint64_t signature;
  std::uint64_t base;        ///< address of element 0
  std::uint64_t dims[5];     ///< elements, innermost first
  std::uint64_t strides[4];  ///< bytes; strides[i] belongs to dims[i + 1]
  std::uint16_t box[5];      ///< elements
  std::uint8_t rank;         ///< 1 .. 5
  std::uint8_t element_bytes;
  std::uint8_t span;  ///< bytes of the swizzle, 0 without
  std::uint8_t unused[27];
};
static_assert(sizeof(TensorMapLayout) == 128);

}  // namespace moegen::cpu
