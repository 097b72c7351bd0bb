// SPDX-License-Identifier: Apache-2.0
// The asynchronous matrix product of a warpgroup (128 threads, aligned to 128 in the block): d += a * b, 64 x N floats
// over 32 bytes of K, a from shared memory or registers, b from shared memory. sm_90a only.
//
// Wgmma<Element, N> has a body only for the shapes that a kernel uses: the instruction names each of its N / 2
// accumulators, so its text is written by the generator (generator/wgmma.cpp). Thread t of the warpgroup holds row
// 16 * (t / 32) + t % 32 / 4 + 8 * i, column 8 * j + 2 * (t % 4) + k in d[4 * j + 2 * i + k].
//
// Order: wgmma_fence, products, wgmma_commit, wgmma_wait; d is not touched in between. Shared memory written by threads
// is fenced before (fence_proxy_async) and not overwritten until the wait is over.
#pragma once

#include "narrow.cuh"
#include "shared_address.cuh"
#include "types.cuh"

namespace moegen {

template <class Element, uint32_t N>
struct Wgmma;

/// How 16-byte pieces are permuted in a tile: in spans of so many bytes, repeating after eight.
enum class Swizzle : uint32_t { none = 0, span_128 = 1, span_64 = 2, span_32 = 3 };

/// Descriptor of a matrix in shared memory at `tile`. Strides are in bytes, multiples of 16.
/// K contiguous: rows of 8 x `span` bytes are a unit; `stride` leads to the next 8 rows; `leading` leads to the next 16
/// bytes of K without a swizzle and is unused with one. M or N contiguous (16-bit elements only): a unit is 8 of K by
/// `span` bytes; with a swizzle `stride` leads to the next 8 of K, `leading` to the next span; without one the other
/// way. The tile is aligned to 8 spans; to go on in K inside a span, add to the address (advance_descriptor).
MOEGEN_DEVICE uint64_t matrix_descriptor(const void* tile, Swizzle swizzle, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((shared_address(tile) & 0x3FFFFu) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

/// The same matrix `bytes` further.
MOEGEN_DEVICE uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

/// Orders register accesses before the products that follow: needed before the first, and after d was touched.
MOEGEN_DEVICE void wgmma_fence() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_fence();
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Closes the warpgroup's group of products.
MOEGEN_DEVICE void wgmma_commit() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_commit();
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until at most `Pending` groups are incomplete.
template <uint32_t Pending>
MOEGEN_DEVICE void wgmma_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::wgmma_wait(Pending);
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace moegen
