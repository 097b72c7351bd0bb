// SPDX-License-Identifier: Apache-2.0
#include <moegen/shapes.hpp>

#include <algorithm>

namespace moegen {

int num_groups(const ConfigFields& fields) noexcept {
  return fields.indices.num_local_experts + fields.num_shared_slots();
}

std::int64_t order_capacity(const ConfigFields& fields, std::int64_t num_pairs) noexcept {
  const std::int64_t groups = num_groups(fields);
  const std::int64_t padded = fields.indices.experts == IndexedExperts::all ? groups : std::min(num_pairs, groups);
  return num_pairs + padded * (fields.indices.pad_rows_to - 1);
}

}  // namespace moegen
