// SPDX-License-Identifier: Apache-2.0
#include "verify/quantize_case.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "verify/memory.hpp"
#include "verify/quantize_problem.hpp"
#include "verify/row_values.hpp"
#include "verify/scales.hpp"

namespace moegen::verify {
std::string QuantizeCase::name() const { return fmt::format("{} rows {}", num_rows, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const QuantizeCase& c) {
  return c.num_rows * std::max(config->expert_hidden, config->intermediate) * bits(config->dtypes.activation) / 4;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const QuantizeCase& c) {
  const std::int64_t width = kernel.plan().integer("width");
  const bool bounded = c.pattern == RowsPattern::bounded;
  const QuantizeProblem problem(
      kernel, config,
      row_values(config->dtypes.activation, c.num_rows, width, c.pattern != RowsPattern::ordinary, c.seed,
                 std::numeric_limits<double>::max()),
      c.num_rows,
      {.rows_in_use = bounded ? c.num_rows * 3 / 5 : -1, .scales_stride = own_stride(config, c.pattern, c.num_rows)});
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
