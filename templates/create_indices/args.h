// SPDX-License-Identifier: Apache-2.0
// Arguments of create_indices, shared by host and device.
#pragma once

#include <cstdint>

namespace moegen::create_indices {

/// Groups P = num_pairs (token, slot) pairs by expert. E is the number of groups: the local experts of the config, then
/// its shared slots. Shapes: <moegen/shapes.hpp>.
/// All pointers are device memory; an output is written in full by every launch, also for P = 0.
struct Args {
  enum : int { kFamily = 2 };  ///< Family::tag

  const void* topk_ids;            ///< in  [P] ids dtype of the config; aligned to its element
  uint32_t* token_expert_order;    ///< out [order_capacity(P)] pair indices grouped by expert, 0xFFFFFFFF where unused
  uint32_t* expert_start_indices;  ///< out [E + 1] first row of each group, then the end
  uint32_t* restore_token_order;   ///< out [P] row of each pair, 0xFFFFFFFF for a dropped pair
  int32_t* expert_ids;             ///< out [E] local expert of each group, -1 past the last active one
  uint32_t* expert_usage_stats;    ///< out [2] {most tokens of one expert, number of experts with tokens}
  uint32_t* scales_offset;         ///< out [E] scale block offset of each group; null unless indices.scales_offset
  void* workspace;    ///< workspace_bytes(P) of device memory, zero before the first launch; may be null if 0
  int64_t num_pairs;  ///< P = num_tokens * slots, 0 .. 2^31 - 1
};

}  // namespace moegen::create_indices
