// SPDX-License-Identifier: Apache-2.0
// The field table against docs/config.md, configs/schema.json and the reader's behaviour.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

#include "config_describer.hpp"
#include "support/config_docs.hpp"

using namespace moegen;
using nlohmann::json;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string source_path(const std::string& path) { return std::string(MOEGEN_SOURCE_DIR) + "/" + path; }

// The file holds `expected`; MOEGEN_UPDATE_GOLDEN=1 makes it so.
void check_file(const std::string& path, const std::string& expected) {
  if (std::getenv("MOEGEN_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << expected;
  CHECK(read(path) == expected);
}

// `text` with what stands between `<!-- name -->` and the next `<!-- end -->` replaced.
std::string with_block(std::string text, const std::string& name, const std::string& block) {
  const std::string start = "<!-- " + name + " -->\n";
  const std::size_t begin = text.find(start);
  REQUIRE(begin != text.npos);
  const std::size_t end = text.find("<!-- end -->", begin);
  REQUIRE(end != text.npos);
  return text.replace(begin + start.size(), end - begin - start.size(), block);
}

json minimal() {
  return {{"moegen", 1},
          {"name", "x"},
          {"hidden", 256},
          {"intermediate", 128},
          {"num_experts", 8},
          {"top_k", 2},
          {"router", {{"scoring", "softmax"}}}};
}

// The minimal config with `value` at `pointer`; optional sections around it get what they require.
json with(const std::string& pointer, const json& value) {
  json config = minimal();
  if (pointer.starts_with("/router/hash/")) config["router"]["hash"]["vocab"] = 100;
  if (pointer.starts_with("/router/shared_slots/")) config["router"]["shared_slots"]["count"] = 1;
  if (pointer.starts_with("/shared_experts/")) config["shared_experts"]["count"] = 1;
  config[json::json_pointer(pointer)] = value;
  return config;
}

std::string refusal(const json& config) {
  try {
    Config::from_json(config.dump(), "c");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// What the reader says of a value that the field alone does not admit.
std::string expected_refusal(const FieldInfo& field, const std::string& shown) {
  return fmt::format("c: {}: is {}; allowed {}", field.pointer, shown, field.allowed.text);
}

bool refused_by_itself(const FieldInfo& field, const json& value) {
  return refusal(with(field.pointer, value)).starts_with(expected_refusal(field, value.dump()));
}

}  // namespace

TEST_CASE("docs/config.md holds the field table") {
  const std::string path = source_path("docs/config.md");
  const std::string text = read(path);
  REQUIRE(text.size() > 1000);
  check_file(path,
             with_block(with_block(text, "fields", test::field_tables()), "expressions", test::expression_table()));
}

TEST_CASE("configs/schema.json is the schema of the field table") {
  check_file(source_path("configs/schema.json"), test::config_schema());
}

TEST_CASE("the table holds every field") {
  CHECK(all_fields().size() == 92);
  for (const FieldInfo& field : all_fields()) {
    CAPTURE(field.pointer);
    CHECK(field.doc.size() > 10);
    CHECK(field.allowed.schema.is_object());
  }
}

TEST_CASE("a minimal config has the defaults of the table") {
  const json canonical = json::parse(Config::from_json(minimal().dump()).to_json());
  int compared = 0;
  for (const FieldInfo& field : all_fields()) {
    const json::json_pointer pointer(field.pointer);
    if (field.required || !field.derived.empty() || !canonical.contains(pointer)) continue;
    if (field.is_section && field.standard.is_object()) continue;
    CAPTURE(field.pointer);
    if (field.pointer != "/expert_parallel/partition") CHECK(canonical.at(pointer) == field.standard);
    ++compared;
  }
  CHECK(compared > 50);
}

TEST_CASE("canonical text has no field that the table lacks") {
  json config = with("/router/hash", {{"vocab", 100}});
  config["router"]["shared_slots"] = {{"count", 1}};
  config["shared_experts"] = {{"count", 1}};
  const json canonical = json::parse(Config::from_json(config.dump()).to_json());
  for (const FieldInfo& field : all_fields()) {
    CAPTURE(field.pointer);
    CHECK(canonical.contains(json::json_pointer(field.pointer)));
  }
  std::size_t sections = 0, fields = 0;
  const std::function<void(const json&)> count = [&](const json& object) {
    ++sections;
    for (const auto& [key, value] : object.items()) {
      ++fields;
      if (value.is_object() && !value.empty()) count(value);
    }
  };
  count(canonical);
  CHECK(sections > 10);
  CHECK(fields == all_fields().size());
}

TEST_CASE("every field refuses a value of a foreign type with what the table allows") {
  for (const FieldInfo& field : all_fields()) {
    if (field.pointer == "/moegen") continue;  // has a sentence of its own
    CAPTURE(field.pointer);
    const bool takes_list = field.allowed.text.find("list of") != std::string::npos && field.pointer != "/tune/space";
    const json foreign = takes_list ? json(true) : json::array({1});
    CHECK(refusal(with(field.pointer, foreign)) == expected_refusal(field, takes_list ? "true" : "a list"));
  }
}

TEST_CASE("every word of a field is read, and no other") {
  int words = 0;
  for (const FieldInfo& field : all_fields()) {
    if (!field.allowed.schema.contains("enum") || field.pointer == "/moegen") continue;
    CAPTURE(field.pointer);
    for (const json& word : field.allowed.schema["enum"]) {
      CAPTURE(word.dump());
      CHECK_FALSE(refused_by_itself(field, word));
      ++words;
    }
    CHECK(refusal(with(field.pointer, "zzzzzzzz")) == expected_refusal(field, "'zzzzzzzz'"));
  }
  CHECK(words > 80);
}

TEST_CASE("the ends of every range are read, and the values beyond are refused") {
  int ranges = 0;
  for (const FieldInfo& field : all_fields()) {
    const json& schema = field.allowed.schema;
    if (!schema.contains("minimum")) continue;
    CAPTURE(field.pointer);
    CHECK_FALSE(refused_by_itself(field, schema["minimum"]));
    CHECK_FALSE(refused_by_itself(field, schema["maximum"]));
    if (schema["minimum"].is_number_integer()) {
      const std::int64_t step = schema.value("multipleOf", 1);
      CHECK(refused_by_itself(field, schema["minimum"].get<std::int64_t>() - step));
      CHECK(refused_by_itself(field, schema["maximum"].get<std::int64_t>() + step));
      if (step > 1) CHECK(refused_by_itself(field, schema["minimum"].get<std::int64_t>() + 1));
    } else {
      const double least = schema["minimum"], most = schema["maximum"];
      CHECK(refused_by_itself(field, least > 0 ? least / 2 : least * 2));
      CHECK(refused_by_itself(field, most * 2));
    }
    ++ranges;
  }
  CHECK(ranges > 25);
}
