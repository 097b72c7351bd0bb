// SPDX-License-Identifier: Apache-2.0
// Config: reading, defaults, canonical text and digest.
#include <doctest/doctest.h>

#include <string>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

using namespace moegen;

namespace {

constexpr const char* kMinimal = R"({
  // a comment
  "moegen": 1, "name": "small", "hidden": 256, "intermediate": 128, "num_experts": 8, "top_k": 2,
  "router": {"scoring": "softmax"}
})";

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
