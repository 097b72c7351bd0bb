// SPDX-License-Identifier: Apache-2.0
#include "reference/activation_row.hpp"

#include <algorithm>
#include <cmath>

#include "expression_places.hpp"
#include "reference/activation.hpp"
#include "reference/expert_rows.hpp"
#include "reference/number.hpp"

namespace moegen::reference {
namespace {

std::optional<double> limit_of(const ConfigFields& fields, const ActivationInputs& in, int expert) {
  if (fields.activation.limit_per_expert && expert < 0) return std::nullopt;
  if (fields.activation.limit_per_expert) return double{in.limits[expert]};
  if (!fields.activation.limit) return std::nullopt;
  return double{static_cast<float>(*fields.activation.limit)};
}

// Parameters as the device has them.
ActivationConfig rounded(ActivationConfig config) {
  for (std::optional<double>* number : {&config.alpha, &config.beta, &config.linear_beta})
    if (*number) *number = double{static_cast<float>(**number)};
  return config;
}

struct Columns {
  std::size_t gate, up;
};

Columns columns_of(const ConfigFields& fields, std::size_t row, std::size_t column) {
  const auto width = static_cast<std::size_t>(fields.intermediate);
  if (!fields.activation.gated) return {row * width + column, 0};
  if (fields.activation.gate_layout == GateLayout::interleaved)
    return {(row * width + column) * 2, (row * width + column) * 2 + 1};
  return {row * 2 * width + column, (row * 2 + 1) * width + column};
}

// The epilogue in float64, with the error of the activation carried through it.
void apply_epilogue(const ConfigFields& fields, const ActivationInputs& in, std::int64_t row, int expert,
                    RowTruth& truth) {
  const ExpressionConfig& config = *fields.experts.up_epilogue;
  const Expression expression = parse_at(expression_place("/experts/up_epilogue"), config);
  std::vector<double> values(4 + config.inputs.size(), 0.0), errors(4 + config.inputs.size(), 0.0);
  values[1] = static_cast<double>(row);
  values[3] = static_cast<double>(model_expert(fields, expert));
  for (std::size_t column = 0; column < truth.value.size(); ++column) {
    values[0] = truth.value[column];
    errors[0] = truth.error[column];
    values[2] = static_cast<double>(column);
    for (std::size_t i = 0; i < config.inputs.size(); ++i)
      values[4 + i] = load(config.inputs[i].dtype, in.inputs[i],
                           expert_input_index(config.inputs[i].shape, row, static_cast<std::int64_t>(column),
                                              fields.intermediate, expert));
    const Bounded result = expression.evaluate(values, errors);
    truth.value[column] = result.value;
    truth.error[column] = result.error;
  }
}

}  // namespace

void activation_row(const ConfigFields& fields, const ActivationInputs& in, std::int64_t row, int expert,
                    RowTruth& truth) {
  const auto width = static_cast<std::size_t>(fields.intermediate);
  const ActivationConfig config = rounded(fields.activation);
  const std::optional<double> limit = limit_of(fields, in, expert);
  truth.value.resize(width);
  truth.error.resize(width);
  for (std::size_t column = 0; column < width; ++column) {
    const Columns at = columns_of(fields, static_cast<std::size_t>(row), column);
    const Bounded gate{load(fields.dtypes.activation, in.up, at.gate), 0};
    const Bounded up{config.gated ? load(fields.dtypes.activation, in.up, at.up) : 0, 0};
    const Bounded result = activate(config, gate, up, limit);
    truth.value[column] = result.value;
    truth.error[column] = result.error;
  }
  if (fields.experts.up_epilogue) apply_epilogue(fields, in, row, expert, truth);
}

}  // namespace moegen::reference
