// SPDX-License-Identifier: Apache-2.0
// How many blocks of an entry point one multiprocessor holds at a time, by its limits; needs no GPU.
#pragma once

#include <moegen/arch.hpp>

namespace moegen::cli {

/// What one block takes.
struct BlockResources {
  int threads = 0;
  int registers = 0;     ///< of a thread
  int shared_bytes = 0;  ///< static and dynamic
};

/// 0 if `arch` cannot hold one.
int blocks_per_sm(const Arch& arch, const BlockResources& block);

}  // namespace moegen::cli
