// SPDX-License-Identifier: Apache-2.0
// create_indices: expert ids as groups.
#pragma once

#include "../core/types.cuh"
#include "args.h"

namespace moegen::create_indices {

/// Group of an expert id, or kNone for one that is masked, out of range, a zero expert or not local. Ids enter
/// unsigned, so that negative ones are out of range.
template <class P, class Unsigned>
MOEGEN_DEVICE uint32_t group_of(Unsigned id) {
  const Unsigned local = id - static_cast<Unsigned>(P::first_expert);
  if (local < static_cast<Unsigned>(P::num_local_experts)) return static_cast<uint32_t>(local);
  if constexpr (P::num_shared_slots > 0) {
    const Unsigned shared = id - static_cast<Unsigned>(P::first_shared_id);
    if (shared < static_cast<Unsigned>(P::num_shared_slots))
      return P::num_local_experts + static_cast<uint32_t>(shared);
  }
  return kNone;
}

template <class P>
MOEGEN_DEVICE uint32_t load_group(const Args& args, uint32_t pair, uint32_t end) {
  if (pair >= end) return kNone;
  const auto id = static_cast<const typename P::id_dtype*>(args.topk_ids)[pair];
  if constexpr (sizeof(id) == 8) return group_of<P>(static_cast<uint64_t>(id));
  return group_of<P>(static_cast<uint32_t>(id));
}

}  // namespace moegen::create_indices
