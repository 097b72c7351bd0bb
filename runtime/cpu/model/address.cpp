// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/address.hpp"

#include <optional>

#include <fmt/core.h>

#include "cpu/buffers.hpp"
#include "cpu/model/launch.hpp"

namespace moegen::cpu {
namespace {

/// Memory that no buffer near it explains is named by its number alone.
constexpr std::uintptr_t kNear = 1 << 20;

std::string name_in_shared(const Block& block, const Block& of, const void* address) {
  std::string at = fmt::format("shared+{:#x}", of.offset_of(address));
  return &of == &block ? at : fmt::format("{} of block {}", at, of.index);
}

std::string name_near(std::uintptr_t address, const std::optional<Buffer>& nearest) {
  std::string number = fmt::format("{:#x}", address);
  if (!nearest) return number;
  if (address >= nearest->end) {
    const std::uintptr_t distance = address - nearest->end;
    if (distance > kNear) return number;
    return fmt::format("{}, {} bytes after the end of '{}'", number, distance, nearest->name);
  }
  const std::uintptr_t distance = nearest->begin - address;
  if (distance > kNear) return number;
  return fmt::format("{}, {} bytes before '{}'", number, distance, nearest->name);
}

}  // namespace

std::string name_address(const Scheduler& scheduler, const Block& block, const void* address) {
  if (const Block* const of = block.cohort->block_of_shared(address)) return name_in_shared(block, *of, address);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const Buffers* const buffers = scheduler.launch().request.buffers;
  if (buffers == nullptr) return fmt::format("{:#x}", at);
  if (const std::optional<Buffer> buffer = buffers->find(at)) {
    return fmt::format("'{}'+{}", buffer->name, at - buffer->begin);
  }
  return name_near(at, buffers->nearest(at));
}

void check_resident(Scheduler& scheduler, const void* address, Site site, const char* action) {
  const Cohort& cohort = *scheduler.running().block->cohort;
  if (cohort.blocks.size() == 1) return;
  const Block* const of = cohort.block_of_shared(address);
  if (of == nullptr || !of->ended()) return;
  scheduler.fail(CpuFinding::out_of_bounds,
                 fmt::format("shared+{:#x} of block {}, which has ended", of->offset_of(address), of->index), site,
                 action);
}

}  // namespace moegen::cpu
