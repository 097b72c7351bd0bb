// SPDX-License-Identifier: Apache-2.0
// Calls of kernel text: tensor cores (wgmma, mma.sync) and matrix moves (ldmatrix, stmatrix).
#pragma once

#include "cpu/calls/call.h"

#ifdef __cplusplus
extern "C" {
#endif

enum MoegenCpuElement {
  MOEGEN_CPU_BFLOAT16,
  MOEGEN_CPU_FLOAT16,
  MOEGEN_CPU_E4M3,
  MOEGEN_CPU_E5M2,
};

/// wgmma.mma_async.m64nNk(256 bits of K), float32 accumulators d[n / 2] of this thread. `a_registers` null: A from
/// `descriptor_a`. `flags`: bit 0 scale_d, bit 1 negate A, 2 negate B, 3 transpose A, 4 transpose B.
/// All 128 threads of the warpgroup call it.
MOEGEN_CPU_CALL void moegen_cpu_wgmma(float* d, unsigned int n, unsigned int element, unsigned long descriptor_a,
                                      const unsigned int* a_registers, unsigned long descriptor_b, unsigned int flags,
                                      unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_wgmma_fence(unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_wgmma_commit(unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_wgmma_wait(unsigned int pending, unsigned int site);

/// mma.sync.m16n8k(256 bits of K): d[4] = a[4 registers] * b[2 registers] + c[4].
MOEGEN_CPU_CALL void moegen_cpu_mma(float* d, const unsigned int* a, const unsigned int* b, const float* c,
                                    unsigned int element, unsigned int site);

/// ldmatrix / stmatrix .m8n8.xCOUNT.b16, 16-byte rows at the addresses of the first 8 * count lanes.
MOEGEN_CPU_CALL void moegen_cpu_load_matrix(unsigned int* registers, const void* row, unsigned int count,
                                            unsigned int transpose, unsigned int site);
MOEGEN_CPU_CALL void moegen_cpu_store_matrix(void* row, const unsigned int* registers, unsigned int count,
                                             unsigned int transpose, unsigned int site);

/// Conversions by the hardware's rules (cvt.rn). Narrower floats are computed by the text (templates/core/narrow.cuh).
MOEGEN_CPU_CALL unsigned short moegen_cpu_float_to_bfloat16(float value);
MOEGEN_CPU_CALL unsigned short moegen_cpu_float_to_float16(float value);

#ifdef __cplusplus
}
#endif

#define MOEGEN_CPU_MATRIX_CALLS(X) \
  X(moegen_cpu_wgmma)              \
  X(moegen_cpu_wgmma_fence)        \
  X(moegen_cpu_wgmma_commit)       \
  X(moegen_cpu_wgmma_wait)         \
  X(moegen_cpu_mma)                \
  X(moegen_cpu_load_matrix)        \
  X(moegen_cpu_store_matrix)       \
  X(moegen_cpu_float_to_bfloat16)  \
  X(moegen_cpu_float_to_float16)
