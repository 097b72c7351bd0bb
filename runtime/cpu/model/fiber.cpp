// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/fiber.hpp"

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

// moegen_cpu_switch(from, to): pushes what the calling convention preserves, exchanges stacks, pops the same of the
// other fiber. It leaves by a jump and not by `ret`, which the processor's return predictor would guess wrong each
// time. moegen_cpu_fiber_start is where a new fiber arrives; its call frame is the outermost, for debuggers too.
#if defined(__x86_64__)
__asm__(R"(
  .text
  .p2align 4
  .hidden moegen_cpu_switch
  .globl moegen_cpu_switch
  .type moegen_cpu_switch, @function
moegen_cpu_switch:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  pushq %r12
  .cfi_adjust_cfa_offset 8
  pushq %r13
  .cfi_adjust_cfa_offset 8
  pushq %r14
  .cfi_adjust_cfa_offset 8
  pushq %r15
  .cfi_adjust_cfa_offset 8
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  .cfi_adjust_cfa_offset -8
  popq %r14
  .cfi_adjust_cfa_offset -8
  popq %r13
  .cfi_adjust_cfa_offset -8
  popq %r12
  .cfi_adjust_cfa_offset -8
  popq %rbx
  .cfi_adjust_cfa_offset -8
  popq %rbp
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rcx
  jmp *%rcx
  .cfi_endproc
  .size moegen_cpu_switch, .-moegen_cpu_switch

  .p2align 4
  .hidden moegen_cpu_fiber_start
  .globl moegen_cpu_fiber_start
  .type moegen_cpu_fiber_start, @function
moegen_cpu_fiber_start:
  .cfi_startproc
  .cfi_undefined %rip
  xorl %ebp, %ebp
  callq *%r12
  ud2
  .cfi_endproc
  .size moegen_cpu_fiber_start, .-moegen_cpu_fiber_start
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .p2align 4
  .hidden moegen_cpu_switch
  .globl moegen_cpu_switch
  .type moegen_cpu_switch, %function
moegen_cpu_switch:
  .cfi_startproc
  sub sp, sp, #160
  .cfi_adjust_cfa_offset 160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  .cfi_adjust_cfa_offset -160
  br x30
  .cfi_endproc
  .size moegen_cpu_switch, .-moegen_cpu_switch

  .p2align 4
  .hidden moegen_cpu_fiber_start
  .globl moegen_cpu_fiber_start
  .type moegen_cpu_fiber_start, %function
moegen_cpu_fiber_start:
  .cfi_startproc
  .cfi_undefined x30
  mov x29, xzr
  mov x30, xzr
  blr x19
  brk #1
  .cfi_endproc
  .size moegen_cpu_fiber_start, .-moegen_cpu_fiber_start
)");
#endif

#if defined(__x86_64__) || defined(__aarch64__)
extern "C" void moegen_cpu_switch(void** from, void* to) noexcept;
extern "C" void moegen_cpu_fiber_start() noexcept;
#endif

namespace moegen::cpu {
namespace {

/// Words that moegen_cpu_switch pops, and where among them the entry and the return address lie.
#if defined(__x86_64__)
constexpr std::size_t kSavedWords = 7, kEntryWord = 3, kReturnWord = 6;
#elif defined(__aarch64__)
constexpr std::size_t kSavedWords = 20, kEntryWord = 0, kReturnWord = 11;
#endif

char* aligned_down(char* address) { return address - reinterpret_cast<std::uintptr_t>(address) % 16; }

}  // namespace

#if defined(__x86_64__) || defined(__aarch64__)
void* NativeFiber::make(char* /*low*/, char* high, FiberEntry entry) noexcept {
  std::array<std::uintptr_t, kSavedWords> saved{};
  saved[kEntryWord] = reinterpret_cast<std::uintptr_t>(entry);
  saved[kReturnWord] = reinterpret_cast<std::uintptr_t>(&moegen_cpu_fiber_start);
  char* const at = aligned_down(high) - sizeof saved;
  std::memcpy(at, saved.data(), sizeof saved);
  return at;
}

void NativeFiber::switch_to(void** from, void* to) noexcept { moegen_cpu_switch(from, to); }
#else
void* NativeFiber::make(char*, char*, FiberEntry) noexcept { std::abort(); }
void NativeFiber::switch_to(void**, void*) noexcept { std::abort(); }
#endif

void* PortableFiber::make(char* low, char* high, FiberEntry entry) noexcept {
  char* const at = aligned_down(high - sizeof(ucontext_t));
  auto* const context = new (at) ucontext_t;
  if (getcontext(context) != 0) std::abort();  // cannot fail on Linux
  context->uc_stack.ss_sp = low;
  context->uc_stack.ss_size = static_cast<std::size_t>(at - low);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

void PortableFiber::switch_to(void** from, void* to) noexcept {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

}  // namespace moegen::cpu
