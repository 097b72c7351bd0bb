// SPDX-License-Identifier: Apache-2.0
// What kernel text finds on the CPU target where NVRTC has built-ins, and namespace moegen::cpu: the CPU bodies of
// templates/core in terms of the model's calls. Compiled before every text, so it holds no more than that needs.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((device))
#define __host__
#define __constant__ __attribute__((device)) const
// The annotation is how the compiler knows a shared variable again (passes.cpp).
#define __shared__ __attribute__((shared, annotate("moegen.shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict
// Read by passes.cpp: a launch with more threads is refused.
#define __launch_bounds__(...) __attribute__((annotate("moegen.launch_bounds", __VA_ARGS__)))
// Limits of a launch, which the model takes from the plan.
#define __cluster_dims__(...)
#define __grid_constant__
#define __maxnreg__(...)

#include "cpu/calls/copies.h"
#include "cpu/calls/matrix.h"
#include "cpu/calls/sync.h"
#include "cpu/calls/thread_context.h"

#define MOEGEN_CPU_INLINE __device__ __forceinline__

extern "C" {
/// The number of the place in the kernel's text that this call was inlined into; passes.cpp resolves it.
__device__ unsigned int moegen_cpu_site();
/// The running thread's context; passes.cpp finds it from the stack pointer.
__device__ __attribute__((const)) const MoegenCpuContext* moegen_cpu_context();
}

#define threadIdx (moegen_cpu_context()->thread_index)
#define blockIdx (moegen_cpu_context()->block_index)
#define blockDim (moegen_cpu_context()->block_dim)
#define gridDim (moegen_cpu_context()->grid_dim)

namespace moegen::cpu {

// ---- barriers of a block, of a cluster ---------------------------------------------------------------------

MOEGEN_CPU_INLINE void block_sync(unsigned int barrier, unsigned int threads = 0) {
  moegen_cpu_block_sync(barrier, threads, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void block_arrive(unsigned int barrier, unsigned int threads) {
  moegen_cpu_block_arrive(barrier, threads, moegen_cpu_site());
}

MOEGEN_CPU_INLINE unsigned int cluster_size() { return moegen_cpu_context()->cluster_size; }
MOEGEN_CPU_INLINE unsigned int cluster_rank() { return moegen_cpu_context()->cluster_rank; }
MOEGEN_CPU_INLINE void cluster_arrive() { moegen_cpu_cluster_arrive(moegen_cpu_site()); }
MOEGEN_CPU_INLINE void cluster_wait() { moegen_cpu_cluster_wait(moegen_cpu_site()); }

MOEGEN_CPU_INLINE void* map_cluster_shared(const void* address, unsigned int rank) {
  return moegen_cpu_map_cluster_shared(address, rank, moegen_cpu_site());
}

// ---- warps -------------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE void warp_sync(unsigned int mask) { moegen_cpu_warp_sync(mask, moegen_cpu_site()); }

MOEGEN_CPU_INLINE unsigned int ballot(unsigned int mask, bool predicate) {
  const unsigned long* values = moegen_cpu_warp_exchange(mask, predicate, moegen_cpu_site());
  unsigned int votes = 0;
  for (unsigned int lane = 0; lane < 32; ++lane) votes |= static_cast<unsigned int>(values[lane] & 1) << lane;
  return votes & mask & static_cast<unsigned int>(values[32]);
}

/// `value` of lane `lane` modulo 32, which must take part.
MOEGEN_CPU_INLINE unsigned int shuffle(unsigned int mask, unsigned int value, unsigned int lane) {
  const unsigned long* values = moegen_cpu_warp_exchange(mask, value, moegen_cpu_site());
  if ((values[32] >> lane % 32 & 1) == 0) moegen_cpu_warp_absent(mask, lane % 32, moegen_cpu_site());
  return static_cast<unsigned int>(values[lane % 32]);
}

MOEGEN_CPU_INLINE unsigned int warp_sum(unsigned int mask, unsigned int value) {
  const unsigned long* values = moegen_cpu_warp_exchange(mask, value, moegen_cpu_site());
  const unsigned int lanes = mask & static_cast<unsigned int>(values[32]);
  unsigned int sum = 0;
  for (unsigned int lane = 0; lane < 32; ++lane) sum += lanes >> lane & 1 ? static_cast<unsigned int>(values[lane]) : 0;
  return sum;
}

MOEGEN_CPU_INLINE unsigned int warp_max(unsigned int mask, unsigned int value) {
  const unsigned long* values = moegen_cpu_warp_exchange(mask, value, moegen_cpu_site());
  const unsigned int lanes = mask & static_cast<unsigned int>(values[32]);
  unsigned int largest = value;
  for (unsigned int lane = 0; lane < 32; ++lane) {
    const unsigned int other = lanes >> lane & 1 ? static_cast<unsigned int>(values[lane]) : 0;
    largest = other > largest ? other : largest;
  }
  return largest;
}

// ---- words that threads share ------------------------------------------------------------------------------

/// atom.acq_rel.gpu.global.add.u32
MOEGEN_CPU_INLINE unsigned int global_add(unsigned int* word, unsigned int value) {
  constexpr unsigned int kOrder = MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_RELEASE | MOEGEN_CPU_SCOPE_DEVICE;
  return static_cast<unsigned int>(
      moegen_cpu_atomic(word, 4, MOEGEN_CPU_ATOMIC_ADD, value, 0, kOrder, moegen_cpu_site()));
}

/// red.relaxed.cta.shared.add.u32
MOEGEN_CPU_INLINE void shared_add(unsigned int* word, unsigned int value) {
  constexpr unsigned int kOrder = MOEGEN_CPU_RELAXED | MOEGEN_CPU_SCOPE_BLOCK;
  moegen_cpu_atomic(word, 4, MOEGEN_CPU_ATOMIC_ADD, value, 0, kOrder, moegen_cpu_site());
}

/// `operation`, `order` and `scope` are enumerators of templates/core/atomic.cuh, numbered as calls/sync.h has them.
template <class Word, class Operation, class Order, class Scope>
MOEGEN_CPU_INLINE Word atomic(Word* word, Operation operation, Word operand, Word compare, Order order, Scope scope) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
  return static_cast<Word>(moegen_cpu_atomic(word, sizeof(Word), static_cast<unsigned int>(operation), operand, compare,
                                             static_cast<unsigned int>(order) | static_cast<unsigned int>(scope) << 8,
                                             moegen_cpu_site()));
}

template <class Scope>
MOEGEN_CPU_INLINE void fence(Scope scope) {
  moegen_cpu_fence(static_cast<unsigned int>(scope) << 8, moegen_cpu_site());
}

MOEGEN_CPU_INLINE void trap() { moegen_cpu_trap(moegen_cpu_site()); }

/// Loops over ld.acquire.gpu.global.u32
MOEGEN_CPU_INLINE void wait_at_least(const unsigned int* word, unsigned int least) {
  constexpr unsigned int kOrder = MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_SCOPE_DEVICE;
  moegen_cpu_wait_at_least(word, 4, least, kOrder, moegen_cpu_site());
}

// ---- conversions -------------------------------------------------------------------------------------------

MOEGEN_CPU_INLINE unsigned int float_to_bfloat16(float value) { return moegen_cpu_float_to_bfloat16(value); }
MOEGEN_CPU_INLINE unsigned int float_to_float16(float value) { return moegen_cpu_float_to_float16(value); }

}  // namespace moegen::cpu

#include "cpu/compile/prelude_copies.cuh"

namespace moegen::cpu {

// ---- entry points ------------------------------------------------------------------------------------------

template <unsigned int... index>
struct Indices {};
template <class Integer, Integer... index>
using IndicesOf = Indices<index...>;

template <auto kernel, class... Parameters, unsigned int... index>
MOEGEN_CPU_INLINE void launch(void (*)(Parameters...), void** parameters, Indices<index...>) {
  kernel(*static_cast<Parameters*>(parameters[index])...);
}

/// Calls `kernel` with the parameters that `parameters` point to, as cuLaunchKernelEx takes them.
template <auto kernel, class... Parameters>
MOEGEN_CPU_INLINE void launch(void (*type)(Parameters...), void** parameters) {
  launch<kernel>(type, parameters, __make_integer_seq<IndicesOf, unsigned int, sizeof...(Parameters)>());
}

}  // namespace moegen::cpu
