// SPDX-License-Identifier: Apache-2.0
// The shipped configs: one for each shape that the kernels are tested with, and nothing else in their folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <moegen/config.hpp>

using namespace moegen;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(MOEGEN_SOURCE_DIR) / "configs" / "models";

struct Shape {
  const char* name;
  std::int64_t hidden, expert_hidden, intermediate;
  int num_experts, top_k, num_groups, top_groups;
  Scoring scoring;
  bool bias, normalize;
  double scale;
  ActivationKind activation;
  Scheme scheme;
};

constexpr auto kSigmoid = Scoring::sigmoid;
constexpr auto kSoftmax = Scoring::softmax;
constexpr auto kSilu = ActivationKind::silu;

const std::vector<Shape> kShapes = {
    {"deepseek_v2", 5120, 5120, 1536, 160, 6, 8, 3, kSoftmax, false, false, 16, kSilu, Scheme::none},
    {"deepseek_v3", 7168, 7168, 2048, 256, 8, 8, 4, kSigmoid, true, true, 2.5, kSilu, Scheme::block128},
    {"deepseek_v4_pro", 7168, 7168, 3072, 384, 6, 1, 1, Scoring::sqrt_softplus, true, true, 2.5, kSilu,
     Scheme::block128},
    {"gemma_4_26b", 2816, 2816, 704, 128, 8, 1, 1, kSoftmax, false, true, 1, ActivationKind::gelu_tanh, Scheme::none},
    {"gpt_oss_20b", 2880, 2880, 2880, 32, 4, 1, 1, kSoftmax, false, true, 1, ActivationKind::swiglu_oai, Scheme::none},
    {"kimi_k2", 7168, 7168, 2048, 384, 8, 1, 1, kSigmoid, true, true, 2.827, kSilu, Scheme::block128},
    {"kimi_k3", 7168, 3584, 3072, 896, 16, 1, 1, kSigmoid, true, true, 1, ActivationKind::situ, Scheme::block128},
    {"ling_mini_2", 2048, 2048, 512, 256, 8, 8, 4, kSigmoid, true, true, 2.5, kSilu, Scheme::none},
    {"llama_4_scout", 5120, 5120, 8192, 16, 1, 1, 1, kSigmoid, false, false, 1, kSilu, Scheme::none},
    {"longcat_flash", 6144, 6144, 2048, 512, 12, 1, 1, kSoftmax, true, false, 6, kSilu, Scheme::none},
    {"mixtral_8x7b", 4096, 4096, 14336, 8, 2, 1, 1, kSoftmax, false, true, 1, kSilu, Scheme::none},
    {"nemotron_3_nano", 2688, 2688, 1856, 128, 6, 1, 1, kSigmoid, true, true, 2.5, ActivationKind::relu2, Scheme::none},
    {"nemotron_3_super", 4096, 1024, 2688, 512, 22, 1, 1, kSigmoid, true, true, 5, ActivationKind::relu2,
     Scheme::tensor},
    {"qwen1_5_moe", 2048, 2048, 1408, 60, 4, 1, 1, kSoftmax, false, false, 1, kSilu, Scheme::none},
    {"qwen3_5_397b", 4096, 4096, 1024, 512, 10, 1, 1, kSoftmax, false, true, 1, kSilu, Scheme::none},
    {"step_3", 7168, 7168, 5120, 48, 3, 1, 1, kSoftmax, false, false, 1, kSilu, Scheme::none},
    {"step_3_7_flash", 4096, 4096, 1280, 288, 8, 1, 1, kSigmoid, true, true, 3, kSilu, Scheme::block128},
};

Config config(const std::string& name) { return Config::from_file(kFolder / (name + ".json")); }

}  // namespace

TEST_CASE("each shipped config reads and is the shape it stands for") {
  REQUIRE(kShapes.size() == 17);
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.name);
    const Config read = config(shape.name);
    const ConfigFields& f = read.fields();
    CHECK(f.name == shape.name);
    CHECK(f.hidden == shape.hidden);
    CHECK(f.expert_hidden == shape.expert_hidden);
    CHECK(f.intermediate == shape.intermediate);
    CHECK(f.num_experts == shape.num_experts);
    CHECK(f.top_k == shape.top_k);
    CHECK(f.router.num_groups == shape.num_groups);
    CHECK(f.router.top_groups == shape.top_groups);
    CHECK(f.router.scoring == shape.scoring);
    CHECK(f.router.bias.has_value() == shape.bias);
    CHECK(f.router.normalize == shape.normalize);
    CHECK(f.router.scale == shape.scale);
    CHECK(f.activation.kind == shape.activation);
    CHECK(f.quantization.scheme == shape.scheme);
  }
}

TEST_CASE("what makes a shape special is there") {
  CHECK(config("deepseek_v2")->router.group_score == GroupScore::max);
  CHECK(config("deepseek_v4_pro")->activation.limit == 10.0);
  CHECK(config("deepseek_v4_pro")->quantization.scale == Dtype::float8_e8m0fnu);
  CHECK(config("longcat_flash")->num_zero_experts == 256);
  CHECK(config("llama_4_scout")->experts.weights_on_input);
  CHECK(config("llama_4_scout")->finalize.weights_applied);
  CHECK(config("gpt_oss_20b")->experts.bias);
  CHECK(config("gpt_oss_20b")->activation.gate_layout == GateLayout::interleaved);
  CHECK(config("gpt_oss_20b")->router.order == RouterOrder::select_then_score);
  CHECK(config("mixtral_8x7b")->router.order == RouterOrder::select_then_score);
  CHECK(config("gemma_4_26b")->experts.down_epilogue.has_value());
  CHECK(config("qwen1_5_moe")->shared_experts.gate == SharedGate::sigmoid);
  CHECK(config("qwen1_5_moe")->shared_experts.intermediate == 5632);
  CHECK(config("nemotron_3_super")->shared_experts.intermediate == 5376);
  CHECK_FALSE(config("kimi_k3")->finalize.shared);
}

TEST_CASE("the folder holds these configs only, each with its origin on top") {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == kShapes.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(names[i] == kShapes[i].name);
    std::string first_line;
    std::ifstream file(kFolder / (names[i] + ".json"));
    std::getline(file, first_line);
    CHECK_MESSAGE(first_line.starts_with("// "), names[i]);
  }
}
