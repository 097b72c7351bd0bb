// SPDX-License-Identifier: Apache-2.0
#include "config_writer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "config_fields.hpp"

namespace moegen {
namespace {

using nlohmann::json;

bool is_utf8(const std::string& text) {
  try {
    (void)json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

}  // namespace

void ConfigWriter::refuse(const Field& field, std::string_view sentence) const {
  throw Error(ErrorCode::config,
              fmt::format("{}: {}: {}", origin_, (place_ / std::string(field.name)).to_string(), sentence));
}

void ConfigWriter::refuse_value(const Field& field, std::string_view allowed) const {
  refuse(field, fmt::format("is a value that its type does not have; allowed {}", allowed));
}

void ConfigWriter::put(const Field& field, json value) { tree_[place_ / std::string(field.name)] = std::move(value); }

void ConfigWriter::check_text(const Field& field, const std::string& value) const {
  if (!is_utf8(value)) refuse(field, "is not UTF-8 text; only UTF-8 is allowed");
}

void ConfigWriter::put_text(const Field& field, const std::string& value) {
  check_text(field, value);
  put(field, value);
}

void ConfigWriter::open(const Field& field) {
  place_ /= std::string(field.name);
  tree_[place_] = json::object();
}

void ConfigWriter::close() { place_.pop_back(); }

// 0 stands for a derived value that nobody has derived yet: it is left out, and reading derives it.
void ConfigWriter::integer(const Field& field, std::int64_t value, const Range&) {
  if (value != 0 || field.derived.empty()) put(field, value);
}

void ConfigWriter::integer_or_auto(const Field& field, const std::optional<std::int64_t>& value, const Range&) {
  put(field, value ? json(*value) : json("auto"));
}

void ConfigWriter::number(const Field& field, double value, const Interval&, bool) {
  if (!std::isfinite(value)) refuse(field, "is not a finite number; only finite numbers are allowed");
  put(field, value);
}

void ConfigWriter::optional_number(const Field& field, const std::optional<double>& value, const Interval& interval) {
  if (value)
    number(field, *value, interval);
  else
    put(field, nullptr);
}

void ConfigWriter::dtype(const Field& field, Dtype value, std::span<const Dtype> dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), value) == dtypes.end()) refuse_value(field, allowed_dtypes(dtypes).text);
  put(field, to_string(value));
}

void ConfigWriter::optional_dtype(const Field& field, const std::optional<Dtype>& value,
                                  std::span<const Dtype> dtypes) {
  if (value)
    dtype(field, *value, dtypes);
  else
    put(field, nullptr);
}

void ConfigWriter::choice(const Field& field, Choice value) {
  switch (value) {
    case Choice::no: return put(field, false);
    case Choice::yes: return put(field, true);
    case Choice::automatic: return put(field, "auto");
  }
  refuse_value(field, allowed_choice().text);
}

void ConfigWriter::partition(const Field& field, const std::vector<int>& value, const Range&) {
  put(field, value.empty() ? json("even") : json(value));
}

void ConfigWriter::routings(const Field& field, const std::vector<std::string>& value) {
  for (const std::string& routing : value) check_text(field, routing);
  put(field, value);
}

void ConfigWriter::space(const Field& field, const std::map<std::string, std::vector<std::int64_t>>& value) {
  for (const auto& entry : value) check_text(field, entry.first);
  put(field, value.empty() ? json::object() : json(value));
}

json ConfigWriter::inputs_of(const Field& field, const std::vector<ExpressionInput>& inputs) const {
  json tree = json::object();
  for (const ExpressionInput& input : inputs) {
    check_text(field, input.name);
    check_text(field, input.shape);
    if (std::find(kFloatDtypes.begin(), kFloatDtypes.end(), input.dtype) == kFloatDtypes.end())
      refuse(field, fmt::format("has an input '{}' of another dtype; allowed {}", input.name,
                                allowed_dtypes(kFloatDtypes).text));
    if (tree.contains(input.name)) refuse(field, fmt::format("holds '{}' twice; a name may stand once", input.name));
    tree[input.name] = {{"dtype", to_string(input.dtype)}, {"shape", input.shape}};
  }
  return tree;
}

void ConfigWriter::expression(const Field& field, const Field& inputs, const std::optional<ExpressionConfig>& value) {
  put(inputs, value ? inputs_of(inputs, value->inputs) : json::object());
  if (value)
    put_text(field, value->text);
  else
    put(field, nullptr);
}

}  // namespace moegen
