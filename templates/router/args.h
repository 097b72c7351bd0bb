// SPDX-License-Identifier: Apache-2.0
// Arguments of router, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::router {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };

/// Chooses top_k of N = num_experts + num_zero_experts experts for each token, and their weights. S = the config's
/// shared slots, 0 by default. All pointers are device memory.
struct Args {
  enum : int { kFamily = 1 };  ///< Family::tag

  int32_t* expert_indices;  ///< out [T, top_k + S], descending by choice key; then the shared slots, ids from N on
  void* expert_weights;     ///< out [T, top_k + S] router.weights
  const void* logits;       ///< in  [T, N] router.logits, rows `row_stride` elements apart, aligned to the element
  int64_t row_stride;       ///< elements, >= N; what lies between rows is never read
  const void* bias;         ///< in  [N] router.bias; null where the config has none
  const void* token_ids;    ///< in  [T] router.hash.token_id; null without hash routing
  const int32_t* table;     ///< in  [router.hash.vocab, top_k] expert ids in [0, N); null without hash routing
  const void* inputs[kMaxInputs];  ///< in  named inputs of router.scores, in the order of their names
  int64_t num_tokens;              ///< T, 0 .. 2^31 - 1; 0 is legal and launches nothing
  float scale;                     ///< factor on the k weights, once, after everything else (config: router.scale)
};

}  // namespace moegen::router
