// SPDX-License-Identifier: Apache-2.0
// Every thread of the grid counts in one word.
#pragma once

#include "../../../templates/core/types.cuh"

extern "C" __global__ void kernel(uint32_t* output, const uint32_t*, uint32_t) { moegen::global_add(output, 1); }
