// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, the way of a warpgroup's part of c to global memory: rows are put together in shared memory
// (`staging`), whole boxes of rows leave by one tensor store each, which nobody waits for until the memory is needed
// again, and the ragged rest in pieces of 16 bytes, whole sectors, and only rows of the tile's group.
//
// With tensor stores (`store_rows` > 0) the staging holds panels of 128 bytes a row, in the copies' swizzle. Without,
// rows lie 16 bytes more than their length apart. Either way the 8 rows of a stored 8 x 8 matrix are in different
// banks.
//
// A bulk copy of each row instead took 0.9 us for every 32 rows of a warpgroup on an H200: the copies of a warp's lanes
// are issued one after another.
#pragma once

#include "../core/barrier.cuh"
#include "../core/bulk_copy.cuh"
#include "../core/convert.cuh"
#include "../core/matrix.cuh"
#include "../core/memory.cuh"
#include "../core/tensor_copy.cuh"
#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Where a warpgroup stages rows of its `warpgroup_columns` columns: `staging_rows` at a time, and with tensor stores
/// `staging_panels` panels of each.
template <class P, class T>
struct Staging {
  using Element = typename P::output_dtype;
  enum : uint32_t {
    kRowBytes = T::warpgroup_columns * sizeof(Element),
    kStride = kRowBytes + 16,  // without panels
    kPanelColumns = T::store_rows > 0 ? kSliceBytes / sizeof(Element) : T::warpgroup_columns,
    kPanels = T::warpgroup_columns / kPanelColumns,
    kPieces = kPanelColumns * sizeof(Element) / 16,
  };
  static_assert(T::staging_bytes >=
                T::staging_rows * (T::store_rows > 0 ? T::staging_panels * kSliceBytes : uint32_t{kStride}));
  static_assert(T::store_rows == 0 || kRowBytes % kSliceBytes == 0);
  unsigned char* base;
  uint32_t warpgroup;

  /// Row `row` of the panel at place `place`: 128 bytes.
  MOEGEN_DEVICE unsigned char* panel(uint32_t place, uint32_t row) const {
    return base + (place * T::staging_rows + row) * kSliceBytes;
  }
  MOEGEN_DEVICE unsigned char* at(uint32_t row, uint32_t column) const {
    const uint32_t byte = column * sizeof(Element);
    if constexpr (T::store_rows == 0) return base + row * kStride + byte;
    return panel(byte / kSliceBytes, row) + ((byte % kSliceBytes) ^ (row % 8 * 16));
  }
  /// This warpgroup's first column, of the tile's.
  MOEGEN_DEVICE uint32_t first_column() const { return warpgroup * T::warpgroup_columns; }
  /// All threads of the warpgroup have written, or read, what they had to.
  MOEGEN_DEVICE void sync() const { named_sync(1 + warpgroup, kWarpgroupThreads); }

  /// Stores a panel's staged rows [first, first + rows) to c in pieces, row `first` to `row`, `column`: thread `thread`
  /// of `Threads`.
  template <uint32_t Threads>
  MOEGEN_DEVICE void send_pieces(const Args& args, uint32_t place, uint32_t first, uint64_t row, uint32_t column,
                                 uint32_t rows, uint32_t thread) const {
    constexpr uint32_t kPieceElements = 16 / sizeof(Element);
    constexpr uint32_t kAcross = min_of<uint32_t>(kPieces & (0u - kPieces), Threads);  // a power of two
#pragma unroll
    for (uint32_t i = 0; i < kPieces / kAcross; ++i) {
      const uint32_t mine = (i * kAcross + thread % kAcross) * kPieceElements;
      if (column + mine >= P::output_columns) continue;
      Element* target = static_cast<Element*>(args.c) + row * P::output_columns + column + mine;
#pragma unroll 4
      for (uint32_t r = thread / kAcross; r < rows; r += Threads / kAcross)
        store(target + uint64_t{r} * P::output_columns,
              *reinterpret_cast<const Vector16*>(at(first + r, place * kPanelColumns + mine)));
    }
  }

  /// Stores the box of `store_rows` staged rows from `first` on, in a bulk group of its own; one thread.
  MOEGEN_DEVICE void send_box(const TensorArgs& args, uint32_t place, uint32_t first, uint32_t row,
                              uint32_t column) const {
    tensor_store(args.stores, panel(place, first), column * sizeof(Element), row);
    bulk_commit();
  }
};

/// The staging may be written again once at most `Pending` of this thread's boxes are still to be read.
template <class T, uint32_t Pending>
MOEGEN_DEVICE void wait_for_boxes(bool issuer) {
  if constexpr (T::store_rows > 0) {
    if (issuer) bulk_wait_read<Pending>();
  }
}

// ---- tokens on M ----

/// Brings a panel of the 16 tokens of this warp on its way: warps need not wait for each other.
template <class P, class T>
MOEGEN_DEVICE void send_warp(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile, uint32_t warpgroup,
                             uint32_t place, uint32_t column) {
  constexpr uint32_t kWarpRows = kWarpgroupRows / 4;
  static_assert(T::store_rows == 0 || T::store_rows == kWarpRows);
  const uint32_t first = warp_index() % 4 * kWarpRows, token = warpgroup * kWarpgroupRows + first;
  const uint32_t rows = tile.rows > token ? min_of<uint32_t>(tile.rows - token, kWarpRows) : 0;
  const bool box = T::store_rows > 0 && rows == kWarpRows;
  if (box) fence_proxy_async();
  warp_sync();
  if (!box)
    staging.template send_pieces<kWarpSize>(args.args, place, first, uint64_t{tile.row} + token, column, rows,
                                            lane_index());
  else if (lane_index() == 0)
    staging.send_box(args, place, first, tile.row + token, column);
  warp_sync();
}

/// stage(panel, place), then the way of that panel, for each panel of this warp's 16 tokens.
template <class P, class T, uint32_t Panel = 0, class Stage>
MOEGEN_DEVICE void store_panels(const TensorArgs& args, const Staging<P, T>& staging, const Tile& tile,
                                uint32_t warpgroup, Stage&& stage) {
  using S = Staging<P, T>;
  constexpr uint32_t kPlace = Panel % T::staging_panels;
  if constexpr (Panel == 0 || Panel >= T::staging_panels) {
    wait_for_boxes<T, Panel == 0 ? 0 : T::staging_panels - 1>(lane_index() == 0);
    warp_sync();
  }
  stage(Panel, kPlace);
  send_warp(args, staging, tile, warpgroup, kPlace, tile.unit * T::tile_columns + Panel * S::kPanelColumns);
  if constexpr (Panel + 1 < S::kPanels) store_panels<P, T, Panel + 1>(args, staging, tile, warpgroup, stage);
}

}  // namespace moegen::grouped_matmul
