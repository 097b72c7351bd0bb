// SPDX-License-Identifier: Apache-2.0
#include "config_allowed.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config_words.hpp"

namespace moegen {
namespace {

using nlohmann::json;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z') || is_digit(c); }

json list_schema(json items) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}, {"maxItems", kMaxList}};
}

json any_of(json first, json second) { return {{"anyOf", json::array({std::move(first), std::move(second)})}}; }

}  // namespace

bool is_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxName || !is_alphanumeric(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_parameter_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxName || !is_lower(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

Allowed allowed_boolean() { return {"true or false", {{"type", "boolean"}}}; }

Allowed allowed_integer(const Range& range) {
  json schema = {{"type", "integer"}, {"minimum", range.least}, {"maximum", range.most}};
  if (range.step > 1) schema["multipleOf"] = range.step;
  const std::string noun = range.step > 1 ? fmt::format("a multiple of {}", range.step) : "an integer";
  return {fmt::format("{} from {} to {}", noun, range.least, range.most), schema};
}

Allowed allowed_integer_or_auto(const Range& range) {
  Allowed allowed = allowed_integer(range);
  return {allowed.text + " or \"auto\"", any_of(std::move(allowed.schema), {{"const", "auto"}})};
}

Allowed allowed_integers(std::span<const std::int64_t> values) {
  return {fmt::format("{}", fmt::join(values, ", ")),
          {{"enum", std::vector<std::int64_t>(values.begin(), values.end())}}};
}

Allowed allowed_number(const Interval& interval) {
  json schema = {{"type", "number"}, {"minimum", interval.least}, {"maximum", interval.most}};
  if (interval.most != kMaxFloat) return {fmt::format("a number from {} to {}", interval.least, interval.most), schema};
  return {interval.least > 0 ? "a positive number in the range of float32" : "a number in the range of float32",
          schema};
}

Allowed allowed_words(const std::vector<std::string_view>& words) {
  return {fmt::format("{}", fmt::join(words, ", ")), {{"enum", words}}};
}

Allowed allowed_dtypes(std::span<const Dtype> dtypes) { return allowed_words(texts_of(dtypes)); }

Allowed allowed_choice() { return {"true, false or \"auto\"", {{"enum", json::array({true, false, "auto"})}}}; }

Allowed allowed_name() {
  return {fmt::format("a letter or digit, then letters, digits, '.', '_' and '-', at most {}", kMaxName),
          {{"type", "string"}, {"pattern", "^[A-Za-z0-9][A-Za-z0-9._-]*$"}, {"maxLength", kMaxName}}};
}

Allowed allowed_section() { return {"an object", {{"type", "object"}, {"additionalProperties", false}}}; }

Allowed allowed_partition(const Range& range) {
  return {fmt::format("\"even\" or a list of integers from {} to {}", range.least, range.most),
          any_of({{"const", "even"}}, list_schema(allowed_integer(range).schema))};
}

Allowed allowed_integer_list(const Range& range) {
  json schema = list_schema(allowed_integer(range).schema);
  schema["uniqueItems"] = true;
  return {fmt::format("a list of 1 to {} different integers from {} to {}", kMaxList, range.least, range.most), schema};
}

Allowed allowed_routings(std::span<const std::string_view> words) {
  const std::vector<std::string_view> known(words.begin(), words.end());
  json schema = list_schema(any_of({{"enum", known}}, {{"type", "string"}, {"pattern", "[./]"}}));
  schema["uniqueItems"] = true;
  return {fmt::format("a list of 1 to {} different words of {}, or paths of histogram files", kMaxList,
                      fmt::join(words, ", ")),
          schema};
}

Allowed allowed_space() {
  json values = list_schema({{"type", "integer"}});
  values["uniqueItems"] = true;
  return {"an object of lists of integers, by parameter name",
          {{"type", "object"},
           {"maxProperties", kMaxList},
           {"propertyNames", {{"pattern", "^[a-z][a-z0-9_]*$"}, {"maxLength", kMaxName}}},
           {"additionalProperties", values}}};
}

Allowed allowed_expression() {
  return {"an expression, {\"text\", \"inputs\"} or null",
          {{"anyOf", json::array({{{"type", "string"}}, {{"$ref", "#/$defs/expression"}}, {{"type", "null"}}})}}};
}

Allowed allowed_inputs() { return {"an object of {\"dtype\", \"shape\"} by input name", {{"$ref", "#/$defs/inputs"}}}; }

Allowed or_null(Allowed allowed) {
  allowed.text += " or null";
  json& schema = allowed.schema;
  if (schema.contains("enum"))
    schema["enum"].push_back(nullptr);
  else
    schema["type"] = json::array({schema["type"], "null"});
  return allowed;
}

}  // namespace moegen
