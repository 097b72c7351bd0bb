// SPDX-License-Identifier: Apache-2.0
// Arguments of quantize, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::quantize {

/// rows[r] = codes of x[r] for r below *row_count, as quantization.scheme says; other rows are left as they are.
/// W: the plan's `width`, expert_hidden for quantize.up and intermediate for quantize.down (the matmul that reads
/// them). All pointers are device memory; x and rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 6 };  ///< Family::tag

  /// out [R, W] float8_e4m3fn; mxfp4 and nvfp4: [R, W / 2] bytes of two float4_e2m1fn, the first in the low half.
  void* rows;
  /// out rowwise: float32 [R]. block128: quantization.scale [R, ceil(W / 128)], or [ceil(W / 128), scales_stride] with
  /// scale_layout column. mxfp8: float8_e8m0fnu [R, ceil(W / 32)]. mxfp4: float8_e8m0fnu [R, W / 32]. nvfp4:
  /// float8_e4m3fn [R, W / 16]. tensor: null.
  void* scales;
  const void* x;  ///< in  [R, W] dtypes.activation
  const uint32_t*
      row_count;  ///< in  [1] rows in use, as expert_start_indices[E] of create_indices; null: all of num_rows
  const float* global_scale;  ///< in  [1] tensor: the scale. nvfp4: the factor of all scales, 2^-80 to 2^80. Else null
  int64_t num_rows;           ///< R, an upper bound; 0 is legal and launches nothing
  /// Elements between two blocks of columns in scales of scale_layout column; at least num_rows, a multiple of 16
  /// bytes. 0: num_rows rounded up to 16 bytes. Else ignored.
  int64_t scales_stride;
};

}  // namespace moegen::quantize
