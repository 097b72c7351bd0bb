// SPDX-License-Identifier: Apache-2.0
// What every family's argument check asks of a pointer.
#pragma once

#include <cstdint>

namespace moegen {

/// True if `pointer` is no multiple of `bytes`. Null is aligned.
inline bool misaligned(const void* pointer, std::int64_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) != 0;
}

}  // namespace moegen
