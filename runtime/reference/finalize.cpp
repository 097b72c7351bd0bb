// SPDX-License-Identifier: Apache-2.0
#include "reference/finalize.hpp"

#include <cmath>

#include <moegen/dtype.hpp>

#include "expression_places.hpp"
#include "reference/number.hpp"

namespace moegen::reference {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Adds the terms of one token, column by column.
class Row {
 public:
  Row(const ConfigFields& fields, FinalizeRow& row)
      : width_(static_cast<std::size_t>(fields.expert_hidden)), row_(row) {
    row_.value.assign(width_, 0.0);
    row_.error.assign(width_, 0.0);
  }

  void add(Dtype dtype, const void* tensor, std::size_t tensor_row, double weight) {
    ++terms_;
    for (std::size_t h = 0; h < width_; ++h) add_term(h, weight * load(dtype, tensor, tensor_row * width_ + h));
  }

  void add_biased(Dtype dtype, const void* tensor, std::size_t tensor_row, const void* bias, std::size_t bias_row,
                  double weight) {
    terms_ += 2;  // the addition of the bias rounds too
    for (std::size_t h = 0; h < width_; ++h) {
      const double value = load(dtype, tensor, tensor_row * width_ + h);
      const double offset = load(dtype, bias, bias_row * width_ + h);
      row_.value[h] += weight * (value + offset);
      row_.error[h] += std::abs(weight) * (std::abs(value) + std::abs(offset));
    }
  }

  /// Allows for `roundings` more of float32 in the terms so far.
  void allow(int roundings) { terms_ += roundings; }

  void finish() {
    for (double& error : row_.error) error *= terms_ * std::ldexp(1.0, -24);
  }

 private:
  void add_term(std::size_t column, double term) {
    row_.value[column] += term;
    row_.error[column] += std::abs(term);
  }

  std::size_t width_;
  FinalizeRow& row_;
  int terms_ = 0;
};

std::int64_t bias_row(const ConfigFields& fields, std::int64_t id) {
  const auto& indices = fields.indices;
  if (id >= indices.first_expert && id < indices.first_expert + indices.num_local_experts)
    return id - indices.first_expert;
  return indices.num_local_experts + id - fields.num_experts - fields.num_zero_experts;
}

void add_slot(const ConfigFields& fields, const FinalizeInputs& in, std::int64_t token, std::size_t pair, Row& row) {
  const bool applied = fields.finalize.weights_applied || fields.experts.weights_on_input;
  const double weight = applied ? 1.0 : load(fields.router.weights, in.weights, pair);
  const bool needs_id = fields.num_zero_experts > 0 || fields.finalize.bias;
  const std::int64_t id = needs_id ? load_integer(fields.indices.ids, in.topk_ids, pair) : -1;
  const std::uint32_t source = in.restore[pair];
  if (source == kNone) {
    if (fields.num_zero_experts > 0 && id >= fields.num_experts && id < fields.num_experts + fields.num_zero_experts)
      row.add(fields.dtypes.activation, in.x, static_cast<std::size_t>(token), weight);
  } else if (fields.finalize.bias) {
    row.add_biased(fields.finalize.down, in.down, source, in.bias, static_cast<std::size_t>(bias_row(fields, id)),
                   weight);
  } else {
    row.add(fields.finalize.down, in.down, source, weight);
  }
}

void add_extras(const ConfigFields& fields, const FinalizeInputs& in, std::int64_t token, Row& row) {
  const auto at = static_cast<std::size_t>(token);
  const bool gated = fields.shared_experts.gate == SharedGate::sigmoid;
  if (fields.finalize.shared) {
    row.add(fields.finalize.down, in.shared, at, gated ? 1.0 / (1.0 + std::exp(-double{in.shared_gate[at]})) : 1.0);
    if (gated) row.allow(4);  // the float32 sigmoid is within 4 ulp (docs/expressions.md)
  }
  if (fields.finalize.residual) row.add(fields.dtypes.activation, in.residual, at, 1.0);
}

std::size_t input_index(const ExpressionInput& input, std::size_t token, std::size_t column, std::size_t width) {
  if (input.shape == "tokens") return token;
  if (input.shape == "columns") return column;
  return input.shape == "scalar" ? 0 : token * width + column;
}

}  // namespace

void finalize_epilogue(const ExpressionConfig& config, const FinalizeInputs& in, std::int64_t token, FinalizeRow& row) {
  const Expression expression = parse_at(expression_place("/finalize/epilogue"), config);
  std::vector<double> values(3 + config.inputs.size(), 0.0), errors(3 + config.inputs.size(), 0.0);
  values[1] = static_cast<double>(token);
  const std::size_t width = row.value.size();
  for (std::size_t h = 0; h < width; ++h) {
    values[2] = static_cast<double>(h);
    for (std::size_t i = 0; i < config.inputs.size(); ++i) {
      const ExpressionInput& input = config.inputs[i];
      values[3 + i] = load(input.dtype, in.inputs[i], input_index(input, static_cast<std::size_t>(token), h, width));
    }
    values[0] = row.value[h];
    errors[0] = row.error[h];
    const Bounded result = expression.evaluate(values, errors);
    row.value[h] = result.value;
    row.error[h] = result.error;
  }
}

void finalize_row(const ConfigFields& fields, const FinalizeInputs& inputs, std::int64_t token, FinalizeRow& row) {
  Row sum(fields, row);
  const auto slots = static_cast<std::size_t>(fields.num_slots());
  for (std::size_t slot = 0; slot < slots; ++slot)
    add_slot(fields, inputs, token, static_cast<std::size_t>(token) * slots + slot, sum);
  add_extras(fields, inputs, token, sum);
  sum.finish();
  if (fields.finalize.epilogue) finalize_epilogue(*fields.finalize.epilogue, inputs, token, row);
}

}  // namespace moegen::reference
