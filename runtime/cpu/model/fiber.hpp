// SPDX-License-Identifier: Apache-2.0
// Fibers: stacks of execution that switch to each other by a call. A saved fiber is one pointer to what it left on its
// own stack.
#pragma once

#include <cstddef>

namespace moegen::cpu {

/// First function of a fiber. Must not return.
using FiberEntry = void (*)();

/// Own switch in assembly, x86-64 and AArch64: about 4 ns. Keeps the registers that a call keeps; the floating-point
/// modes are the host thread's, as kernels do not change them.
struct NativeFiber {
  static constexpr bool kAvailable =
#if defined(__x86_64__) || defined(__aarch64__)
      true;
#else
      false;
#endif
  /// A fiber that starts in `entry` on the stack [low, high) when first switched to.
  static void* make(char* low, char* high, FiberEntry entry) noexcept;
  /// Saves the running fiber in `*from` and continues `to`; returns when something switches back.
  static void switch_to(void** from, void* to) noexcept;
};

/// The same through ucontext, for other machines: about 240 ns, as each switch asks the kernel for the signal mask.
struct PortableFiber {
  static void* make(char* low, char* high, FiberEntry entry) noexcept;
  static void switch_to(void** from, void* to) noexcept;
};

#if defined(MOEGEN_PORTABLE_FIBERS) || !(defined(__x86_64__) || defined(__aarch64__))
using Fiber = PortableFiber;
#else
using Fiber = NativeFiber;
#endif

}  // namespace moegen::cpu
