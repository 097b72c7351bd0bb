// SPDX-License-Identifier: Apache-2.0
// Addresses as messages name them, and whose they are.
#pragma once

#include <string>

#include "cpu/model/block.hpp"

namespace moegen::cpu {

/// "shared+0x20", "shared+0x20 of block 3", "'workspace'+16", "0x7f0012345678, 12 bytes after the end of 'x'".
std::string name_address(const Scheduler& scheduler, const Block& block, const void* address);

/// Fails where `address` is in the shared memory of a block of the running thread's cohort that has ended.
void check_resident(Scheduler& scheduler, const void* address, Site site, const char* action);

}  // namespace moegen::cpu
