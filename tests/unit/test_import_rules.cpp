// SPDX-License-Identifier: Apache-2.0
// import apart from the families: choosing a layer, quantisation, slices, and every refusal with its place.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/error.hpp>
#include <moegen/importer.hpp>

#include "importer/layers.hpp"
#include "importer/model_types.hpp"

using namespace moegen;

namespace {

ConfigFields fields_of(const std::string& text, const ImportOptions& options = {}) {
  return Config::from_json(import_hf(text, "m.json", options).config).fields();
}

std::string refusal_of(const std::string& text, const ImportOptions& options = {}) {
  try {
    (void)import_hf(text, "m.json", options);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  FAIL("imported: ", text);
  return "";
}

// A Qwen3 of 6 layers; `fields` come first, and the first of two equal keys would be an error, so they replace none.
std::string qwen(std::string_view fields = "") {
  return R"({"model_type": "qwen3_moe", "hidden_size": 2048, "moe_intermediate_size": 1536, "num_experts": 60,
             "num_experts_per_tok": 4, "num_hidden_layers": 6, "hidden_act": "silu", "norm_topk_prob": true)" +
         std::string(fields.empty() ? "" : ", ") + std::string(fields) + "}";
}

std::string quantized(std::string_view fields) {
  return qwen(R"("quantization_config": {)" + std::string(fields) + "}");
}

const std::string kBlock = R"("quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic")";

std::string without(std::string text, const std::string& field) {
  const std::size_t begin = text.find("\"" + field + "\"");
  REQUIRE(begin != std::string::npos);
  return text.erase(begin, text.find(',', begin) + 1 - begin);
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what is no Mixture-of-Experts model is refused") {
  CHECK(refusal_of(R"({"model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64})") ==
        "m.json: /model_type: is 'qwen3' and no field names experts: a dense model; a Mixture-of-Experts model is "
        "needed");
  CHECK(refusal_of(with(qwen(), R"("num_experts": 60)", R"("num_experts": 0)")) ==
        "m.json: /num_experts: is 0: a dense model; a Mixture-of-Experts model is needed");
  CHECK(refusal_of(R"({"model_type": "gemma4_text", "enable_moe_block": false})") ==
        "m.json: /: has no 'enable_moe_block': true, so it is a dense model; a Mixture-of-Experts model is needed");
  CHECK(refusal_of("[]") == "m.json: /: is []; a config.json holds an object");
  CHECK(refusal_of("{}") == "m.json: /: has no 'model_type', which is needed");
}

TEST_CASE("an unknown model_type is refused with a suggestion") {
  const std::string message = refusal_of(R"({"model_type": "qwen3_mo", "num_experts": 8})");
  CHECK(message.starts_with("m.json: /model_type: is 'qwen3_mo', which is not known; known are bailing_hybrid, "));
  CHECK(message.ends_with("; did you mean 'qwen3_moe'?"));
  CHECK(refusal_of(R"({"model_type": "phimoe", "num_local_experts": 16})") ==
        "m.json: /model_type: 'phimoe' routes by sparsemixer, two masked arg-max rounds, which no router here does");
}

TEST_CASE("a missing field is named, nothing is guessed") {
  for (const char* field :
       {"hidden_size", "moe_intermediate_size", "num_experts_per_tok", "num_hidden_layers", "hidden_act"})
    CHECK(refusal_of(without(qwen(), field)) == "m.json: /: has no '" + std::string(field) + "', which is needed");
  CHECK(refusal_of(without(qwen(), "num_experts")) ==
        "m.json: /: has no 'num_experts' or 'num_local_experts', which is needed");
  CHECK(refusal_of(with(qwen(), "2048", "\"2048\"")) ==
        "m.json: /hidden_size: is \"2048\"; allowed an integer from 0 up");
  CHECK(refusal_of(with(qwen(), "2048", "2048.5")) == "m.json: /hidden_size: is 2048.5; allowed an integer from 0 up");
  CHECK(refusal_of(with(qwen(), "2048", "-1")) == "m.json: /hidden_size: is -1; allowed an integer from 0 up");
  CHECK(refusal_of(with(qwen(), "true", "1")) == "m.json: /norm_topk_prob: is 1; allowed true or false");
  CHECK(refusal_of(with(qwen(), "silu", "quick_gelu")) ==
        "m.json: /hidden_act: is 'quick_gelu'; known are silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu2, situ");
  CHECK(refusal_of(qwen(R"("torch_dtype": "float32")")) ==
        "m.json: /torch_dtype: is 'float32'; allowed bfloat16, float16");
  CHECK(refusal_of(R"({"model_type": "minimax_m2", "hidden_size": 64, "intermediate_size": 64, "num_local_experts": 4,
                       "num_experts_per_tok": 2, "num_hidden_layers": 2, "hidden_act": "silu",
                       "shared_intermediate_size": 64})") ==
        "m.json: /shared_intermediate_size: is 64; for this model_type only 0 is known");
}

TEST_CASE("what the reader of configs refuses, import refuses") {
  CHECK(refusal_of(with(qwen(), R"("num_experts_per_tok": 4)", R"("num_experts_per_tok": 61)"))
            .starts_with("m.json: as a moegen config: /top_k: "));
}

TEST_CASE("layers: every n-th, exceptions, and the most frequent kind by default") {
  const ImportResult result = import_hf(qwen(R"("decoder_sparse_step": 2, "mlp_only_layers": [3])"), "m.json");
  REQUIRE(result.layers.size() == 2);
  CHECK(result.layers[0].description == "without experts");
  CHECK(result.layers[1].layers == std::vector<int>{1, 5});
  CHECK(result.layers[1].chosen);
  CHECK(refusal_of(qwen(R"("decoder_sparse_step": 2)"), {.layer = 2}) ==
        "m.json: /: has no experts in layer 2; allowed 1, 3, 5");
  CHECK(refusal_of(qwen(), {.layer = 6}) == "m.json: /: has 6 layers, so no layer 6; allowed 0 to 5");
  CHECK(refusal_of(qwen(), {.layer = -1}) == "m.json: /: has 6 layers, so no layer -1; allowed 0 to 5");
  CHECK(refusal_of(qwen(R"("decoder_sparse_step": 7)")) ==
        "m.json: /: makes no layer of 6 a moe layer; at least one is needed");
  CHECK(refusal_of(qwen(R"("decoder_sparse_step": 0)")) ==
        "m.json: /decoder_sparse_step: is 0; allowed an integer from 1 up");
  CHECK(refusal_of(with(qwen(), R"("num_hidden_layers": 6)", R"("num_hidden_layers": 1000000)")) ==
        "m.json: /num_hidden_layers: is 1000000; allowed 1 to 4096");
}

TEST_CASE("lists by layer make kinds of layers") {
  const std::string text =
      R"({"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, "num_experts": 64,
          "moe_topk": [8, 8, 4], "moe_intermediate_size": [3072, 3072, 1536], "num_shared_expert": [1, 1, 2],
          "num_hidden_layers": 3, "hidden_act": "silu"})";
  const ImportResult result = import_hf(text, "m.json");
  REQUIRE(result.layers.size() == 2);
  CHECK(result.layers[0].description == "moe, moe_topk 8, moe_intermediate_size 3072, num_shared_expert 1");
  CHECK(result.layers[0].chosen);
  const ConfigFields last = fields_of(text, {.layer = 2});
  CHECK(last.top_k == 4);
  CHECK(last.intermediate == 1536);
  CHECK(last.shared_experts.count == 2);
  CHECK(last.shared_experts.intermediate == 3072);
  CHECK(refusal_of(with(text, "[8, 8, 4]", "[8, 8]")) ==
        "m.json: /moe_topk: has 2 entries, none for layer 2; one entry a layer");
}

TEST_CASE("a clamp after the activation is refused for the layers that have one") {
  const std::string text =
      R"({"model_type": "step3p5", "num_hidden_layers": 3, "hidden_size": 4096, "moe_num_experts": 288, "moe_top_k": 8,
          "moe_intermediate_size": 1280, "share_expert_dim": 1280, "moe_layers_enum": "1,2",
          "swiglu_limits": [0, 0, 7.0]})";
  CHECK(fields_of(text).num_experts == 288);
  CHECK(refusal_of(text, {.layer = 2}) ==
        "m.json: /swiglu_limits: clamps layer 2 at 7 after the activation, but a config's limit is before it; layers "
        "with 0 or null can be imported");
}

TEST_CASE("layers are spelt as ranges") {
  CHECK(importer::spell_layers({0, 1, 2, 4, 6, 7}) == "0 to 2, 4, 6 and 7");
  CHECK(importer::spell_layers({5}) == "5");
}

TEST_CASE("quantisation schemes") {
  const auto scheme_of = [](std::string_view fields) { return fields_of(quantized(fields)).quantization.scheme; };
  CHECK(scheme_of(kBlock) == Scheme::block128);
  CHECK(fields_of(quantized(kBlock + R"(, "scale_fmt": "ue8m0")")).quantization.scale == Dtype::float8_e8m0fnu);
  CHECK(scheme_of(R"("quant_method": "fp8", "activation_scheme": "static")") == Scheme::tensor);
  CHECK(scheme_of(R"("quant_method": "modelopt", "quant_algo": "FP8")") == Scheme::tensor);
  CHECK(scheme_of(R"("quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16)") == Scheme::nvfp4);
  const auto compressed = [](std::string_view weights, std::string_view inputs) {
    return R"("quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {)" +
           std::string(weights) + R"(}, "input_activations": )" + std::string(inputs) + "}}";
  };
  CHECK(scheme_of(compressed(R"("num_bits": 8, "type": "float", "strategy": "channel")",
                             R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})")) ==
        Scheme::rowwise);
  CHECK(scheme_of(compressed(R"("num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128])",
                             R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128})")) ==
        Scheme::block128);
  CHECK(scheme_of(compressed(R"("num_bits": 4, "type": "float", "strategy": "group", "group_size": 32)", "null")) ==
        Scheme::mxfp4);
  CHECK(scheme_of(compressed(R"("num_bits": 4, "type": "int", "strategy": "group", "group_size": 32)", "null")) ==
        Scheme::int4);
  CHECK(refusal_of(quantized(compressed(R"("num_bits": 4, "type": "int", "group_size": 128)", "null"))) ==
        "m.json: /quantization_config/config_groups/group_0/weights: is 4 bits of int in groups of 128; known are "
        "float 8, float 4 in groups of 16 or 32, and int 4 in groups of 32");
}

TEST_CASE("an unknown quantisation is refused") {
  CHECK(refusal_of(quantized(R"("quant_method": "awq")")) ==
        "m.json: /quantization_config/quant_method: is 'awq'; known are fp8, mxfp4, modelopt and compressed-tensors");
  CHECK(refusal_of(quantized(R"("bits": 4)")) ==
        "m.json: /quantization_config: has no 'quant_method', which is needed");
  CHECK(refusal_of(quantized(R"("quant_method": "fp8", "weight_block_size": [1, 64])")) ==
        "m.json: /quantization_config/weight_block_size: is [1,64]; allowed [128, 128]");
  CHECK(refusal_of(quantized(R"("quant_method": "fp8", "weight_block_size": [128, 128],
                                "activation_scheme": "static")")) ==
        "m.json: /quantization_config/activation_scheme: is 'static'; allowed dynamic");
  CHECK(refusal_of(quantized(R"("quant_method": "modelopt", "quant_algo": "MIXED_PRECISION")")) ==
        "m.json: /quantization_config/quant_algo: is 'MIXED_PRECISION'; known are NVFP4, FP8 and MXFP8");
}

TEST_CASE("exclusions count where they cover the experts of the layer") {
  const auto is_excluded = [](std::string_view pattern, int layer = 0) {
    const std::string text = quantized(kBlock + R"(, "ignored_layers": [")" + std::string(pattern) + "\"]");
    return fields_of(text, {.layer = layer}).quantization.scheme == Scheme::none;
  };
  for (const char* pattern : {"model.layers.0.mlp.experts", "model.layers.*.mlp.experts", "mlp", "model.layers.0",
                              "experts", "re:.*mlp.*", "re:model\\\\.layers\\\\.0\\\\..*", "*.experts", "layers.*.ml*"})
    CHECK_MESSAGE(is_excluded(pattern), pattern);
  for (const char* pattern :
       {"gate", "lm_head", "model.layers.1.mlp.experts", "model.layers.0.mlp.gate", "model.layers.*.self_attn",
        "model.layers.0.mlp.shared_experts", "re:.*self_attn.*", "re:mlp.*", "", "model.layers.00", "expert"})
    CHECK_MESSAGE(!is_excluded(pattern), pattern);
  CHECK(is_excluded("model.layers.5.mlp.experts", 5));
  CHECK(refusal_of(quantized(kBlock + R"(, "ignore": ["re:(a"])")) ==
        "m.json: /quantization_config: has '\"re:(a\"'; 're:' is followed by a regular expression of at most 256 "
        "characters without '{'");
  const ImportResult result = import_hf(quantized(kBlock + R"(, "ignore": ["mlp"])"), "m.json");
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0] == "the experts of layer 0 are not quantised: '\"mlp\"' excludes them");
}

TEST_CASE("tensor parallelism slices the intermediate width, but no scale block and no 16-byte piece") {
  CHECK(fields_of(qwen(), {.tensor_parallel = 8}).intermediate == 192);
  CHECK(fields_of(quantized(kBlock), {.tensor_parallel = 6}).intermediate == 256);
  CHECK(
      refusal_of(quantized(kBlock), {.tensor_parallel = 8}) ==
      "m.json: /moe_intermediate_size: is 1536, of which 8 ranks get slices of 192, no multiple of 128 (a scale block "
      "or a 16-byte piece); nearest allowed 256 and 128 (--tensor-parallel 6 and 12)");
  CHECK(refusal_of(qwen(), {.tensor_parallel = 7}) ==
        "m.json: /moe_intermediate_size: is 1536, of which 7 ranks get no whole slices; nearest allowed 256 and 192 "
        "(--tensor-parallel 6 and 8)");
  CHECK(
      refusal_of(qwen(), {.tensor_parallel = 512}) ==
      "m.json: /moe_intermediate_size: is 1536, of which 512 ranks get slices of 3, no multiple of 8 (a scale block or "
      "a 16-byte piece); nearest allowed 8 (--tensor-parallel 192)");
  const std::string shared = with(with(qwen(R"("shared_expert_intermediate_size": 320)"), "qwen3_moe", "qwen2_moe"),
                                  R"("num_experts": 60)", R"("num_experts": 60)");
  CHECK(fields_of(shared, {.tensor_parallel = 4}).shared_experts.intermediate == 80);
  CHECK(refusal_of(shared, {.tensor_parallel = 12}).starts_with("m.json: /shared_expert_intermediate_size: is 320, "));
}

TEST_CASE("expert parallelism slices the experts") {
  const ConfigFields f = fields_of(qwen(), {.expert_parallel = 8, .expert_parallel_rank = 5});
  CHECK(f.num_experts == 60);
  CHECK(f.expert_parallel.ranks == 8);
  CHECK(f.expert_parallel.partition == std::vector<int>{8, 8, 8, 8, 7, 7, 7, 7});
  CHECK(f.indices.first_expert == 39);
  CHECK(f.indices.num_local_experts == 7);
  CHECK(f.expert_parallel.format == "bf16");
  CHECK(fields_of(quantized(kBlock), {.expert_parallel = 4}).expert_parallel.format == "fp8_block128");
  CHECK(refusal_of(qwen(), {.expert_parallel = 61}) ==
        "m.json: --expert-parallel: is 61 for 60 experts; at most one rank an expert");
  CHECK(refusal_of(qwen(), {.expert_parallel = 4, .expert_parallel_rank = 4}) ==
        "m.json: --rank: is 4; allowed 0 to 3");
  CHECK(refusal_of(qwen(), {.expert_parallel = 0}) == "m.json: --expert-parallel: is 0; allowed an integer from 1 up");
  CHECK(refusal_of(qwen(), {.tensor_parallel = 0}) == "m.json: --tensor-parallel: is 0; allowed an integer from 1 up");
  CHECK(refusal_of(qwen(), {.weights = Dtype::int4}) == "m.json: --weights: is int4; allowed bfloat16, float8_e4m3fn");
}

TEST_CASE("the name comes from the option, the file, or the model_type") {
  const auto name_of = [](std::string_view origin, std::string name = "") {
    return Config::from_json(import_hf(qwen(), origin, {.name = std::move(name)}).config)->name;
  };
  CHECK(name_of("x/Qwen3 30B.json") == "Qwen3-30B");
  CHECK(name_of("x/config.json") == "qwen3_moe");
  CHECK(name_of("<stdin>") == "qwen3_moe");
  CHECK(name_of("x/..json") == "qwen3_moe");
  CHECK(name_of("x/config.json", "mine") == "mine");
}

TEST_CASE("the same input gives the same text") {
  CHECK(import_hf(qwen(), "m.json").config == import_hf(qwen(), "m.json").config);
  CHECK(import_hf(qwen(), "some/where/m.json").config == import_hf(qwen(), "m.json").config);
}

TEST_CASE("every model_type of the list has a row and none is listed twice") {
  const std::vector<std::string_view> names = importable_model_types();
  CHECK(names.size() > 45);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(importer::find_model_type(names[i]) != nullptr);
    if (i > 0) CHECK(names[i - 1] < names[i]);
  }
}

TEST_CASE("docs/import.md lists every model_type") {
  std::ifstream file(std::string(MOEGEN_SOURCE_DIR) + "/docs/import.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(page.size() > 1000);
  for (std::string_view name : importable_model_types())
    CHECK_MESSAGE(page.find("`" + std::string(name) + "`") != std::string::npos, name);
}
