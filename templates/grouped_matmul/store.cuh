// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, the way of a warpgroup's part of c to global memory: rows are put together in shared memory
// (`staging`) and leave in pieces of 16 bytes, whole sectors, and only rows of the tile's group. Rows lie 16 bytes more
// than their length apart: then the 8 rows of a stored 8 x 8 matrix are in different banks.
//
// A bulk copy of each row instead took 0.9 us for every 32 rows of a warpgroup on an H200: the copies of a warp's lanes
// are issued one after another.
#pragma once

#include "../core/barrier.cuh"
#include "../core/convert.cuh"
#include "../core/matrix.cuh"
#include "../core/memory.cuh"
#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Where a warpgroup stages rows of `warpgroup_columns` columns, `staging_rows` at a time.
template <class P, class T>
struct Staging {
  using Element = typename P::output_dtype;
  enum : uint32_t {
    kRowBytes = T::warpgroup_columns * sizeof(Element),
    kStride = kRowBytes + 16,
    kPieces = kRowBytes / 16,
  };
  static_assert(T::staging_bytes >= T::staging_rows * kStride);
  unsigned char* base;
  uint32_t warpgroup;

  MOEGEN_DEVICE unsigned char* at(uint32_t row, uint32_t column) const {
    return base + row * kStride + column * sizeof(Element);
  }
  /// All threads of the warpgroup have written, or read, what they had to.
  MOEGEN_DEVICE void sync() const { named_sync(1 + warpgroup, kWarpgroupThreads); }

  /// Copies `rows` staged rows to c: row 0 to `row`, `column`.
  MOEGEN_DEVICE void send(const Args& args, uint64_t row, uint32_t column, uint32_t rows) const {
    sync();
    const uint32_t thread = thread_index() % kWarpgroupThreads, piece = thread % kPieces;
    const uint32_t first = column + piece * (16 / sizeof(Element));
    if (first < P::output_columns) {
      Element* target = static_cast<Element*>(args.c) + row * P::output_columns + first;
#pragma unroll 4
      for (uint32_t i = thread / kPieces; i < rows; i += kWarpgroupThreads / kPieces)
        store(target + uint64_t{i} * P::output_columns,
              *reinterpret_cast<const Vector16*>(base + i * kStride + piece * 16));
    }
    sync();
  }
};

}  // namespace moegen::grouped_matmul
