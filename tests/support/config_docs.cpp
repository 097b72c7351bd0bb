// SPDX-License-Identifier: Apache-2.0
#include "support/config_docs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config_describer.hpp"
#include "config_words.hpp"
#include "expression_places.hpp"

namespace moegen::test {
namespace {

using nlohmann::json;

constexpr const char* kHeader = "| field | allowed | default | meaning |\n|---|---|---|---|\n";

std::string default_of(const FieldInfo& field) {
  if (field.required) return "required";
  if (!field.derived.empty()) return std::string(field.derived);
  if (field.is_section && field.standard.is_object()) return "the defaults below";
  return fmt::format("`{}`", field.standard.dump());
}

// "/router/hash/vocab" -> "router.hash.vocab"
std::string dotted(std::string_view pointer) {
  std::string result(pointer.substr(1));
  for (char& c : result)
    if (c == '/') c = '.';
  return result;
}

std::string row(const FieldInfo& field) {
  return fmt::format("| `{}` | {} | {} | {} |\n", dotted(field.pointer), field.allowed.text, default_of(field),
                     field.doc);
}

bool starts_table(const FieldInfo& field) { return field.is_section && field.pointer.rfind('/') == 0; }

// Where a field's schema stands inside the schema of the whole.
json::json_pointer schema_place(std::string_view pointer) {
  json::json_pointer place;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    place = place / "properties" / std::string(pointer.substr(0, end));
    pointer.remove_prefix(end);
  }
  return place;
}

json schema_of(const FieldInfo& field) {
  json schema = field.allowed.schema;
  schema["description"] =
      field.derived.empty() ? std::string(field.doc) : fmt::format("{} (default: {})", field.doc, field.derived);
  if (field.is_section) schema["properties"] = json::object();
  if (!field.required && field.derived.empty()) schema["default"] = field.standard;
  return schema;
}

json inputs_schema() {
  json shapes = json::array();
  for (const ExpressionPlace& place : expression_places())
    for (std::string_view shape : place.shapes)
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  const json input = {{"type", "object"},
                      {"additionalProperties", false},
                      {"properties",
                       {{"dtype", {{"enum", texts_of(expression_input_dtypes())}, {"default", "float32"}}},
                        {"shape", {{"enum", shapes}, {"default", "scalar"}}}}}};
  return {{"type", json::array({"object", "null"})},
          {"maxProperties", kMaxExpressionInputs},
          {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
          {"additionalProperties", input}};
}

json expression_schema() {
  return {{"type", "object"},
          {"required", {"text"}},
          {"additionalProperties", false},
          {"properties", {{"text", {{"type", "string"}}}, {"inputs", {{"$ref", "#/$defs/inputs"}}}}}};
}

}  // namespace

std::string field_tables() {
  std::string text = kHeader;
  for (const FieldInfo& field : all_fields()) {
    if (starts_table(field)) text += fmt::format("\n### {}\n\n{}", dotted(field.pointer), kHeader);
    text += row(field);
  }
  return text;
}

std::string expression_table() {
  std::string text = "| place | always there | shapes of named inputs |\n|---|---|---|\n";
  for (const ExpressionPlace& place : expression_places())
    text += fmt::format("| `{}` | {} | {} |\n", dotted(place.pointer), fmt::join(place.names, ", "),
                        fmt::join(place.shapes, ", "));
  return text;
}

std::string config_schema() {
  json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "moegen config"},
                 {"description", "One layer shape of a Mixture-of-Experts model; docs/config.md explains every field"},
                 {"type", "object"},
                 {"additionalProperties", false},
                 {"$defs", {{"expression", expression_schema()}, {"inputs", inputs_schema()}}}};
  for (const FieldInfo& field : all_fields()) {
    const json::json_pointer place = schema_place(field.pointer);
    schema[place] = schema_of(field);
    if (field.required) schema[place.parent_pointer().parent_pointer()]["required"].push_back(place.back());
  }
  schema["required"].push_back("router");  // its scoring is
  return schema.dump(2) + "\n";
}

}  // namespace moegen::test
