// SPDX-License-Identifier: Apache-2.0
// Warp 0 hands words to warp 1 through a named barrier; it does not wait itself.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::bugs {

enum : uint32_t { kHandOver = 1, kBoth = 64 };

}  // namespace moegen::bugs

extern "C" __global__ void kernel(uint32_t* output, const uint32_t* input, uint32_t) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  if (warp_index() == 0) {
    words[lane_index()] = 0;
    warp_sync();
    words[31 - lane_index()] = input[lane_index()];
    named_arrive(bugs::kHandOver, bugs::kBoth);
  } else {
    named_sync(bugs::kHandOver, bugs::kBoth);
    output[lane_index()] = words[lane_index()];
  }
}
