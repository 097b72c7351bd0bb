// SPDX-License-Identifier: Apache-2.0
#include "verify/activation_case.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "verify/activation_problem.hpp"
#include "verify/memory.hpp"
#include "verify/random.hpp"
#include "verify/row_values.hpp"
#include "verify/scales.hpp"

namespace moegen::verify {
namespace {

// Products of two such numbers, and squares, stay finite in float32.
constexpr double kMost = 1e15;

// `rows` rows over all groups of the config: some empty, one without an expert.
RowGroups make_groups(const ConfigFields& fields, std::int64_t rows, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(num_groups(fields));
  RowGroups groups;
  groups.starts.push_back(0);
  for (std::size_t group = 0; group < count; ++group) {
    const std::uint64_t left = static_cast<std::uint64_t>(rows) - groups.starts.back();
    const std::uint64_t share = group % 3 == 1 ? 0 : random_below(seed, group, left / 2 + 2);
    const std::uint64_t own = group + 1 == count ? left : std::min(share, left);
    groups.starts.push_back(groups.starts.back() + static_cast<std::uint32_t>(own));
    groups.experts.push_back(group % 7 == 4 ? -1 : static_cast<std::int32_t>(random_below(seed + 1, group, count)));
  }
  return groups;
}

}  // namespace

std::string ActivationCase::name() const { return fmt::format("{} rows {}", num_rows, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const ActivationCase& c) {
  return c.num_rows * config->intermediate * 3 * bits(config->dtypes.activation) / 8;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const ActivationCase& c) {
  const ConfigFields& fields = config.fields();
  const std::int64_t used = c.pattern == RowsPattern::bounded ? c.num_rows * 3 / 5 : c.num_rows;
  const ActivationProblem problem(
      kernel, config, make_groups(fields, used, c.seed),
      row_values(fields.dtypes.activation, c.num_rows, fields.intermediate * (fields.activation.gated ? 2 : 1),
                 c.pattern != RowsPattern::ordinary, c.seed, kMost),
      c.num_rows,
      {.seed = c.seed + 3,
       .scales_stride = own_stride(config, c.pattern, c.num_rows),
       .count_rows = c.pattern != RowsPattern::ordinary});
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
