// SPDX-License-Identifier: Apache-2.0
// The matrix product of a warp: d = a * b + c in float, 16 x 8 results over 32 bytes of K. All 32 lanes take part.
// Lane l holds d and c at rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next: d[2 * i + j] is row 8 * i, column
// + j. The registers of a and b hold neighbours in K: a[0], a[1] rows l / 4 and l / 4 + 8 of the first 16 bytes, a[2],
// a[3] of the last; b[0], b[1] column l / 4; each at byte 4 * (l % 4).
#pragma once

#include "narrow.cuh"
#include "types.cuh"

namespace moegen {

#ifdef MOEGEN_TARGET_CPU
#define MOEGEN_MMA(shape, element, code) cpu::mma(d, a, b, c, code)
#else
#define MOEGEN_MMA(shape, element, code)                                                                            \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." element "." element                                        \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                           \
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), \
                 "f"(c[3]))
#endif

/// 16 elements of K. sm_80 up.
MOEGEN_DEVICE void mma(bfloat16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
  MOEGEN_MMA("m16n8k16", "bf16", MOEGEN_CPU_BFLOAT16);
}

/// 16 elements of K. sm_80 up.
MOEGEN_DEVICE void mma(float16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
  MOEGEN_MMA("m16n8k16", "f16", MOEGEN_CPU_FLOAT16);
}

/// 32 elements of K. sm_89 up.
MOEGEN_DEVICE void mma(float8_e4m3fn, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       const float (&c)[4]) {
  MOEGEN_MMA("m16n8k32", "e4m3", MOEGEN_CPU_E4M3);
}

#undef MOEGEN_MMA

}  // namespace moegen
