// SPDX-License-Identifier: Apache-2.0
// Arguments of activation, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::activation {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };

/// rows[r, i] = epilogue(act(gate[r, i]) * up[r, i]) for r below *row_count, stored in dtypes.activation or quantised;
/// other rows are left as they are. I = intermediate; E = num_groups of the config (<moegen/shapes.hpp>).
/// All pointers are device memory; up and rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 5 };  ///< Family::tag

  /// out [R, I] dtypes.activation, or codes as quantize::Args::rows where the plan's scheme_kind is not none.
  void* rows;
  void* scales;  ///< out as quantize::Args::scales, W = I; null where rows are not quantised or the scheme is tensor
  /// in [R, 2 * I] dtypes.activation as the up projection leaves it, gate and up as two halves or interleaved
  /// (activation.gate_layout); [R, I] where there is no gate.
  const void* up;
  const uint32_t*
      row_count;  ///< in  [1] rows in use, as expert_start_indices[E] of create_indices; null: all of num_rows
  /// in [G + 1] and [G] from create_indices: first row and local expert of each group, -1: none. Only where the plan
  /// says `by_expert` (activation.limit_per_expert, or an epilogue that reads by expert).
  const uint32_t* expert_start_indices;
  const int32_t* expert_ids;
  const float* limits;        ///< in  [E]; only with activation.limit_per_expert; expert -1 has none
  const float* global_scale;  ///< in  [1] tensor: the scale. nvfp4: the factor of all scales. Else null
  /// in named inputs of experts.up_epilogue, in the order of their names. Shapes: scalar [1], rows [R], columns [I],
  /// experts [E], rows_columns [R, I], experts_columns [E, I]. Those by expert read index 0 for expert -1.
  const void* inputs[kMaxInputs];
  int64_t num_rows;       ///< R, an upper bound; 0 is legal and launches nothing
  int64_t num_groups;     ///< G, length of expert_ids; 1 or more where the plan says `by_expert`, else ignored
  int64_t scales_stride;  ///< as in quantize::Args
};

}  // namespace moegen::activation
