// SPDX-License-Identifier: Apache-2.0
// Sums the words of 16-byte pieces.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  const Vector16 piece = load_constant(input + 4 * thread_index());
  output[thread_index()] = piece.word[0] + piece.word[1] + piece.word[2] + piece.word[3];
}
