// SPDX-License-Identifier: Apache-2.0
// Config: reading, defaults, canonical text and digest.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

#include "config_describer.hpp"

using namespace moegen;
using nlohmann::json;

namespace {

constexpr const char* kMinimal = R"({
  // a comment
  "moegen": 1, "name": "small", "hidden": 256, "intermediate": 128, "num_experts": 8, "top_k": 2,
  "router": {"scoring": "softmax"}
})";

json minimal() { return json::parse(kMinimal, nullptr, true, /*ignore_comments=*/true); }

// The minimal config with a few fields changed.
Config with(const std::vector<std::pair<std::string, json>>& edits) {
  json config = minimal();
  for (const auto& [pointer, value] : edits) config[json::json_pointer(pointer)] = value;
  return Config::from_json(config.dump());
}

// What from_fields says of the minimal config after `change`.
std::string refusal(const std::function<void(ConfigFields&)>& change) {
  ConfigFields fields = Config::from_json(kMinimal).fields();
  change(fields);
  try {
    Config::from_fields(fields, "f");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Values worth trying for a field: its words, or the ends of its range, or what only a wrong config holds.
std::vector<json> values_of(const FieldInfo& field) {
  const json& schema = field.allowed.schema;
  if (schema.contains("enum")) return schema["enum"];
  if (schema.contains("minimum")) return {schema["minimum"], schema["maximum"], 8, 64};
  if (schema.contains("type") && schema["type"] == "boolean") return {true, false};
  return {nullptr, "value * 2", json::array({4, 4}), json::object()};
}

}  // namespace

TEST_CASE("a minimal config gets every default") {
  const Config config = Config::from_json(kMinimal, "small.json");
  CHECK(config.origin() == "small.json");
  CHECK(config->name == "small");
  CHECK(config->hidden == 256);
  CHECK(config->expert_hidden == 256);
  CHECK(config->indices.num_local_experts == 8);
  CHECK(config->finalize.output == Dtype::bfloat16);
  CHECK(config->expert_parallel.partition == std::vector<int>{8});
  CHECK(config->tune.num_tokens.size() == 5);
  CHECK(config.given("/router/scoring"));
  CHECK_FALSE(config.given("/router/scale"));
}

TEST_CASE("canonical text reads back as itself") {
  const Config config = Config::from_json(kMinimal);
  const Config again = Config::from_json(config.to_json());
  CHECK(again.to_json() == config.to_json());
  CHECK(again.digest() == config.digest());
  const Config fields = Config::from_fields(config.fields());
  CHECK(fields.digest() == config.digest());
}

TEST_CASE("the example of a DeepSeek-V3 layer reads") {
  const Config config = Config::from_json(R"({
      "moegen": 1, "name": "deepseek_v3",
      "hidden": 7168, "intermediate": 2048, "num_experts": 256, "top_k": 8,
      "router": {"logits": "float32", "scoring": "sigmoid", "bias": "float32", "num_groups": 8, "top_groups": 4,
                 "group_score": "top2_sum", "normalize": true, "scale": 2.5},
      "dtypes": {"activation": "bfloat16", "weight": "float8_e4m3fn", "output": "bfloat16"},
      "quantization": {"scheme": "block128", "scale": "float32"},
      "activation": {"kind": "silu", "gated": true, "gate_layout": "halves"},
      "expert_parallel": {"ranks": 8, "format": "fp8_block128", "max_tokens_per_rank": 4096},
      "tune": {"num_tokens": [1, 16, 128, 1024, 4096], "routing": ["uniform", "zipf"]}
    })");
  CHECK(config->router.bias == Dtype::float32);
  CHECK(config->expert_parallel.partition == std::vector<int>(8, 32));
  CHECK(config->expert_parallel.format == "fp8_block128");
  CHECK(config->router.scale == 2.5);
}

TEST_CASE("a misspelt word is refused with its place and a suggestion") {
  CHECK_THROWS_WITH_AS(
      Config::from_json(R"({"moegen": 1, "name": "x", "hidden": 256, "intermediate": 128, "num_experts": 8,
                            "top_k": 2, "router": {"scoring": "softmux"}})",
                        "x.json"),
      "x.json: /router/scoring: is 'softmux'; allowed none, softmax, sigmoid, sqrt_softplus; did you mean 'softmax'?",
      Error);
}

TEST_CASE("expressions read from both of their forms to the same config") {
  const std::string head = R"({"moegen": 1, "name": "x", "hidden": 256, "intermediate": 128, "num_experts": 8,
                               "top_k": 2, "router": {"scoring": "softmax"}, "finalize": )";
  const Config beside = Config::from_json(
      head + R"({"epilogue": "value * gain", "inputs": {"gain": {"dtype": "bfloat16", "shape": "columns"}}}})");
  const Config inside = Config::from_json(
      head +
      R"({"epilogue": {"text": "value * gain", "inputs": {"gain": {"dtype": "bfloat16", "shape": "columns"}}}}})");
  REQUIRE(beside->finalize.epilogue.has_value());
  CHECK(beside->finalize.epilogue->inputs.at(0).dtype == Dtype::bfloat16);
  CHECK(beside.digest() == inside.digest());
}

TEST_CASE("defaults follow from other fields") {
  CHECK(with({{"/expert_hidden", 128}})->expert_hidden == 128);
  CHECK(with({{"/dtypes/output", "float32"}})->finalize.output == Dtype::float32);
  CHECK(with({{"/dtypes/output", "float32"}, {"/finalize/output", "float16"}})->finalize.output == Dtype::float16);
  CHECK(with({{"/experts/weights_on_input", true}})->finalize.weights_applied);
  CHECK(with({{"/shared_experts/count", 2}})->shared_experts.intermediate == 128);
  CHECK(with({{"/expert_parallel/ranks", 3}})->expert_parallel.partition == std::vector<int>{3, 3, 2});
  CHECK(with({{"/expert_parallel/ranks", 9}})->expert_parallel.partition.back() == 0);
  CHECK(with({{"/router/scale", nullptr}})->router.scale == 1.0);
}

TEST_CASE("an activation brings its own gate and constants") {
  CHECK_FALSE(with({{"/activation/kind", "relu2"}})->activation.gated);
  CHECK(with({{"/activation/kind", "identity"}})->activation.gated);
  const Config oai = with({{"/activation/kind", "swiglu_oai"}});
  CHECK(oai->activation.alpha == 1.702);
  CHECK(oai->activation.limit == 7.0);
  const Config each = with({{"/activation/kind", "swiglu_oai"}, {"/activation/limit_per_expert", true}});
  CHECK_FALSE(each->activation.limit.has_value());
  CHECK(with({{"/activation/limit", 10}})->activation.limit == 10.0);
}

TEST_CASE("the scheme brings the dtype of its scales") {
  const auto scale = [](const char* scheme, const char* weight) {
    return with({{"/quantization/scheme", scheme}, {"/dtypes/weight", weight}})->quantization.scale;
  };
  CHECK(scale("mxfp8", "float8_e4m3fn") == Dtype::float8_e8m0fnu);
  CHECK(scale("mxfp4", "float4_e2m1fn") == Dtype::float8_e8m0fnu);
  CHECK(scale("nvfp4", "float4_e2m1fn") == Dtype::float32);
  CHECK(scale("block128", "float8_e4m3fn") == Dtype::float32);
  CHECK(scale("int4", "int4") == Dtype::float32);
}

TEST_CASE("the limits themselves are legal") {
  CHECK(with({{"/num_experts", 2048}, {"/top_k", 32}})->num_experts == 2048);
  CHECK(with({{"/num_experts", 1}, {"/top_k", 1}})->top_k == 1);
  CHECK(with({{"/num_experts", 160}, {"/top_k", 6}, {"/router/num_groups", 8}, {"/router/top_groups", 3}})
            ->router.top_groups == 3);
  CHECK(
      with({{"/num_experts", 255}, {"/router/shared_slots", {{"count", 1}}}, {"/indices/ids", "uint8"}})->num_slots() ==
      3);
  CHECK(with({{"/indices/first_expert", 7}, {"/indices/num_local_experts", 1}})->indices.first_expert == 7);
  CHECK(with({{"/hidden", 8}, {"/intermediate", 8}})->hidden == 8);
}

TEST_CASE("the digest depends on what is asked and not on how it is written") {
  const Config plain = Config::from_json(kMinimal);
  json spelt = minimal();
  spelt["max_tokens"] = 8192;
  spelt["router"]["scale"] = 1;
  CHECK(Config::from_json(spelt.dump(4)).digest() == plain.digest());
  CHECK(with({{"/max_tokens", 8191}}).digest() != plain.digest());
}

TEST_CASE("given tells what the text holds") {
  const Config config = with({{"/router/hash", {{"vocab", 10}}}, {"/finalize/epilogue", "value"}});
  CHECK(config.given("/router"));
  CHECK(config.given("/router/hash/vocab"));
  CHECK(config.given("/finalize/epilogue"));
  CHECK_FALSE(config.given("/router/hash/token_id"));
  CHECK_FALSE(config.given("/no/such/field"));
}

TEST_CASE("from_fields derives what is 0 or empty") {
  ConfigFields fields;
  fields.name = "built";
  fields.hidden = 256;
  fields.intermediate = 128;
  fields.num_experts = 8;
  fields.top_k = 2;
  fields.shared_experts.count = 1;
  const Config config = Config::from_fields(fields);
  CHECK(config->expert_hidden == 256);
  CHECK(config->indices.num_local_experts == 8);
  CHECK(config->shared_experts.intermediate == 128);
  CHECK(config->expert_parallel.partition == std::vector<int>{8});
}

TEST_CASE("from_fields refuses what no JSON can say") {
  CHECK(refusal([](ConfigFields&) {}) == "");
  CHECK(refusal([](ConfigFields& f) { f.router.scale = std::nan(""); }) ==
        "f: /router/scale: is not a finite number; only finite numbers are allowed");
  CHECK(refusal([](ConfigFields& f) { f.activation.limit = std::numeric_limits<double>::infinity(); }) ==
        "f: /activation/limit: is not a finite number; only finite numbers are allowed");
  CHECK(refusal([](ConfigFields& f) { f.name = "a\xff"; }) == "f: /name: is not UTF-8 text; only UTF-8 is allowed");
  CHECK(refusal([](ConfigFields& f) { f.router.scoring = static_cast<Scoring>(99); }) ==
        "f: /router/scoring: is a value that its type does not have; allowed none, softmax, sigmoid, sqrt_softplus");
  CHECK(refusal([](ConfigFields& f) { f.dtypes.output = static_cast<Dtype>(99); }) ==
        "f: /dtypes/output: is a value that its type does not have; allowed float32, bfloat16, float16");
  CHECK(refusal([](ConfigFields& f) { f.experts.gather_a = static_cast<Choice>(9); }) ==
        "f: /experts/gather_a: is a value that its type does not have; allowed true, false or \"auto\"");
}

TEST_CASE("from_fields checks names, ranges and rules as a text is checked") {
  CHECK(refusal([](ConfigFields& f) { f.name = ""; }).starts_with("f: /name: is ''; allowed a letter or digit"));
  CHECK(refusal([](ConfigFields& f) { f.hidden = 0; }) == "f: /hidden: is 0; allowed an integer from 1 to 1048576");
  CHECK(refusal([](ConfigFields& f) { f.expert_parallel.format = "bf17"; }).ends_with("; did you mean 'bf16'?"));
  CHECK(refusal([](ConfigFields& f) {
          f.router.num_groups = 3;
        }).starts_with("f: /router/num_groups: is 3, which does not divide num_experts 8"));
  CHECK(refusal([](ConfigFields& f) { f.indices.pad_rows_to = 2; }) ==
        "f: /indices/pad_rows_to: is 2; allowed 1, 4, 16, 64, 128");
}

TEST_CASE("from_fields checks the inputs of expressions") {
  const auto epilogue = [](std::vector<ExpressionInput> inputs) {
    return [inputs = std::move(inputs)](ConfigFields& f) { f.finalize.epilogue = {"value * gain", inputs}; };
  };
  CHECK(refusal(epilogue({{"gain", Dtype::bfloat16, "columns"}})) == "");
  CHECK(refusal(epilogue({{"gain", Dtype::int32, "columns"}})) ==
        "f: /finalize/inputs: has an input 'gain' of another dtype; allowed float32, bfloat16, float16");
  CHECK(refusal(epilogue({{"gain"}, {"gain"}})) == "f: /finalize/inputs: holds 'gain' twice; a name may stand once");
  CHECK(refusal(epilogue({})).starts_with("f: /finalize/epilogue: column 9: 'gain' is not a name here"));
}

TEST_CASE("the inputs of an expression are sorted by name") {
  const Config config =
      with({{"/finalize/epilogue", "value * b + a"}, {"/finalize/inputs", json::parse(R"({"b": {}, "a": {}})")}});
  REQUIRE(config->finalize.epilogue->inputs.size() == 2);
  CHECK(config->finalize.epilogue->inputs[0].name == "a");
}

TEST_CASE("whatever is accepted reads back as itself") {
  const std::vector<FieldInfo>& fields = all_fields();
  std::mt19937 random(7);  // fixed: the same edits in every run
  const auto pick = [&](std::size_t size) { return std::uniform_int_distribution<std::size_t>(0, size - 1)(random); };
  int accepted = 0, refused = 0;
  for (int round = 0; round < 800; ++round) {
    json config = minimal();
    for (int edit = 0; edit < 3; ++edit) {
      const FieldInfo& field = fields[pick(fields.size())];
      const std::vector<json> values = values_of(field);
      const json::json_pointer place(field.pointer);
      const json::json_pointer parent = place.parent_pointer();
      if (!config.contains(parent) || config[parent].is_null()) config[parent] = json::object();
      if (config[parent].is_object()) config[parent][place.back()] = values[pick(values.size())];
    }
    CAPTURE(config.dump());
    try {
      const Config read = Config::from_json(config.dump());
      CHECK(Config::from_json(read.to_json()).to_json() == read.to_json());
      CHECK(Config::from_fields(read.fields()).digest() == read.digest());
      ++accepted;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::config);
      ++refused;
    }
  }
  CHECK(accepted > 80);
  CHECK(refused > 100);
}
