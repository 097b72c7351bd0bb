// SPDX-License-Identifier: Apache-2.0
// Atomic operations on words of 32 or 64 bits in global or shared memory, fences, and giving up.
#pragma once

#include "types.cuh"

namespace moegen {

/// Release: what the thread did before is seen by whoever acquires what this operation wrote. A load does not release,
/// a store does not acquire.
enum class MemoryOrder : uint32_t { relaxed, acquire, release, acquire_release };

/// The threads among which an operation is atomic and orders memory. Before sm_90 a cluster is one block.
enum class MemoryScope : uint32_t { block, cluster, device, system };

/// Numbered as runtime/cpu/calls/sync.h has them.
enum class AtomicOperation : uint32_t {
  add,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare_exchange,
  load,
  store
};

#ifndef MOEGEN_TARGET_CPU
// Parts of an instruction's name, for the "C" operands of asm.
template <MemoryOrder>
struct OrderName;
template <>
struct OrderName<MemoryOrder::relaxed> {
  static constexpr char text[] = ".relaxed";
};
template <>
struct OrderName<MemoryOrder::acquire> {
  static constexpr char text[] = ".acquire";
};
template <>
struct OrderName<MemoryOrder::release> {
  static constexpr char text[] = ".release";
};
template <>
struct OrderName<MemoryOrder::acquire_release> {
  static constexpr char text[] = ".acq_rel";
};

template <MemoryScope>
struct ScopeName;
template <>
struct ScopeName<MemoryScope::block> {
  static constexpr char text[] = ".cta";
};
template <>
struct ScopeName<MemoryScope::cluster> {
#if __CUDA_ARCH__ >= 900
  static constexpr char text[] = ".cluster";
#else
  static constexpr char text[] = ".cta";
#endif
};
template <>
struct ScopeName<MemoryScope::device> {
  static constexpr char text[] = ".gpu";
};
template <>
struct ScopeName<MemoryScope::system> {
  static constexpr char text[] = ".sys";
};

template <AtomicOperation>
struct AtomicName;
template <>
struct AtomicName<AtomicOperation::add> {
  static constexpr char text_32[] = ".add.u32", text_64[] = ".add.u64";
};
template <>
struct AtomicName<AtomicOperation::min> {
  static constexpr char text_32[] = ".min.u32", text_64[] = ".min.u64";
};
template <>
struct AtomicName<AtomicOperation::max> {
  static constexpr char text_32[] = ".max.u32", text_64[] = ".max.u64";
};
template <>
struct AtomicName<AtomicOperation::bit_and> {
  static constexpr char text_32[] = ".and.b32", text_64[] = ".and.b64";
};
template <>
struct AtomicName<AtomicOperation::bit_or> {
  static constexpr char text_32[] = ".or.b32", text_64[] = ".or.b64";
};
template <>
struct AtomicName<AtomicOperation::bit_xor> {
  static constexpr char text_32[] = ".xor.b32", text_64[] = ".xor.b64";
};
template <>
struct AtomicName<AtomicOperation::exchange> {
  static constexpr char text_32[] = ".exch.b32", text_64[] = ".exch.b64";
};
#endif

/// Replaces `*word` by the operation's result with `operand`; returns the old value. `word` is aligned to its size.
template <AtomicOperation operation, MemoryOrder order, MemoryScope scope>
MOEGEN_DEVICE uint32_t atomic(uint32_t* word, uint32_t operand) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::atomic(word, operation, operand, uint32_t{0}, order, scope);
#else
  uint32_t old;
  asm volatile("atom%3%4%5 %0, [%1], %2;"
               : "=r"(old)
               : "l"(word), "r"(operand), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text),
                 "C"(AtomicName<operation>::text_32)
               : "memory");
  return old;
#endif
}

template <AtomicOperation operation, MemoryOrder order, MemoryScope scope>
MOEGEN_DEVICE uint64_t atomic(uint64_t* word, uint64_t operand) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::atomic(word, operation, operand, uint64_t{0}, order, scope);
#else
  uint64_t old;
  asm volatile("atom%3%4%5 %0, [%1], %2;"
               : "=l"(old)
               : "l"(word), "l"(operand), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text),
                 "C"(AtomicName<operation>::text_64)
               : "memory");
  return old;
#endif
}

/// `T` where it is not deduced, so that atomic_add(word, 1) takes its type from `word`.
template <class T>
struct Same {
  using Type = T;
};

// Word is uint32_t or uint64_t, and so are the results: the old value. Minima and maxima are unsigned.

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_add(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::add, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_min(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::min, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_max(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::max, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_and(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::bit_and, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_or(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::bit_or, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_xor(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::bit_xor, order, scope>(word, value);
}

template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_exchange(Word* word, typename Same<Word>::Type value) {
  return atomic<AtomicOperation::exchange, order, scope>(word, value);
}

/// Writes `value` where the word is `expected`; returns what it was. One that writes nothing releases nothing.
template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_compare_exchange(Word* word, typename Same<Word>::Type expected,
                                           typename Same<Word>::Type value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::atomic(word, AtomicOperation::compare_exchange, value, expected, order, scope);
#else
  Word old;
  if constexpr (sizeof(Word) == 4)
    asm volatile("atom%4%5.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(word), "r"(expected), "r"(value), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text)
                 : "memory");
  else
    asm volatile("atom%4%5.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(word), "l"(expected), "l"(value), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text)
                 : "memory");
  return old;
#endif
}

/// Relaxed or acquire.
template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE Word atomic_load(const Word* word) {
  static_assert(order == MemoryOrder::relaxed || order == MemoryOrder::acquire, "a load is relaxed or acquires");
#ifdef MOEGEN_TARGET_CPU
  return cpu::atomic(const_cast<Word*>(word), AtomicOperation::load, Word{0}, Word{0}, order, scope);
#else
  Word value;
  if constexpr (sizeof(Word) == 4)
    asm volatile("ld%2%3.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(word), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text)
                 : "memory");
  else
    asm volatile("ld%2%3.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(word), "C"(OrderName<order>::text), "C"(ScopeName<scope>::text)
                 : "memory");
  return value;
#endif
}

/// Relaxed or release.
template <MemoryOrder order = MemoryOrder::relaxed, MemoryScope scope = MemoryScope::device, class Word>
MOEGEN_DEVICE void atomic_store(Word* word, typename Same<Word>::Type value) {
  static_assert(order == MemoryOrder::relaxed || order == MemoryOrder::release, "a store is relaxed or releases");
#ifdef MOEGEN_TARGET_CPU
  cpu::atomic(word, AtomicOperation::store, value, Word{0}, order, scope);
#else
  if constexpr (sizeof(Word) == 4)
    asm volatile("st%2%3.u32 [%0], %1;" ::"l"(word), "r"(value), "C"(OrderName<order>::text),
                 "C"(ScopeName<scope>::text)
                 : "memory");
  else
    asm volatile("st%2%3.u64 [%0], %1;" ::"l"(word), "l"(value), "C"(OrderName<order>::text),
                 "C"(ScopeName<scope>::text)
                 : "memory");
#endif
}

/// Makes relaxed operations after it release what came before it, and what follows it be acquired by those before it.
template <MemoryScope scope = MemoryScope::device>
MOEGEN_DEVICE void fence() {
#ifdef MOEGEN_TARGET_CPU
  cpu::fence(scope);
#else
  asm volatile("fence.acq_rel%0;" ::"C"(ScopeName<scope>::text) : "memory");
#endif
}

/// Ends the launch with an error: something that cannot be has happened.
MOEGEN_DEVICE void trap() {
#ifdef MOEGEN_TARGET_CPU
  cpu::trap();
#else
  asm volatile("trap;");
#endif
}

}  // namespace moegen
