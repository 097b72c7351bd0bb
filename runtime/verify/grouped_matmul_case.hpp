// SPDX-License-Identifier: Apache-2.0
// One case of grouped_matmul: groups of rows and their experts, run on a target and compared with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

namespace moegen::verify {

/// What is NaN on purpose among the inputs that groups name. (What no group names always is.)
enum class MatmulSpoil {
  none,
  rows,     ///< a few rows of a, or their scales
  weights,  ///< one expert's weights, in every column
  scales,   ///< one expert's scales of b; its weights where the scheme has none by expert
};

struct GroupedMatmulCase {
  std::string label;
  std::vector<std::int64_t> counts;  ///< rows of each group
  std::vector<std::int32_t> ids;     ///< expert of each group, -1: none
  std::int64_t first_row = 0;        ///< of the first group; the rows before are in no group
  std::int64_t rows_behind = 0;      ///< in no group, behind the last
  MatmulSpoil spoil = MatmulSpoil::none;
  bool hints = false;  ///< the counts' maximum and the number of groups with rows are passed, too
  std::uint64_t seed = 1;

  std::int64_t num_rows() const;                   ///< R
  std::vector<std::uint32_t> offsets() const;      ///< [G + 1]
  std::vector<std::int32_t> used_experts() const;  ///< that groups with rows name, ascending, each once
  std::string name() const;
};

/// How the rows of a case fall into groups.
enum class GroupPattern {
  even,        ///< the same number of rows in each of a few experts
  ragged,      ///< any numbers, some zero, starts at any row; experts far apart
  one_expert,  ///< all rows in one group
  indices,     ///< a group for each expert of the config, as create_indices leaves them: -1 past the last active one
  hostile,     ///< repeated and descending ids, -1 with rows, empty groups, rows in no group on both sides
  nan_rows,    ///< as ragged, MatmulSpoil::rows
  nan_weights,
  nan_scales,
};

std::string_view to_string(GroupPattern pattern) noexcept;
std::span<const GroupPattern> all_group_patterns() noexcept;

/// `rows` rows in the groups of `pattern`, over at most `most_experts` experts.
GroupedMatmulCase make_matmul_case(const ConfigFields& fields, GroupPattern pattern, std::int64_t rows,
                                   std::uint64_t seed, int most_experts = 8);

/// Runs `kernel` (grouped_matmul.up or .down of `config`) on its target. Returns the first element out of tolerance, or
/// nothing. Tolerance: half an ulp of the output and the bound of reference::matmul_sum for each element, and the
/// relative Frobenius norms of GroupedMatmulCheck over all.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const GroupedMatmulCase& matmul_case);

}  // namespace moegen::verify
