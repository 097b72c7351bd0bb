// SPDX-License-Identifier: Apache-2.0
// Arguments of finalize, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::finalize {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };

/// out[t, h] = sum over slots j of weight[t, j] * down[restore[t * slots + j], h]. D = expert_hidden of the config.
/// All pointers are device memory; rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 7 };  ///< Family::tag

  void* output;              ///< out [T, D] finalize.output, row-major
  const void* down;          ///< in  [rows, D] finalize.down, row-major, in expert order
  const uint32_t* restore;   ///< in  [T * slots] row of each pair, 0xFFFFFFFF contributes nothing
  const void* weights;       ///< in  [T, slots] router.weights; unused where weights are already applied
  const void* x;             ///< in  [T, D] dtypes.activation; only with zero experts
  const void* topk_ids;      ///< in  [T, slots] indices.ids; only with zero experts or finalize.bias
  const void* residual;      ///< in  [T, D] dtypes.activation; only with finalize.residual
  const void* shared;        ///< in  [T, D] finalize.down; only with finalize.shared
  const float* shared_gate;  ///< in  [T] logits of the shared expert's gate; only with shared_experts.gate = sigmoid
  const void* bias;          ///< in  [E, D] finalize.down; only with finalize.bias
  const void* inputs[kMaxInputs];  ///< in  named inputs of finalize.epilogue, in the order of their names
  int64_t num_tokens;              ///< T; 0 is legal and launches nothing
};

}  // namespace moegen::finalize
