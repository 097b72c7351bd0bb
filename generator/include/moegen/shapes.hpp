// SPDX-License-Identifier: Apache-2.0
// Shapes of a layer's tensors, for callers that allocate them.
#pragma once

#include <cstdint>

#include <moegen/config.hpp>

namespace moegen {

/// E of create_indices: groups that pairs can fall into, the local experts and then the shared slots.
int num_groups(const ConfigFields& fields) noexcept;

/// Length of token_expert_order for `num_pairs` pairs:
/// P + min(P, E) * (pad_rows_to - 1), or P + E * (pad_rows_to - 1) where indices.experts is "all".
std::int64_t order_capacity(const ConfigFields& fields, std::int64_t num_pairs) noexcept;

}  // namespace moegen
