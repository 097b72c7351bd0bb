// SPDX-License-Identifier: Apache-2.0
#include "occupancy.hpp"

#include <algorithm>

namespace moegen::cli {
namespace {

// "Compute Capabilities" of the CUDA C++ Programming Guide (13.0), the same for all archs of moegen: four partitions
// with 16384 registers each, given to warps in units of 256; 1 KiB of shared memory of each block is the system's.
constexpr int kPartitions = 4, kPartitionRegisters = 16384, kRegisterUnit = 256, kWarp = 32;
constexpr int kReservedBytes = 1024, kSharedUnit = 128;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

int most_blocks(const Arch& arch) {
  if (arch.major == 8 && arch.minor == 6) return 16;
  return arch.max_threads_per_sm == 1536 ? 24 : 32;
}

int blocks_by_registers(const BlockResources& block) {
  const int of_warp = ceil_div(std::max(1, block.registers) * kWarp, kRegisterUnit) * kRegisterUnit;
  return kPartitions * (kPartitionRegisters / of_warp) / ceil_div(block.threads, kWarp);
}

// One block may have all but the reserved part of what the multiprocessor has.
int blocks_by_shared(const Arch& arch, const BlockResources& block) {
  const int own = ceil_div(block.shared_bytes, kSharedUnit) * kSharedUnit + kReservedBytes;
  return (arch.max_shared_bytes + kReservedBytes) / own;
}

}  // namespace

int blocks_per_sm(const Arch& arch, const BlockResources& block) {
  if (block.threads <= 0) return 0;
  return std::min({most_blocks(arch), arch.max_threads_per_sm / (ceil_div(block.threads, kWarp) * kWarp),
                   blocks_by_registers(block), blocks_by_shared(arch, block)});
}

}  // namespace moegen::cli
