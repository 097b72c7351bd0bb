// SPDX-License-Identifier: Apache-2.0
// Matrices of 8 x 8 16-bit elements between shared memory and the registers of a warp. Row r of matrix m lies at the
// address of lane 8 * m + r, 16-byte aligned; lane l holds the elements 2 * (l % 4) and the next of row l / 4 of each,
// or of its column l / 4 where transposed. All 32 lanes take part.
#pragma once

#include "shared_address.cuh"
#include "types.cuh"

namespace moegen {

/// Loads Count (1, 2, 4) matrices, one register of each. sm_75 up.
template <bool Transpose = false, uint32_t Count>
MOEGEN_DEVICE void load_matrix(uint32_t (&registers)[Count], const void* row) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "ldmatrix loads 1, 2 or 4 matrices");
#ifdef MOEGEN_TARGET_CPU
  cpu::load_matrix(registers, row, Count, Transpose);
#else
#define MOEGEN_LOAD_MATRIX(count, list, ...)                                       \
  if constexpr (Transpose)                                                         \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".trans.shared.b16 " list ";" \
                 : __VA_ARGS__                                                     \
                 : "r"(source)                                                     \
                 : "memory");                                                      \
  else                                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".shared.b16 " list ";" : __VA_ARGS__ : "r"(source) : "memory")
  const uint32_t source = shared_address(row);
  if constexpr (Count == 1) {
    MOEGEN_LOAD_MATRIX("x1", "{%0}, [%1]", "=r"(registers[0]));
  } else if constexpr (Count == 2) {
    MOEGEN_LOAD_MATRIX("x2", "{%0, %1}, [%2]", "=r"(registers[0]), "=r"(registers[1]));
  } else {
    MOEGEN_LOAD_MATRIX("x4", "{%0, %1, %2, %3}, [%4]", "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
                       "=r"(registers[3]));
  }
#undef MOEGEN_LOAD_MATRIX
#endif
}

/// Stores Count (1, 2, 4) matrices, one register of each. sm_90 up.
template <bool Transpose = false, uint32_t Count>
MOEGEN_DEVICE void store_matrix(void* row, const uint32_t (&registers)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "stmatrix stores 1, 2 or 4 matrices");
#ifdef MOEGEN_TARGET_CPU
  cpu::store_matrix(row, registers, Count, Transpose);
#else
#define MOEGEN_STORE_MATRIX(count, list, ...)                                                                       \
  if constexpr (Transpose)                                                                                          \
    asm volatile("stmatrix.sync.aligned.m8n8." count ".trans.shared.b16 [%0], " list ";" ::"r"(target), __VA_ARGS__ \
                 : "memory");                                                                                       \
  else                                                                                                              \
    asm volatile("stmatrix.sync.aligned.m8n8." count ".shared.b16 [%0], " list ";" ::"r"(target), __VA_ARGS__       \
                 : "memory")
  const uint32_t target = shared_address(row);
  if constexpr (Count == 1) {
    MOEGEN_STORE_MATRIX("x1", "{%1}", "r"(registers[0]));
  } else if constexpr (Count == 2) {
    MOEGEN_STORE_MATRIX("x2", "{%1, %2}", "r"(registers[0]), "r"(registers[1]));
  } else {
    MOEGEN_STORE_MATRIX("x4", "{%1, %2, %3, %4}", "r"(registers[0]), "r"(registers[1]), "r"(registers[2]),
                        "r"(registers[3]));
  }
#undef MOEGEN_STORE_MATRIX
#endif
}

}  // namespace moegen
