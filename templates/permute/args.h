// SPDX-License-Identifier: Apache-2.0
// Arguments of permute, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::permute {

/// rows[p] = x[order[p] / slots] for every row p that a pair has, zeros for padding rows (order 0xFFFFFFFF), in
/// dtypes.activation or quantised; times the pair's router weight with experts.weights_on_input. Rows past the last
/// group are left as they are. order is the inverse of restore, which is what the kernel goes by: a token is read once
/// and written to all of its rows. D = expert_hidden, E = num_groups of the config (<moegen/shapes.hpp>).
/// All pointers are device memory; x and rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 3 };  ///< Family::tag

  /// out [R, D] dtypes.activation, or codes as quantize::Args::rows where the plan's scheme_kind is not none.
  void* rows;
  void* scales;   ///< out as quantize::Args::scales, W = D; null where rows are not quantised or the scheme is tensor
  const void* x;  ///< in  [T, D] dtypes.activation
  const uint32_t* restore;  ///< in  [T * slots] row of each pair, 0xFFFFFFFF: none
  const void* weights;      ///< in  [T, slots] router.weights; only with experts.weights_on_input
  /// in [order_capacity] and [E + 1] from create_indices; only with indices.pad_rows_to above 1, for the padding rows.
  const uint32_t* order;
  const uint32_t* expert_start_indices;
  const float* global_scale;  ///< in  [1] tensor: the scale. nvfp4: the factor of all scales. Else null
  int64_t num_tokens;         ///< T; 0 is legal and launches nothing: no pair, no padding
  int64_t num_rows;       ///< R, an upper bound of the rows (order_capacity); only sizes the column layout of scales
  int64_t scales_stride;  ///< as in quantize::Args
};

}  // namespace moegen::permute
