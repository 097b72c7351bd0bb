// SPDX-License-Identifier: Apache-2.0
#include "families/expert_expression.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "expression_places.hpp"

namespace moegen {
namespace {

// An index into the input, for a row, column and expert of the device.
std::string spell_index(std::string_view shape, std::string_view columns) {
  const std::string expert = "static_cast<uint64_t>(expert < 0 ? 0 : expert)";
  if (shape == "scalar") return "0";
  if (shape == "rows") return "row";
  if (shape == "columns") return "column";
  if (shape == "experts") return expert;
  if (shape == "rows_columns") return fmt::format("row * Params::{} + column", columns);
  return fmt::format("{} * Params::{} + column", expert, columns);
}

std::string spell_input(const ExpressionInput& input, std::size_t index, std::string_view columns) {
  return fmt::format("to_float(static_cast<const {}*>(args.inputs[{}])[{}])",
                     input.dtype == Dtype::float32 ? "float" : to_string(input.dtype), index,
                     spell_index(input.shape, columns));
}

std::string spell_name(const ExpressionConfig& expression, std::string_view name, std::string_view columns) {
  if (name == "value") return "value";
  if (name == "row") return "static_cast<float>(row)";
  if (name == "col") return "static_cast<float>(column)";
  if (name == "expert") return "static_cast<float>(model_expert<Params>(expert))";
  for (std::size_t i = 0; i < expression.inputs.size(); ++i)
    if (expression.inputs[i].name == name) return spell_input(expression.inputs[i], i, columns);
  throw Error(ErrorCode::internal, fmt::format("an expression has an unchecked name '{}'", name));
}

}  // namespace

bool reads_expert(const ExpressionConfig& expression, std::string_view pointer) {
  const auto by_expert = [](const ExpressionInput& input) { return input.shape.starts_with("experts"); };
  if (std::ranges::any_of(expression.inputs, by_expert)) return true;
  return std::ranges::count(parse_at(expression_place(pointer), expression).inputs_used(), "expert") > 0;
}

void add_experts(PlanBuilder& plan, const ConfigFields& fields) {
  plan.field("first_expert", std::int64_t{fields.indices.first_expert}, "/indices/first_expert");
  plan.field("num_local_experts", std::int64_t{fields.indices.num_local_experts}, "/indices/num_local_experts");
  plan.field("num_experts", std::int64_t{fields.num_experts}, "/num_experts");
  plan.field("num_zero_experts", std::int64_t{fields.num_zero_experts}, "/num_zero_experts");
}

std::string spell_expert_epilogue(const ExpressionConfig& expression, std::string_view pointer, std::string_view family,
                                  std::string_view columns) {
  const Expression parsed = parse_at(expression_place(pointer), expression);
  return fmt::format(
      "  static MOEGEN_DEVICE float epilogue(const {}::Args& args, float value, uint64_t row, uint32_t column,\n"
      "                                      int32_t expert) {{\n    return {};\n  }}\n",
      family, parsed.emit([&](std::string_view name) { return spell_name(expression, name, columns); }));
}

}  // namespace moegen
