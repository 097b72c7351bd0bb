// SPDX-License-Identifier: Apache-2.0
// What grouped_matmul promises about bits, for any target: other experts' NaN, other rows and other launches change
// none.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/kernel.hpp>

#include "support/grouped_matmul_table.hpp"
#include "verify/grouped_matmul_problem.hpp"

namespace moegen::test {

/// Bytes of c, row by row.
class MatmulRows {
 public:
  MatmulRows(const Kernel& kernel, const MatmulTest& t, const std::function<void(verify::GroupedMatmulProblem&)>& run)
      : problem_(kernel.target(), verify::matmul_spec(kernel, t.config), t.matmul_case) {
    run(problem_);
    bytes_ = problem_.output();
  }
  bool equal(std::int64_t row, const MatmulRows& other, std::int64_t other_row) const {
    return std::memcmp(at(row), other.at(other_row), problem_.row_bytes()) == 0;
  }

 private:
  const char* at(std::int64_t row) const {
    return bytes_.data() + static_cast<std::size_t>(row) * problem_.row_bytes();
  }
  verify::GroupedMatmulProblem problem_;
  std::vector<char> bytes_;
};

/// Runs `t` with and without NaN (`spoil`: weights or scales) in the expert in the middle; says which row of another
/// expert changed, or that none of its own did.
inline std::string nan_stays_inside(const Kernel& kernel, MatmulTest t, verify::MatmulSpoil spoil,
                                    const std::function<void(verify::GroupedMatmulProblem&)>& run) {
  const MatmulRows clean(kernel, t, run);
  t.matmul_case.spoil = spoil;
  const MatmulRows spoiled(kernel, t, run);
  const std::vector<std::int32_t> used = t.matmul_case.used_experts();
  const std::int32_t expert = used[used.size() / 2];
  std::int64_t row = t.matmul_case.first_row, changed = 0;
  for (std::size_t g = 0; g < t.matmul_case.ids.size(); ++g)
    for (std::int64_t i = 0; i < t.matmul_case.counts[g]; ++i, ++row) {
      if (clean.equal(row, spoiled, row)) continue;
      ++changed;
      if (t.matmul_case.ids[g] != expert)
        return fmt::format("row {} of expert {} changed with NaN in expert {}", row, t.matmul_case.ids[g], expert);
    }
  return changed > 0 ? "" : fmt::format("no row changed with NaN in expert {}", expert);
}

/// Runs `t`, then each of `rows` alone, with all other groups empty; says which one got other bits.
inline std::string rows_do_not_depend(const Kernel& kernel, const MatmulTest& t, const std::vector<std::int64_t>& rows,
                                      const std::function<void(verify::GroupedMatmulProblem&)>& run) {
  verify::GroupedMatmulProblem problem(kernel.target(), verify::matmul_spec(kernel, t.config), t.matmul_case);
  run(problem);
  const std::vector<char> together = problem.output();
  for (const std::int64_t row : rows) {
    MatmulTest alone = t;
    std::int64_t first = t.matmul_case.first_row, total = t.matmul_case.num_rows();
    for (std::size_t g = 0; g < t.matmul_case.counts.size(); ++g) {
      const std::int64_t count = t.matmul_case.counts[g];
      alone.matmul_case.counts[g] = row >= first && row < first + count ? 1 : 0;
      first += count;
    }
    alone.matmul_case.first_row = row;
    alone.matmul_case.rows_behind = total - row - 1;
    alone.matmul_case.label += fmt::format(", row {} alone", row);
    problem.regroup(alone.matmul_case);
    run(problem);
    const std::vector<char> bytes = problem.output();
    const std::size_t size = problem.row_bytes(), at = static_cast<std::size_t>(row) * size;
    if (std::memcmp(&bytes[at], &together[at], size) != 0) return fmt::format("row {} has other bits alone", row);
    if (auto wrong = problem.compare()) return fmt::format("row {} alone: {}", row, *wrong);
  }
  return "";
}

}  // namespace moegen::test
