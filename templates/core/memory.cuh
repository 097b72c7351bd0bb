// SPDX-License-Identifier: Apache-2.0
// Global memory: accesses of 16 and 8 bytes.
#pragma once

#include "types.cuh"

namespace moegen {

/// Loads 16 bytes that nothing writes while the kernel runs. `pointer` is 16-byte aligned.
MOEGEN_DEVICE Vector16 load_constant(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector16*>(pointer);
#else
  Vector16 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
      : "l"(pointer));
  return v;
#endif
}

/// 8 bytes that nothing writes while the kernel runs. `pointer` is 8-byte aligned.
MOEGEN_DEVICE Vector8 load_constant8(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector8*>(pointer);
#else
  Vector8 v;
  asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(pointer));
  return v;
#endif
}

/// Stores 8 bytes. `pointer` is 8-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector8& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector8*>(pointer) = v;
#else
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]) : "memory");
#endif
}

/// Stores 16 bytes. `pointer` is 16-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector16& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector16*>(pointer) = v;
#else
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
#endif
}

}  // namespace moegen
