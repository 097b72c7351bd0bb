// SPDX-License-Identifier: Apache-2.0
// create_indices in plain code, to compare kernels with. Shares nothing with them.
#pragma once

#include <cstdint>
#include <vector>

#include <moegen/config.hpp>

namespace moegen::reference {

/// The outputs of create_indices, each at its full length.
struct Indices {
  std::vector<std::uint32_t> token_expert_order;    ///< [order_capacity(P)]
  std::vector<std::uint32_t> expert_start_indices;  ///< [num_groups + 1]
  std::vector<std::uint32_t> restore_token_order;   ///< [P]
  std::vector<std::int32_t> expert_ids;             ///< [num_groups]
  std::vector<std::uint32_t> expert_usage_stats;    ///< [2]
  std::vector<std::uint32_t> scales_offset;         ///< [num_groups]; empty unless the config asks for it
};

/// Groups `ids` (one for each pair) by expert as contracts and `fields` say.
Indices create_indices(const ConfigFields& fields, const std::vector<std::int64_t>& ids);

}  // namespace moegen::reference
