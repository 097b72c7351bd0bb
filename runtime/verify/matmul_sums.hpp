// SPDX-License-Identifier: Apache-2.0
// Where the comparison of grouped_matmul gets its float64 sums from: the host here, a GPU in tests of large cases.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/grouped_matmul.hpp"

namespace moegen::verify {

/// Which sums are wanted: for each of `rows` all of `columns` (of N).
struct SumQuery {
  struct Row {
    std::int64_t a_row = -1;   ///< of a; -1: a row of zeros
    std::int32_t expert = -1;  ///< -1: the sums are 0
  };
  std::vector<Row> rows;
  std::vector<std::int64_t> columns;
};

/// reference::matmul_sum of every row and column of the query, row-major.
using SumSource = std::function<std::vector<Bounded>(const SumQuery& query)>;

/// On all cores of the host. `spec` and `tensors` must outlive it.
SumSource host_sums(const reference::MatmulSpec& spec, const reference::MatmulTensors& tensors);

}  // namespace moegen::verify
