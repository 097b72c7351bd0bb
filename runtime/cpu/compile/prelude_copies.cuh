// SPDX-License-Identifier: Apache-2.0
// Part of prelude.cuh: the CPU bodies of mbarriers, asynchronous copies and tensor cores.
#pragma once

namespace moegen::cpu {

/// Offset in the block's shared memory, where `pointer` must be, or right behind it.
MOEGEN_CPU_INLINE unsigned int shared_address(const void* pointer) {
  const MoegenCpuContext* context = moegen_cpu_context();
  const auto offset = static_cast<unsigned long>(static_cast<const char*>(pointer) - context->shared);
  if (offset > context->shared_bytes) moegen_cpu_not_shared(pointer, moegen_cpu_site());
  return static_cast<unsigned int>(offset);
}

// ---- mbarriers ---------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE void mbarrier_init(unsigned long* barrier, unsigned int count) {
  moegen_cpu_mbarrier_init(barrier, count, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void mbarrier_invalidate(unsigned long* barrier) {
  moegen_cpu_mbarrier_invalidate(barrier, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void mbarrier_arrive(unsigned long* barrier, unsigned int count, unsigned int bytes) {
  moegen_cpu_mbarrier_arrive(barrier, count, bytes, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void mbarrier_expect(unsigned long* barrier, unsigned int bytes) {
  moegen_cpu_mbarrier_expect(barrier, bytes, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void mbarrier_wait(unsigned long* barrier, unsigned int parity) {
  moegen_cpu_mbarrier_wait(barrier, parity, moegen_cpu_site());
}

MOEGEN_CPU_INLINE bool mbarrier_test(unsigned long* barrier, unsigned int parity) {
  return moegen_cpu_mbarrier_test(barrier, parity, moegen_cpu_site()) != 0;
}

// ---- copies ------------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE void bulk_load(void* shared, const void* global, unsigned int bytes, unsigned long* barrier) {
  moegen_cpu_bulk_load(shared, global, bytes, barrier, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void bulk_store(void* global, const void* shared, unsigned int bytes) {
  moegen_cpu_bulk_store(global, shared, bytes, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void tensor_load(void* shared, const void* map, const int* coordinates, unsigned int dimensions,
                                   unsigned long* barrier, unsigned int multicast) {
  moegen_cpu_tensor_load(shared, map, coordinates, dimensions, barrier, multicast, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void tensor_store(const void* map, const int* coordinates, unsigned int dimensions,
                                    const void* shared) {
  moegen_cpu_tensor_store(map, coordinates, dimensions, shared, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void bulk_commit() { moegen_cpu_bulk_commit(moegen_cpu_site()); }

MOEGEN_CPU_INLINE void bulk_wait(unsigned int pending, unsigned int read) {
  moegen_cpu_bulk_wait(pending, read, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void copy_async(void* shared, const void* global, unsigned int bytes, unsigned int source_bytes) {
  moegen_cpu_copy_async(shared, global, bytes, source_bytes, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void copy_commit() { moegen_cpu_copy_commit(moegen_cpu_site()); }
MOEGEN_CPU_INLINE void copy_wait(unsigned int pending) { moegen_cpu_copy_wait(pending, moegen_cpu_site()); }
MOEGEN_CPU_INLINE void copy_arrive(unsigned long* barrier) { moegen_cpu_copy_arrive(barrier, moegen_cpu_site()); }

MOEGEN_CPU_INLINE void fence_proxy_async() { moegen_cpu_fence_proxy_async(moegen_cpu_site()); }

// ---- tensor cores ------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE void wgmma(float* d, unsigned int n, unsigned int element, unsigned long descriptor_a,
                             const unsigned int* a_registers, unsigned long descriptor_b, unsigned int flags) {
  moegen_cpu_wgmma(d, n, element, descriptor_a, a_registers, descriptor_b, flags, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void wgmma_fence() { moegen_cpu_wgmma_fence(moegen_cpu_site()); }
MOEGEN_CPU_INLINE void wgmma_commit() { moegen_cpu_wgmma_commit(moegen_cpu_site()); }
MOEGEN_CPU_INLINE void wgmma_wait(unsigned int pending) { moegen_cpu_wgmma_wait(pending, moegen_cpu_site()); }

MOEGEN_CPU_INLINE void mma(float* d, const unsigned int* a, const unsigned int* b, const float* c,
                           unsigned int element) {
  moegen_cpu_mma(d, a, b, c, element, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void load_matrix(unsigned int* registers, const void* row, unsigned int count, bool transpose) {
  moegen_cpu_load_matrix(registers, row, count, transpose, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void store_matrix(void* row, const unsigned int* registers, unsigned int count, bool transpose) {
  moegen_cpu_store_matrix(row, registers, count, transpose, moegen_cpu_site());
}

// ---- time --------------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE unsigned long globaltimer() { return moegen_cpu_globaltimer(); }

}  // namespace moegen::cpu
