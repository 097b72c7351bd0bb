// SPDX-License-Identifier: Apache-2.0
#include "reference/expert_rows.hpp"

#include <algorithm>

namespace moegen::reference {

std::int64_t model_expert(const ConfigFields& fields, std::int64_t local) {
  if (local < 0) return -1;
  if (local < fields.indices.num_local_experts) return local + fields.indices.first_expert;
  return local - fields.indices.num_local_experts + fields.num_experts + fields.num_zero_experts;
}

std::int64_t expert_input_count(std::string_view shape, std::int64_t rows, std::int64_t columns, std::int64_t experts) {
  if (shape == "rows") return rows;
  if (shape == "columns") return columns;
  if (shape == "experts") return experts;
  if (shape == "rows_columns") return rows * columns;
  return shape == "experts_columns" ? experts * columns : 1;
}

std::size_t expert_input_index(std::string_view shape, std::int64_t row, std::int64_t column, std::int64_t columns,
                               std::int64_t expert) {
  const std::int64_t known = std::max<std::int64_t>(expert, 0);
  if (shape == "rows") return static_cast<std::size_t>(row);
  if (shape == "columns") return static_cast<std::size_t>(column);
  if (shape == "experts") return static_cast<std::size_t>(known);
  if (shape == "rows_columns") return static_cast<std::size_t>(row * columns + column);
  return shape == "experts_columns" ? static_cast<std::size_t>(known * columns + column) : 0;
}

}  // namespace moegen::reference
