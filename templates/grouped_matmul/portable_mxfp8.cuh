// SPDX-License-Identifier: Apache-2.0
// grouped_matmul for every arch, mxfp8: one matrix product of a warp is one block of K, whose products are scaled and
// added to the sum at once. Each thread brings the scales of one row of the tile along with the slices.
#pragma once

#include "mx_scales.cuh"
#include "portable.cuh"

namespace moegen::grouped_matmul {

/// The scales of a stage lie behind its rows.
template <class P, class T>
MOEGEN_DEVICE MxScales<T> mx_scales(unsigned char* stage) {
  static_assert(PortableLayout<P, T>::scale_bytes == MxScales<T>::kFloats * 4);
  return {reinterpret_cast<float*>(stage + PortableLayout<P, T>::rows_bytes)};
}

/// A thread's row of scales.
template <class P, class T>
struct MxLine {
  static_assert(T::weight_rows + T::max_tokens <= T::threads, "a thread brings one row");
  const uint8_t* codes;
  MOEGEN_DEVICE MxLine(const Args& args, const Tile& tile)
      : codes(thread_index() < T::weight_rows + T::max_tokens ? mx_line<P, T>(args, tile, thread_index()) : nullptr) {}
  MOEGEN_DEVICE uint32_t load(uint32_t slice) const { return codes == nullptr ? 0 : mx_codes<P>(codes, slice); }
  MOEGEN_DEVICE void store(unsigned char* stage, uint32_t word) const {
    if (thread_index() < T::weight_rows + T::max_tokens) store_line(mx_scales<P, T>(stage), thread_index(), word);
  }
};

/// Adds one slice to the sum.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void add_mx_slice(unsigned char* stage, float (&sum)[N / 2]) {
  const MxScales<T> scales = mx_scales<P, T>(stage);
#pragma unroll
  for (uint32_t step = 0; step < kMxSteps; ++step) {
    float products[N / 2] = {};
    multiply_steps<P, T, N>(stage, step, products);
    rescale_widened<P>(products);
    add_mx_step<T, N>(scales, warp_index() * 16 + lane_index() / 4, step, products, sum);
  }
}

/// The sum over K of a tile.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_mx_slices(const Args& args, const Tile& tile, unsigned char* shared, float (&sum)[N / 2]) {
  using Layout = PortableLayout<P, T>;
  const Copies<P, T> copies(args, tile);
  const MxLine<P, T> line(args, tile);
#pragma unroll
  for (uint32_t slice = 0; slice + 1 < T::stages; ++slice) {
    copies.start(shared + slice * Layout::stage_bytes, args.b, slice);
    line.store(shared + slice * Layout::stage_bytes, line.load(slice));
  }
#pragma unroll 1
  for (uint32_t slice = 0; slice < P::depth_blocks; ++slice) {
    copy_wait<T::stages - 2>();
    block_sync();  // this slice and its scales are there, and the stage of the one before is free
    const uint32_t ahead = slice + T::stages - 1;
    unsigned char* free = shared + ahead % T::stages * Layout::stage_bytes;
    copies.start(free, args.b, ahead);
    const uint32_t codes = line.load(ahead);  // on their way while this slice is multiplied
    add_mx_slice<P, T, N>(shared + slice % T::stages * Layout::stage_bytes, sum);
    line.store(free, codes);
  }
  copy_wait<0>();
}

}  // namespace moegen::grouped_matmul
