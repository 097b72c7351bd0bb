// SPDX-License-Identifier: Apache-2.0
// Arguments of grouped_matmul, shared by host and device: what a caller fills (Args), and what a kernel with tensor
// copies takes (TensorArgs: the same, with the maps that the launcher encodes from it).
#pragma once

#include <cstdint>

#include "../core/tensor_map.h"

namespace moegen::grouped_matmul {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };
/// Box heights of the token maps: 8, 16, 32, 64, 128 rows, and one as high as a whole tile's share.
enum : int { kMaxTokenBoxes = 6 };

/// c[r, n] = epilogue(sum_k a[r, k] * b[e(g), n, k]) for rows r in [a_offsets[g], a_offsets[g + 1]), e(g) =
/// expert_ids[g]. Rows of c in no group, and all memory around c, are left as they are.
///
/// Names: R = num_rows, G = num_groups, E = num_groups of the config (<moegen/shapes.hpp>: local experts, then shared
/// slots). K, N, C: the plan's decisions `depth`, `columns`, `output_columns`. "up": K = D, N = 2 * I if gated else I,
/// C = I where the plan says `fuse_activation`, else N. "down": K = I, N = C = D. (D = expert_hidden, I =
/// intermediate.) Row-major, last index innermost; every tensor of rows is dense and starts at a multiple of 16 bytes.
/// All pointers are device memory. Sizes on the host are upper bounds: the groups' rows are read on the device.
///
/// Sums, by scheme. none, tensor, rowwise: the tensor cores' sum over K, float8 with accumulate float32 promoted to
/// float32 every 128 of K; then sum * scale of a * scale of b, each product rounded. block128 and mxfp8, for every 128
/// or 32 of K in turn: sum = fma(fl32(scale of a * scale of b), the tensor cores' sum of these products, sum). The
/// product of two powers of two is exact from 2^-149 to 2^127, beyond it 0 or infinity; code 255 of float8_e8m0fnu is
/// NaN.
struct Args {
  enum : int { kFamily = 4 };  ///< Family::tag

  /// out [R, C] in the plan's `output_dtype`: dtypes.activation (up), finalize.down (down), or float8_e4m3fn where the
  /// plan says `fuse_quantize`.
  void* c;
  /// out scales of a quantised c: block128: quantization.scale [R, ceil(C / 128)], or [ceil(C / 128), c_scales_stride]
  /// with scale_layout column; mxfp8: float8_e8m0fnu [R, ceil(C / 32)]. Null unless the plan says `fuse_quantize`.
  void* c_scales;
  /// in [R, K]; with `gather_a` [T, K]: row r is row order[r] / slots of it. bfloat16 or float16 (scheme none), else
  /// float8_e4m3fn.
  const void* a;
  /// in [E, N, K], the dtype of a. Gated: gate and up as two halves of N or interleaved, as activation.gate_layout
  /// says.
  const void* b;
  /// in scales of a. tensor: float32 [1]; rowwise: float32 [R]; block128: quantization.scale [R, ceil(K / 128)], or
  /// [ceil(K / 128), a_scales_stride] with scale_layout column; mxfp8: float8_e8m0fnu [R, ceil(K / 32)]. With
  /// `gather_a` indexed as a is. Null with scheme none.
  const void* a_scales;
  /// in scales of b. tensor: float32 [1]; rowwise: float32 [E, N]; block128: quantization.scale
  /// [E, ceil(N / 128), ceil(K / 128)]; mxfp8: float8_e8m0fnu [E, N, ceil(K / 32)]. Null with scheme none. Rowwise
  /// scales, 4-byte ones of block128 and those of mxfp8 start at a multiple of 16 bytes, as do those of a.
  const void* b_scales;
  /// in [G + 1], ascending, a_offsets[G] <= R. Any start, no alignment; empty groups cost nothing.
  const uint32_t* a_offsets;
  /// in [G], each in [0, E) or -1: then the group's rows get the epilogue of 0. May repeat, in any order.
  const int32_t* expert_ids;
  /// in [E, N] dtypes.activation; only with experts.bias. A group of expert -1 has none.
  const void* bias;
  /// in [E] float32; only with activation.limit_per_expert, where the plan says `fuse_activation`.
  const float* limits;
  /// in [R] pair indices as create_indices writes them (0xFFFFFFFF: a row of zeros); only where the plan says
  /// `gather_a`.
  const uint32_t* order;
  /// in named inputs of experts.up_epilogue or down_epilogue, in the order of their names. Shapes: scalar [1], rows
  /// [R], columns [C], experts [E], rows_columns [R, C], experts_columns [E, C]. Those by expert read index 0 for
  /// expert -1.
  const void* inputs[kMaxInputs];
  int64_t num_rows;    ///< R, an upper bound of a_offsets[G]; 0 launches nothing
  int64_t num_groups;  ///< G, length of expert_ids; 0 launches nothing
  /// Elements between two blocks of K in a_scales of scale_layout column; at least its rows, a multiple of 16 bytes.
  /// 0: num_rows rounded up to 16 bytes. Ignored otherwise.
  int64_t a_scales_stride;
  int64_t c_scales_stride;  ///< the same for c_scales
  /// Hints that only choose among equal plans; -1: unknown. Never needed for correctness, and never wrong results.
  int64_t max_num_tokens_per_expert;
  int64_t num_active_experts;
};

/// What kernels that use tensor copies take. The launcher fills it at each launch; nothing of it is kept.
struct TensorArgs {
  Args args;
  TensorMap weights;                 ///< b as [E, N, K]
  TensorMap tokens[kMaxTokenBoxes];  ///< a as [R, K], by height of the box; not with gathered rows
  TensorMap stores;                  ///< c as [R, bytes of C]; only for tiles with tensor stores
};

}  // namespace moegen::grouped_matmul
