// SPDX-License-Identifier: Apache-2.0
// How findings of the checks are worded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cpu/check/access_set.hpp"
#include "cpu/check/actors.hpp"

namespace moegen::cpu {

/// "write of 4 bytes", "atomic operation on 4 bytes, block scope"; of an operation "tensor copy (write)".
std::string describe_action(const Identity& who, Tag tag);
/// "'output'+64 (element 16)": the element if `bytes` divides the offset.
std::string describe_offset(std::string_view buffer, std::size_t offset, std::uint32_t bytes);
/// "shared+0x40", "shared+0x40 of block 3" where that is not `own`.
std::string describe_shared(std::size_t offset, std::uint32_t block, std::uint32_t own);
/// "4 bytes past the end of 'output' (1024 bytes)", "right before 'output'"; `range` is that of the address itself.
std::string describe_distance(std::uintptr_t address, std::uintptr_t begin, std::uintptr_t end, std::string_view name);
/// "in the 128-byte swizzle", "in no swizzle".
std::string describe_swizzle(std::uint32_t span);
/// "block", "cluster", "device", "system".
std::string_view to_string(Scope scope) noexcept;

}  // namespace moegen::cpu
