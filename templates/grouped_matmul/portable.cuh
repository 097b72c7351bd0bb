// SPDX-License-Identifier: Apache-2.0
// grouped_matmul for every arch: c[r, n] = epilogue(sum_k a[r, k] * b[e(g), n, k]), by the matrix product of a warp.
//
// Algorithm. Blocks are resident and take tiles in turn (tile.cuh). A tile is `weight_rows` rows of b by up to
// `max_tokens` rows of a. All threads copy slices of 128 bytes of K into a ring of stages ahead of their use; 4 warps
// multiply 64 rows of weights (M) by the tokens (N), so that a thread holds what it holds on Hopper, and shares its
// epilogue. fp8 on archs whose tensor cores do not know it is widened to float16, which holds it exactly.
//
// Roles: all threads copy, multiply and store.
// Shared memory: [stages] of weight_rows x 128 bytes of b, then max_tokens x 128 bytes of a; the 16-byte pieces of row
// r are permuted by r % 8 against bank conflicts. Then the staged rows of c. Barriers: one of the block for each slice.
#pragma once

#include "../core/convert.cuh"
#include "../core/copy_async.cuh"
#include "../core/grid.cuh"
#include "../core/matrix.cuh"
#include "../core/memory.cuh"
#include "../core/mma.cuh"
#include "../core/narrow.cuh"
#include "finish_tokens_n.cuh"

namespace moegen::grouped_matmul {

enum : uint32_t { kPieceBytes = 16, kPieces = kSliceBytes / kPieceBytes, kStepBytes = 32 };

/// What a value of c is until it leaves: quantised ones are floats.
template <bool Quantised, class Element>
struct Staged {
  using type = Element;
};
template <class Element>
struct Staged<true, Element> {
  using type = float;
};
template <class P>
using StagedElement = typename Staged<P::fuse_quantize, typename P::output_dtype>::type;

template <class P, class T>
struct PortableLayout {
  enum : uint32_t {
    rows_bytes = (T::weight_rows + T::max_tokens) * kSliceBytes,
    scale_bytes = P::mx_scales ? (T::weight_rows + T::max_tokens) * 16 : 0,  // four floats a row
    stage_bytes = rows_bytes + scale_bytes,
    row_bytes = T::tile_columns * sizeof(StagedElement<P>) + kPieceBytes,
    staging = T::stages * stage_bytes,
    total = staging + T::staging_rows * row_bytes,
  };
};

/// Where piece `piece` of row `row` of a stage lies; rows of b come before those of a.
MOEGEN_DEVICE unsigned char* piece_at(unsigned char* stage, uint32_t row, uint32_t piece) {
  return stage + row * kSliceBytes + (piece ^ row % 8) * kPieceBytes;
}

/// What a thread copies of every slice: one piece of several rows.
template <class P, class T>
struct Copies {
  enum : uint32_t {
    kRowBytes = P::depth * sizeof(typename P::element_dtype),
    kRowsAtOnce = T::threads / kPieces,
    kRows = (T::weight_rows + T::max_tokens) / kRowsAtOnce,
  };
  const unsigned char* source[kRows];  // null: zeros

  MOEGEN_DEVICE Copies(const Args& args, const Tile& tile) {
    const unsigned char* expert =
        static_cast<const unsigned char*>(args.b) + static_cast<uint64_t>(tile.expert) * P::columns * kRowBytes;
#pragma unroll
    for (uint32_t i = 0; i < kRows; ++i) {
      const uint32_t row = i * kRowsAtOnce + thread_index() / kPieces;
      const bool weight = row < T::weight_rows;
      const uint32_t from = weight ? tile_weight_row<P, T>(tile, row) : source_row<P>(args, tile, row - T::weight_rows);
      const unsigned char* base = weight ? expert : static_cast<const unsigned char*>(args.a);
      source[i] = from == kNone ? nullptr : base + static_cast<uint64_t>(from) * kRowBytes;
    }
  }

  /// Asks for slice `slice` as one group; past the last the group is empty.
  MOEGEN_DEVICE void start(unsigned char* stage, const void* any, uint32_t slice) const {
    const uint32_t piece = thread_index() % kPieces, offset = slice * kSliceBytes + piece * kPieceBytes;
    if (slice < P::depth_blocks) {
#pragma unroll
      for (uint32_t i = 0; i < kRows; ++i) {
        const bool inside = source[i] != nullptr && offset < kRowBytes;
        copy_async<kPieceBytes>(piece_at(stage, i * kRowsAtOnce + thread_index() / kPieces, piece),
                                inside ? source[i] + offset : any, inside ? kPieceBytes : 0);
      }
    }
    copy_commit();
  }
};

/// Two fp8 in the low half of `bytes` as float16, both 2^-8 of their value: then exponent and mantissa are where they
/// are, subnormals too. NaN stays NaN.
MOEGEN_DEVICE uint32_t widen_pair(uint32_t bytes) {
  const uint32_t apart = (bytes & 0xFFu) << 8 | (bytes & 0xFF00u) << 16;
  const uint32_t magnitude = apart & 0x7F007F00u;
  const uint32_t nan = (magnitude + 0x01000100u) & 0x80008000u;  // of 0x7F alone
  return (apart & 0x80008000u) | magnitude >> 1 | (nan >> 5) * 31;
}

template <uint32_t Count>
MOEGEN_DEVICE void widen_pairs(const uint32_t (&bytes)[Count], uint32_t shift, uint32_t (&halves)[Count]) {
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) halves[i] = widen_pair(bytes[i] >> shift);
}

/// Sums of widened products are 2^-16 of their value.
template <class P, uint32_t Count>
MOEGEN_DEVICE void rescale_widened(float (&d)[Count]) {
  if constexpr (P::widen) {
#pragma unroll
    for (uint32_t i = 0; i < Count; ++i) d[i] *= 65536.0f;
  }
}

/// d += a * b over 32 bytes of K. Widened elements take K in another order, the same for a and b.
template <class P>
MOEGEN_DEVICE void multiply_step(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (P::widen) {
#pragma unroll
    for (uint32_t shift = 0; shift < 32; shift += 16) {
      uint32_t wide_a[4], wide_b[2];
      widen_pairs(a, shift, wide_a);
      widen_pairs(b, shift, wide_b);
      mma(float16{}, d, wide_a, wide_b, d);
    }
  } else {
    mma(typename P::element_dtype{}, d, a, b, d);
  }
}

/// The products of 32 bytes of K of a slice, added to `d`.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void multiply_steps(unsigned char* stage, uint32_t step, float (&d)[N / 2]) {
  const uint32_t lane = lane_index();
  uint32_t a[4];
  load_matrix(a, piece_at(stage, warp_index() * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
  for (uint32_t j = 0; j < N / 8; j += 2) {
    uint32_t b[4];
    load_matrix(b, piece_at(stage, T::weight_rows + 8 * (j + lane / 16) + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float(&four)[4] = *reinterpret_cast<float(*)[4]>(&d[4 * (j + i)]);
      const uint32_t pair[2] = {b[2 * i], b[2 * i + 1]};
      multiply_step<P>(four, a, pair);
    }
  }
}

/// The products of one slice, added to `d`.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void multiply_slice(unsigned char* stage, float (&d)[N / 2]) {
#pragma unroll
  for (uint32_t step = 0; step < kSliceBytes / kStepBytes; ++step) multiply_steps<P, T, N>(stage, step, d);
}

/// Adds the partial sums of slice `slice` to the sum.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void promote_slice(const Args& args, const Tile& tile, uint32_t slice, float (&part)[N / 2],
                                 float (&sum)[N / 2]) {
  if constexpr (P::block_scales) {
    add_scaled_slice<P, T, N>(args, tile, slice, part, sum);
  } else {
#pragma unroll
    for (uint32_t i = 0; i < N / 2; ++i) sum[i] += part[i];
  }
}

/// The sum over K of a tile. Partial sums are promoted as on Hopper, every 128 of K.
template <class P, class T, uint32_t N>
MOEGEN_DEVICE void sum_slices(const Args& args, const Tile& tile, unsigned char* shared, float (&sum)[N / 2]) {
  using Layout = PortableLayout<P, T>;
  const Copies<P, T> copies(args, tile);
#pragma unroll
  for (uint32_t slice = 0; slice + 1 < T::stages; ++slice)
    copies.start(shared + slice * Layout::stage_bytes, args.b, slice);
#pragma unroll 1
  for (uint32_t slice = 0; slice < P::depth_blocks; ++slice) {
    copy_wait<T::stages - 2>();
    block_sync();  // this slice is there, and the stage of the one before is free
    const uint32_t ahead = slice + T::stages - 1;
    copies.start(shared + ahead % T::stages * Layout::stage_bytes, args.b, ahead);
    if constexpr (P::promote) {
      float part[N / 2] = {};
      multiply_slice<P, T, N>(shared + slice % T::stages * Layout::stage_bytes, part);
      rescale_widened<P>(part);
      promote_slice<P, T, N>(args, tile, slice, part, sum);
    } else {
      multiply_slice<P, T, N>(shared + slice % T::stages * Layout::stage_bytes, sum);
    }
  }
  copy_wait<0>();
  if constexpr (!P::promote) rescale_widened<P>(sum);
}

MOEGEN_DEVICE void stage_value(bfloat16* at, float value) { at->bits = static_cast<uint16_t>(pack_bfloat16(value, 0)); }
MOEGEN_DEVICE void stage_value(float16* at, float value) { at->bits = static_cast<uint16_t>(pack_float16(value, 0)); }
MOEGEN_DEVICE void stage_value(float* at, float value) { *at = value; }

/// Puts the values of tokens [first_row, first_row + staging_rows) where a token's columns lie side by side.
template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void stage_values(const FinishTokensN<P, T, Custom, N>& finish, unsigned char* staging,
                                const float (&sum)[N / 2], uint32_t first_row) {
  using Element = StagedElement<P>;
  const uint32_t mine = finish.weights.column - finish.tile.unit * T::tile_columns;
#pragma unroll
  for (uint32_t j = 0; j < N / 8; ++j) {
    if (8 * j < first_row || 8 * j >= first_row + T::staging_rows) continue;
#pragma unroll
    for (uint32_t half = 0; half < (P::gated ? 1 : 2); ++half) {
      float pair[2];
      finish.values(sum, j, half, pair);
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k) {
        const uint32_t row = 8 * j + lane_index() % 4 * 2 + k - first_row;
        stage_value(reinterpret_cast<Element*>(staging + row * PortableLayout<P, T>::row_bytes) + mine + 8 * half,
                    pair[k]);
      }
    }
  }
}

/// Copies `rows` staged rows to c, from row `row` on.
template <class P, class T>
MOEGEN_DEVICE void send_rows(const Args& args, const Tile& tile, const unsigned char* staging, uint32_t row,
                             uint32_t rows) {
  using Element = typename P::output_dtype;
  constexpr uint32_t kColumnsOfPiece = kPieceBytes / sizeof(Element), kAcross = T::tile_columns / kColumnsOfPiece;
  for (uint32_t i = thread_index(); i < rows * kAcross; i += T::threads) {
    const uint32_t piece = i % kAcross, column = tile.unit * T::tile_columns + piece * kColumnsOfPiece;
    if (column >= P::output_columns) continue;
    Element* target = static_cast<Element*>(args.c) + uint64_t{row + i / kAcross} * P::output_columns + column;
    store(target, *reinterpret_cast<const Vector16*>(staging + i / kAcross * PortableLayout<P, T>::row_bytes +
                                                     piece * kPieceBytes));
  }
}

template <class P, class T, class Custom, uint32_t N>
MOEGEN_DEVICE void run_tile(const Args& args, const Tile& tile, unsigned char* shared) {
  const WeightRows<P, T> rows_of_weights(args, tile, warp_index() / 4);
  const FinishTokensN<P, T, Custom, N> finish(args, tile, rows_of_weights);
  float sum[N / 2] = {};
  if (tile.expert >= 0) {
    if constexpr (P::mx_scales)
      sum_mx_slices<P, T, N>(args, tile, shared, sum);
    else
      sum_slices<P, T, N>(args, tile, shared, sum);
  }
  unsigned char* staging = shared + PortableLayout<P, T>::staging;
#pragma unroll
  for (uint32_t row = 0; row < N; row += T::staging_rows) {
    if (row >= tile.rows) break;
    block_sync();  // what was staged before has been stored, and the last slice was read
    stage_values(finish, staging, sum, row);
    block_sync();
    const uint32_t rows = min_of<uint32_t>(tile.rows - row, T::staging_rows);
    if constexpr (P::fuse_quantize)
      send_quantised<P, T, T::threads / kWarpSize>(args, tile, reinterpret_cast<const float*>(staging), tile.row + row,
                                                   rows, warp_index());
    else
      send_rows<P, T>(args, tile, staging, tile.row + row, rows);
  }
  block_sync();
}

template <class P, class T, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  unsigned char* shared = dynamic_shared_tiles();
  static_assert(PortableLayout<P, T>::total <= T::shared_bytes, "the plan reserved less than the block needs");
  launch_dependents();
  wait_for_dependencies();
  TileWalk<P, T> walk(args, 0);
  Tile tile;
  while (walk.next(tile)) {
    if (tile.rows <= T::width(0))
      run_tile<P, T, Custom, T::width(0)>(args, tile, shared);
    else
      run_tile<P, T, Custom, T::max_tokens>(args, tile, shared);
  }
}

}  // namespace moegen::grouped_matmul
