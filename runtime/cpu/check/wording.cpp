// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/wording.hpp"

#include <fmt/format.h>

#include "cpu/check/races.hpp"

namespace moegen::cpu {
namespace {

std::string_view verb(Access kind) noexcept {
  switch (kind) {
    case Access::read: return "read of";
    case Access::write: return "write of";
    case Access::atomic: return "atomic operation on";
    case Access::atomic_load: return "atomic load of";
    case Access::atomic_store: return "atomic store of";
  }
  return "access of";
}

std::string describe_bytes(std::size_t bytes) { return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s"); }

std::string describe_gap(std::size_t bytes) { return bytes == 0 ? "right" : describe_bytes(bytes); }

}  // namespace

std::string_view to_string(Scope scope) noexcept {
  switch (scope) {
    case Scope::block: return "block";
    case Scope::cluster: return "cluster";
    case Scope::device: return "device";
    case Scope::system: return "system";
  }
  return "unknown";
}

std::string describe_action(const Identity& who, Tag tag) {
  if (who.operation != nullptr) return fmt::format("{} ({})", who.operation, writes(tag.kind()) ? "write" : "read");
  std::string action = tag.bytes() != 0 ? fmt::format("{} {}", verb(tag.kind()), describe_bytes(tag.bytes()))
                                        : fmt::format("{} many bytes", verb(tag.kind()));
  if (is_atomic(tag.kind())) action += fmt::format(", {} scope", to_string(tag.scope()));
  return action;
}

std::string describe_offset(std::string_view buffer, std::size_t offset, std::uint32_t bytes) {
  const bool is_element = bytes > 0 && bytes <= 16 && offset % bytes == 0;
  return fmt::format("'{}'+{}{}", buffer, offset,
                     is_element ? fmt::format(" (element {} of {})", offset / bytes, describe_bytes(bytes)) : "");
}

std::string describe_shared(std::size_t offset, std::uint32_t block, std::uint32_t own) {
  return fmt::format("shared+{:#x}{}", offset, block != own ? fmt::format(" of block {}", block) : "");
}

std::string describe_distance(std::uintptr_t address, std::uintptr_t begin, std::uintptr_t end, std::string_view name) {
  if (address >= end)
    return fmt::format("{} past the end of {} ({})", describe_gap(address - end), name, describe_bytes(end - begin));
  return fmt::format("{} before {} ({})", describe_bytes(begin - address), name, describe_bytes(end - begin));
}

std::string describe_swizzle(std::uint32_t span) {
  return span == 0 ? "in no swizzle" : fmt::format("in the {}-byte swizzle", span);
}

}  // namespace moegen::cpu
