// SPDX-License-Identifier: Apache-2.0
// The sums of grouped_matmul's reference (runtime/reference/grouped_matmul.hpp, matmul_sum) on a GPU: float64, plain
// loops, no tensor cores. The CPU target runs the same text, which holds it to the host's.
//
// A block takes 64 rows of one expert and 32 columns; a thread 4 x 2 of them, 16 apart. K goes by in steps of one
// instruction of the tensor cores, decoded to float32 in shared memory.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::matmul_sums {

enum : uint32_t { kRows = 64, kColumns = 32, kThreads = 256, kRowsOfThread = 4, kColumnsOfThread = 2, kStep = 32 };
enum : int32_t { kBfloat16, kFloat16, kFloat8 };             // Arguments::element
enum : int32_t { kNone_, kTensor, kRowwise, kBlocks, kMx };  // Arguments::scheme

/// Rows [first, first + count) of Arguments::rows, all of `expert`.
struct Tile {
  int32_t first, count, expert, unused;
};

struct Row {
  int64_t a_row;  // -1: a row of zeros
  int64_t out;    // row of `out`
};

/// reference::SumParts
struct Parts {
  double sum, peaks, squares, magnitude;
};

struct Arguments {
  const void *a, *b, *a_scales, *b_scales;  // as grouped_matmul's
  const Row* rows;
  const Tile* tiles;
  const int32_t* columns;                              // [num_columns] of N
  Parts* out;                                          // [rows, num_columns]
  int64_t depth, width, num_columns, a_scales_stride;  // K, N
  int32_t element, scheme, small_scales, column_scales, step, interval, per_scale, num_tiles;
};

struct Shared {
  float a[kStep * (kRows + 1)], b[kStep * (kColumns + 1)];  // by k, then row: a pad against bank conflicts
};

MOEGEN_DEVICE double magnitude(double x) { return x < 0 ? -x : x; }

MOEGEN_DEVICE float element(const Arguments& args, const void* tensor, int64_t index) {
  if (args.element == kFloat8) return to_float(static_cast<const float8_e4m3fn*>(tensor)[index]);
  if (args.element == kFloat16) return to_float(static_cast<const float16*>(tensor)[index]);
  return to_float(static_cast<const bfloat16*>(tensor)[index]);
}

MOEGEN_DEVICE double scale(const Arguments& args, const void* tensor, int64_t index) {
  if (args.small_scales != 0) return to_float(static_cast<const float8_e8m0fnu*>(tensor)[index]);
  return static_cast<const float*>(tensor)[index];
}

/// The factor of one element of the block of K that begins at `k`.
MOEGEN_DEVICE double factor(const Arguments& args, int64_t a_row, int64_t expert, int64_t column, int64_t k) {
  if (args.scheme == kNone_ || a_row < 0) return 1;
  if (args.scheme == kTensor) return scale(args, args.a_scales, 0) * scale(args, args.b_scales, 0);
  if (args.scheme == kRowwise)
    return scale(args, args.a_scales, a_row) * scale(args, args.b_scales, expert * args.width + column);
  const int64_t blocks = (args.depth + args.per_scale - 1) / args.per_scale, block = k / args.per_scale;
  const int64_t at = args.column_scales != 0 ? block * args.a_scales_stride + a_row : a_row * blocks + block;
  const int64_t b_row =
      args.scheme == kMx ? expert * args.width + column : expert * ((args.width + 127) / 128) + column / 128;
  return scale(args, args.a_scales, at) * scale(args, args.b_scales, b_row * blocks + block);
}

/// One step of K of both operands, zeros past the ends.
MOEGEN_DEVICE void load(const Arguments& args, const Tile& tile, int64_t first_column, int64_t k, Shared& shared) {
  const uint32_t step = static_cast<uint32_t>(args.step);
  for (uint32_t i = thread_index(); i < (kRows + kColumns) * step; i += kThreads) {
    const uint32_t line = i / step, at = i % step;
    const int64_t depth = k + at;
    if (line < kRows) {
      const int64_t row = static_cast<int32_t>(line) < tile.count ? args.rows[tile.first + line].a_row : -1;
      shared.a[at * (kRows + 1) + line] =
          row >= 0 && depth < args.depth ? element(args, args.a, row * args.depth + depth) : 0;
    } else {
      const int64_t column = first_column + line - kRows;
      const bool there = column < args.num_columns && depth < args.depth;
      shared.b[at * (kColumns + 1) + line - kRows] =
          there ? element(args, args.b,
                          (static_cast<int64_t>(tile.expert) * args.width + args.columns[column]) * args.depth + depth)
                : 0;
    }
  }
}

struct Cell {
  double sum, peaks, squares;
};

/// Adds one instruction's products to the cells of this thread.
MOEGEN_DEVICE void add(const Arguments& args, const Shared& shared, uint32_t x, uint32_t y,
                       Cell (&cells)[kRowsOfThread][kColumnsOfThread]) {
  double sum[kRowsOfThread][kColumnsOfThread] = {};
  float largest[kRowsOfThread][kColumnsOfThread] = {};
  for (int32_t k = 0; k < args.step; ++k) {
    float a[kRowsOfThread], b[kColumnsOfThread];
#pragma unroll
    for (uint32_t i = 0; i < kRowsOfThread; ++i) a[i] = shared.a[k * (kRows + 1) + y + 16 * i];
#pragma unroll
    for (uint32_t j = 0; j < kColumnsOfThread; ++j) b[j] = shared.b[k * (kColumns + 1) + x + 16 * j];
#pragma unroll
    for (uint32_t i = 0; i < kRowsOfThread; ++i)
#pragma unroll
      for (uint32_t j = 0; j < kColumnsOfThread; ++j) {
        sum[i][j] += static_cast<double>(a[i]) * static_cast<double>(b[j]);
        const float product = a[i] * b[j];
        largest[i][j] = max_of(largest[i][j], product < 0 ? -product : product);
      }
  }
#pragma unroll
  for (uint32_t i = 0; i < kRowsOfThread; ++i)
#pragma unroll
    for (uint32_t j = 0; j < kColumnsOfThread; ++j) {
      Cell& cell = cells[i][j];
      const double before = magnitude(cell.sum);
      cell.sum += sum[i][j];
      const double peak = max_of(max_of(before, magnitude(cell.sum)), static_cast<double>(largest[i][j]));
      cell.peaks += peak;
      cell.squares += peak * peak;
    }
}

MOEGEN_DEVICE void run(const Arguments& args) {
  Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared());
  const Tile tile = args.tiles[block_index() % static_cast<uint32_t>(args.num_tiles)];
  const int64_t first_column = static_cast<int64_t>(block_index() / static_cast<uint32_t>(args.num_tiles)) * kColumns;
  const uint32_t x = thread_index() % 16, y = thread_index() / 16;
  Parts parts[kRowsOfThread][kColumnsOfThread] = {};
  for (int64_t begin = 0; begin < args.depth; begin += args.interval) {
    const int64_t end = min_of(begin + args.interval, args.depth);
    Cell cells[kRowsOfThread][kColumnsOfThread] = {};
    for (int64_t k = begin; k < end; k += args.step) {
      block_sync();
      load(args, tile, first_column, k, shared);
      block_sync();
      add(args, shared, x, y, cells);
    }
    for (uint32_t i = 0; i < kRowsOfThread; ++i)
      for (uint32_t j = 0; j < kColumnsOfThread; ++j) {
        const int64_t column = first_column + x + 16 * j;
        if (static_cast<int32_t>(y + 16 * i) >= tile.count || column >= args.num_columns) continue;
        const double f =
            factor(args, args.rows[tile.first + y + 16 * i].a_row, tile.expert, args.columns[column], begin);
        parts[i][j].sum += f * cells[i][j].sum;
        parts[i][j].peaks += f * cells[i][j].peaks;
        parts[i][j].squares += f * f * cells[i][j].squares;
        parts[i][j].magnitude += f * magnitude(cells[i][j].sum);
      }
  }
  for (uint32_t i = 0; i < kRowsOfThread; ++i)
    for (uint32_t j = 0; j < kColumnsOfThread; ++j) {
      const int64_t column = first_column + x + 16 * j;
      if (static_cast<int32_t>(y + 16 * i) < tile.count && column < args.num_columns)
        args.out[args.rows[tile.first + y + 16 * i].out * args.num_columns + column] = parts[i][j];
    }
}

}  // namespace moegen::matmul_sums

extern "C" __global__ void __launch_bounds__(256, 1)
    matmul_sums(const __grid_constant__ moegen::matmul_sums::Arguments args) {
  moegen::matmul_sums::run(args);
}
