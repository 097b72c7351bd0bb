// SPDX-License-Identifier: Apache-2.0
// Words of 4 or 8 bytes that several threads of the host may use at once.
#pragma once

#include <cstdint>

namespace moegen::cpu {

inline std::uint64_t load_word(const void* word, std::uint32_t bytes) noexcept {
  return bytes == 8 ? __atomic_load_n(static_cast<const std::uint64_t*>(word), __ATOMIC_SEQ_CST)
                    : __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_SEQ_CST);
}

}  // namespace moegen::cpu
