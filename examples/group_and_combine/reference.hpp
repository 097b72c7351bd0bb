// SPDX-License-Identifier: Apache-2.0
// What the two kernels compute, written plainly for the host, and inputs on which every sum is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace reference {

// Small integers and a power of two: products and sums are exact in float32, so results are compared for equality.
inline constexpr float kWeight = 0.125F;
inline float expert_output(std::size_t row, std::size_t column) { return static_cast<float>((3 * row + column) % 32); }

inline std::vector<std::int32_t> random_ids(std::size_t size, int num_experts, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int32_t> expert(0, num_experts - 1);
  std::vector<std::int32_t> ids(size);
  for (std::int32_t& id : ids) id = expert(generator);
  return ids;
}

/// create_indices: the row of each pair when pairs are grouped by expert and keep their order within one.
inline std::vector<std::uint32_t> rows_of_pairs(const std::vector<std::int32_t>& ids, int num_experts) {
  std::vector<std::uint32_t> next_row(static_cast<std::size_t>(num_experts) + 1);
  for (const std::int32_t id : ids) ++next_row[static_cast<std::size_t>(id) + 1];
  for (std::size_t e = 1; e < next_row.size(); ++e) next_row[e] += next_row[e - 1];
  std::vector<std::uint32_t> rows;
  for (const std::int32_t id : ids) rows.push_back(next_row[static_cast<std::size_t>(id)]++);
  return rows;
}

/// finalize: element `column` of token `token`.
inline float output(const std::vector<std::uint32_t>& rows, std::size_t top_k, std::size_t token, std::size_t column) {
  float sum = 0;
  for (std::size_t slot = 0; slot < top_k; ++slot) sum += kWeight * expert_output(rows[token * top_k + slot], column);
  return sum;
}

}  // namespace reference
