// SPDX-License-Identifier: Apache-2.0
// What AddressSanitizer must be told about fibers; nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define MOEGEN_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOEGEN_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef MOEGEN_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace moegen::cpu::sanitizer {

#ifdef MOEGEN_ADDRESS_SANITIZER
inline constexpr bool kOn = true;
#else
inline constexpr bool kOn = false;
#endif

/// About to switch to a stack. `fake_stack`: where to keep this fiber's own; null if it ends here.
inline void before_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MOEGEN_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}

/// Arrived from the stack that is returned in `bottom` and `bytes`.
inline void after_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** bottom,
                         [[maybe_unused]] std::size_t* bytes) noexcept {
#ifdef MOEGEN_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
#endif
}

/// A stack that a fiber left in the middle of its functions serves another one.
inline void reuse_stack([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MOEGEN_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

}  // namespace moegen::cpu::sanitizer
