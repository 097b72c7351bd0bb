// SPDX-License-Identifier: Apache-2.0
// Tensor copies: boxes of 1 to 5 dimensions between a tensor in global memory and a dense tile of shared memory, whose
// 16-byte pieces are swizzled as the TensorMap says. The tile is 128-byte aligned. Coordinates are of elements,
// innermost first, and the innermost one times the element's size is a multiple of 16 bytes: an H200 stops with an
// illegal instruction at any other (tests/gpu/test_hardware_pins.cpp). Elements outside the tensor are read as zero and
// not written. One thread issues a copy. sm_90 up.
#pragma once

#include "shared_address.cuh"
#include "tensor_map.h"
#include "types.cuh"

namespace moegen {

/// Fetches the map itself ahead of its first use.
MOEGEN_DEVICE void prefetch_tensor_map(const TensorMap& map) {
#ifdef MOEGEN_TARGET_CPU
  // Nothing to be early for.
#else
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

#ifndef MOEGEN_TARGET_CPU
// The instruction for a number of dimensions, whose coordinates are asm operands 4 and up.
#define MOEGEN_TENSOR_COPY(rank, at, INSTRUCTION)                                          \
  if constexpr (rank == 1)                                                                 \
    INSTRUCTION("1d", "{%4}", "r"(at[0]));                                                 \
  else if constexpr (rank == 2)                                                            \
    INSTRUCTION("2d", "{%4, %5}", "r"(at[0]), "r"(at[1]));                                 \
  else if constexpr (rank == 3)                                                            \
    INSTRUCTION("3d", "{%4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]));                 \
  else if constexpr (rank == 4)                                                            \
    INSTRUCTION("4d", "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])); \
  else                                                                                     \
    INSTRUCTION("5d", "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))
#define MOEGEN_TENSOR_OPERANDS(barrier, mask) \
  "r"(shared_address(shared)), "l"(&map), "r"(barrier), "h"(static_cast<uint16_t>(mask))
#define MOEGEN_TENSOR_LOAD(rank, coordinates, ...)                                                 \
  asm volatile("cp.async.bulk.tensor." rank                                                        \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " coordinates \
               "], [%2];" ::MOEGEN_TENSOR_OPERANDS(shared_address(barrier), 0),                    \
               __VA_ARGS__                                                                         \
               : "memory")
#define MOEGEN_TENSOR_LOAD_MULTICAST(rank, coordinates, ...)                                                          \
  asm volatile("cp.async.bulk.tensor." rank                                                                           \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, " coordinates \
               "], [%2], %3;" ::MOEGEN_TENSOR_OPERANDS(shared_address(barrier), mask),                                \
               __VA_ARGS__                                                                                            \
               : "memory")
#define MOEGEN_TENSOR_LOAD_ONCE(rank, coordinates, ...)                                                           \
  asm volatile("cp.async.bulk.tensor." rank                                                                       \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, " coordinates \
               "], [%2], %3;" ::"r"(shared_address(shared)),                                                      \
               "l"(&map), "r"(shared_address(barrier)), "l"(policy), __VA_ARGS__                                  \
               : "memory")
#define MOEGEN_TENSOR_STORE(rank, coordinates, ...)                                                 \
  asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%1, " coordinates \
               "], [%0];" ::MOEGEN_TENSOR_OPERANDS(0, 0),                                           \
               __VA_ARGS__                                                                          \
               : "memory")
#endif

/// Copies the box at `index...` to `shared`. The bytes of the whole box, parts outside the tensor included, count on
/// `barrier` when they are there.
template <class... Index>
MOEGEN_DEVICE void tensor_load(void* shared, const TensorMap& map, uint64_t* barrier, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, 0);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD);
#endif
}

/// The same of data that is read once: the first to leave L2.
template <class... Index>
MOEGEN_DEVICE void tensor_load_once(void* shared, const TensorMap& map, uint64_t* barrier, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, 0);
#else
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD_ONCE);
#endif
}

/// The same to every block of the cluster whose rank is set in `mask`: at the same offset, counting on its own barrier.
template <class... Index>
MOEGEN_DEVICE void tensor_load_multicast(void* shared, const TensorMap& map, uint64_t* barrier, uint32_t mask,
                                         Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_load(shared, &map, at, kRank, barrier, mask);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_LOAD_MULTICAST);
#endif
}

/// Copies the tile at `shared` to the box at `index...`, none of them negative (an H200 stops there, too), in the
/// thread's open bulk group (bulk_copy.cuh).
template <class... Index>
MOEGEN_DEVICE void tensor_store(const TensorMap& map, const void* shared, Index... index) {
  constexpr uint32_t kRank = sizeof...(index);
  static_assert(kRank >= 1 && kRank <= 5, "a tensor copy has 1 to 5 coordinates");
  const int32_t at[] = {static_cast<int32_t>(index)...};
#ifdef MOEGEN_TARGET_CPU
  cpu::tensor_store(&map, at, kRank, shared);
#else
  MOEGEN_TENSOR_COPY(kRank, at, MOEGEN_TENSOR_STORE);
#endif
}

}  // namespace moegen
