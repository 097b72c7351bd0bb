// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, consumers: the sum over K of one tile in a warpgroup's registers. M of the tensor cores' product is
// 64 rows of weights or of tokens, N the other of the two.
//
// The order of K, the interval of promotion (128 of K) and the order of scalings are those of the contract, the same
// for every shape of tile: plans of one kernel agree to the bit.
#pragma once

#include "../core/bulk_copy.cuh"
#include "../core/warp.cuh"
#include "../core/wgmma.cuh"
#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Ends reads and writes of `d` that come before, begins those that come after: a wait alone does not order registers.
template <uint32_t Count>
MOEGEN_DEVICE void hold(float (&d)[Count]) {
#ifndef MOEGEN_TARGET_CPU
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i])::"memory");
#endif
}

/// Accumulators that were never written would be alive from the kernel's first line, in all widths at once.
template <uint32_t Count>
MOEGEN_DEVICE void clear(float (&d)[Count]) {
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) d[i] = 0.0f;
}

/// The operands of a warpgroup in stage 0.
struct Operands {
  uint64_t a, b;
};

/// Descriptor of rows of 128 bytes, its variable half taken from one lane: then it is computed once and not moved to
/// the tensor cores' registers lane by lane for every product.
MOEGEN_DEVICE uint64_t uniform_descriptor(const unsigned char* tile) {
  const uint64_t descriptor = matrix_descriptor(tile, Swizzle::span_128, 0, 8 * kSliceBytes);
  return (descriptor & ~uint64_t{0xFFFFFFFF}) | shuffle(static_cast<uint32_t>(descriptor), 0);
}

template <class P, class T>
MOEGEN_DEVICE Operands operands(const Shared<P, T>& shared, uint32_t warpgroup) {
  const unsigned char* m = T::tokens_on_m ? shared.tokens(0) : shared.weights(0);
  const unsigned char* n = T::tokens_on_m ? shared.weights(0) : shared.tokens(0);
  return {uniform_descriptor(m + warpgroup * kWarpgroupRows * kSliceBytes), uniform_descriptor(n)};
}

/// Where a stage lies after stage 0. With tokens on M the compiler sees no uniform stage unless it is constant, and
/// would move each descriptor to the tensor cores' registers by itself, 12 to 16 moves a stage.
template <class P, class T>
MOEGEN_DEVICE uint32_t stage_offset(uint32_t stage) {
  const uint32_t offset = stage * Layout<P, T>::stage_bytes;
  return T::tokens_on_m && !T::aligned ? shuffle(offset, 0) : offset;
}

/// Issues the products of one stage as a group.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void multiply_stage(const Operands& first, uint32_t stage, bool accumulate, float (&d)[N / 2]) {
  constexpr uint32_t kStepBytes = 32;  // of K, one instruction
  const uint32_t offset = stage_offset<P, T>(stage);
  if constexpr (P::gather_a) fence_proxy_async();  // tokens came through the generic proxy
  wgmma_fence();
#pragma unroll
  for (uint32_t step = 0; step < kSliceBytes / kStepBytes; ++step)
    Wgmma<typename P::element_dtype, N>::multiply(d, advance_descriptor(first.a, offset + step * kStepBytes),
                                                  advance_descriptor(first.b, offset + step * kStepBytes),
                                                  accumulate || step > 0);
  wgmma_commit();
}

/// The operands `columns` columns further.
MOEGEN_DEVICE Operands next_columns(const Operands& first, uint32_t columns) {
  return {first.a, advance_descriptor(first.b, columns * kSliceBytes)};
}

/// The products of one stage alone, complete; `meanwhile` runs beside them. A sum of more columns than `part` holds
/// takes them one after the other: all at once would not leave registers for the sum.
template <class P, class T, uint32_t Columns, class Meanwhile>
MOEGEN_DEVICE void multiply_part(const Operands& first, uint32_t stage, float (&part)[Columns / 2],
                                 Meanwhile&& meanwhile) {
  multiply_stage<P, T, Columns>(first, stage, false, part);
  meanwhile();
  wgmma_wait<0>();
  hold(part);
}
template <class P, class T, uint32_t Columns>
MOEGEN_DEVICE void multiply_part(const Operands& first, uint32_t stage, float (&part)[Columns / 2]) {
  multiply_part<P, T, Columns>(first, stage, part, [] {});
}

/// work(0), work(1), ...: what a pragma unrolls in one kernel it leaves as a loop in another.
template <uint32_t Count, uint32_t First = 0, class Work>
MOEGEN_DEVICE void for_stages(Work&& work) {
  work(First);
  if constexpr (First + 1 < Count) for_stages<Count, First + 1>(work);
}

/// Goes through the slices of a tile: multiply(stage) when the stage is there, then add(stage) while the next one may
/// already be looked for. Where the stages divide the slices a tile begins at stage 0, and the loop is unrolled over
/// them, so that addresses are constants: 5 to 10 % of promoted sums in the prototype.
template <class P, class T, class Multiply, class Add>
MOEGEN_DEVICE void for_slices(const Shared<P, T>& shared, Ring<T>& ring, Multiply&& multiply, Add&& add) {
  if constexpr (T::aligned) {
    bool ready = true;  // the first was waited for when the tile was read
#pragma unroll 1        // few rounds unrolled, too, cost registers
    for (uint32_t round = 0; round < P::depth_blocks / T::stages; ++round) {
      for_stages<T::stages>([&](uint32_t stage) {
        if (!ready) mbarrier_wait(shared.full(stage), ring.parity);
        multiply(stage);
        const uint32_t next = stage + 1 == T::stages ? 0 : stage + 1;
        ready = mbarrier_test(shared.full(next), ring.parity ^ (next == 0 ? 1 : 0));
        add(stage);
      });
      ring.parity ^= 1;
    }
  } else {
#pragma unroll 1  // a few slices unrolled cost registers
    for (uint32_t block = 0; block < P::depth_blocks; ++block) {
      mbarrier_wait(shared.full(ring.stage), ring.parity);
      multiply(ring.stage);
      add(ring.stage);
      ring.next();
    }
  }
}

}  // namespace moegen::grouped_matmul
