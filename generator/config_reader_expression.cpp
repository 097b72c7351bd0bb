// SPDX-License-Identifier: Apache-2.0
// The part of ConfigReader that reads user expressions and their named inputs.
#include <fmt/format.h>

#include <moegen/error.hpp>

#include "config_fields.hpp"
#include "config_reader.hpp"
#include "expression_places.hpp"
#include "json_reader.hpp"

namespace moegen {

using nlohmann::json;

void ConfigReader::expression(const Field& field, const Field& inputs, std::optional<ExpressionConfig>& out) {
  const json* value = find(field);
  const json* beside = find(inputs);
  if (beside != nullptr && beside->is_null()) beside = nullptr;
  if (beside != nullptr && !beside->is_object()) refuse_value(pointer_of(inputs), *beside, allowed_inputs().text);
  if (value != nullptr && !value->is_null())
    out = read_expression(field, *value, beside, inputs);
  else if (beside != nullptr && !beside->empty())
    refuse(pointer_of(inputs), fmt::format("has no expression to serve; give '{}' as well", field.name));
}

ExpressionConfig ConfigReader::read_expression(const Field& field, const json& value, const json* inputs,
                                               const Field& inputs_field) {
  ExpressionConfig result;
  const std::string place = pointer_of(field);
  std::string inputs_pointer = pointer_of(inputs_field);
  if (value.is_string()) {
    result.text = value.get<std::string>();
    if (inputs != nullptr) read_inputs(inputs_field, *inputs, place, result.inputs);
  } else if (value.is_object()) {
    if (inputs != nullptr)
      refuse(inputs_pointer,
             fmt::format("stands beside an object; give the inputs in '{}' or here, not both", field.name));
    open_section(field, &value);
    inputs_pointer = child_pointer(place, "inputs");
    text({"text", "", {}, true}, result.text);
    const Field inner{"inputs", ""};
    if (const json* given = find(inner)) read_inputs(inner, *given, place, result.inputs);
    close_section();
  } else {
    refuse_value(place, value, allowed_expression().text);
  }
  check_expression(place, inputs_pointer, result);
  return result;
}

void ConfigReader::text(const Field& field, std::string& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  if (!value->is_string()) refuse_value(pointer_of(field), *value, "a text");
  out = value->get<std::string>();
}

void ConfigReader::read_inputs(const Field& field, const json& value, std::string_view place,
                               std::vector<ExpressionInput>& out) {
  open_section(field, &value);
  const ExpressionPlace& rules = expression_place(place);
  if (value.size() > kMaxExpressionInputs)
    refuse(levels_.back().pointer,
           fmt::format("has {} inputs; allowed at most {}", value.size(), kMaxExpressionInputs));
  for (const auto& [name, description] : value.items()) {
    if (const auto fact = refuse_input_name(rules, name)) refuse(child_pointer(levels_.back().pointer, name), *fact);
    ExpressionInput& input = out.emplace_back(ExpressionInput{.name = name});
    const Field row{name, ""};
    open_section(row, find(row));
    dtype({"dtype", ""}, input.dtype, expression_input_dtypes());
    text_of({"shape", ""}, input.shape, rules.shapes);
    close_section();
  }
  close_section();
}

void ConfigReader::check_expression(std::string_view place, const std::string& inputs_pointer,
                                    const ExpressionConfig& expression) const {
  const std::vector<std::string> used = names_used(place, expression);
  for (const ExpressionInput& input : expression.inputs)
    if (std::find(used.begin(), used.end(), input.name) == used.end())
      refuse(child_pointer(inputs_pointer, input.name), "is not used by the expression; leave it out or name it there");
}

std::vector<std::string> ConfigReader::names_used(std::string_view place, const ExpressionConfig& expression) const
    try {
  return parse_at(expression_place(place), expression).inputs_used();
} catch (const ExpressionError& error) {
  refuse(place, error.what());
}

}  // namespace moegen
