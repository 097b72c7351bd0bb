// SPDX-License-Identifier: Apache-2.0
// import of the model families: what each config.json becomes. The inputs hold the fields that matter, nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/importer.hpp>

using namespace moegen;

namespace {

struct Imported {
  ImportResult result;
  ConfigFields fields;
};

Imported import(std::string_view json, const ImportOptions& options = {}, std::string_view origin = "model.json") {
  Imported imported{import_hf(json, origin, options), {}};
  imported.fields = Config::from_json(imported.result.config).fields();
  return imported;
}

void check_sizes(const ConfigFields& f, std::int64_t hidden, std::int64_t intermediate, int num_experts, int top_k) {
  CHECK(f.hidden == hidden);
  CHECK(f.intermediate == intermediate);
  CHECK(f.num_experts == num_experts);
  CHECK(f.top_k == top_k);
}

void check_scheme(const ConfigFields& f, Scheme scheme, Dtype weight, Dtype scale = Dtype::float32) {
  CHECK(f.quantization.scheme == scheme);
  CHECK(f.dtypes.weight == weight);
  CHECK(f.quantization.scale == scale);
}

void check_shared(const ConfigFields& f, int count, std::int64_t intermediate, SharedGate gate = SharedGate::none) {
  CHECK(f.shared_experts.count == count);
  CHECK(f.shared_experts.intermediate == intermediate);
  CHECK(f.shared_experts.gate == gate);
}

std::string source_of(const ImportResult& result, std::string_view pointer) {
  const auto value = std::find_if(result.values.begin(), result.values.end(),
                                  [&](const ImportedValue& candidate) { return candidate.pointer == pointer; });
  return value == result.values.end() ? "" : value->source;
}

constexpr std::string_view kFp8 =
    R"("quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                              "weight_block_size": [128, 128]})";

// The fields that DeepSeek-V3 and its kin share.
std::string deepseek(std::string_view fields) {
  return R"({"hidden_act": "silu", "moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
             "norm_topk_prob": true, "moe_intermediate_size": 2048, "num_experts_per_tok": 8, "n_shared_experts": 1,
             "torch_dtype": "bfloat16", )" +
         std::string(fields) + ", " + std::string(kFp8) + "}";
}

const std::string kDeepseekV3 = deepseek(
    R"("model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "n_routed_experts": 256,
       "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
       "num_hidden_layers": 61)");

const std::string kDeepseekV4 =
    R"({"model_type": "deepseek_v4", "hidden_size": 4096, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 6, "num_hash_layers": 3, "num_hidden_layers": 43,
        "norm_topk_prob": true, "routed_scaling_factor": 1.5, "scoring_func": "sqrtsoftplus", "hidden_act": "silu",
        "topk_method": "noaux_tc", "swiglu_limit": 10.0, "torch_dtype": "bfloat16", "vocab_size": 129280,
        "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0",
        "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})";

const std::string kGptOss =
    R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_local_experts": 32,
        "experts_per_token": 4, "num_experts_per_tok": 4, "num_hidden_layers": 24, "hidden_act": "silu",
        "swiglu_limit": 7.0, "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert":
        ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}})";

}  // namespace

TEST_CASE("DeepSeek-V3: groups by the sum of two, a bias, fp8 blocks, and where each comes from") {
  const auto [result, f] = import(kDeepseekV3, {}, "models/DeepSeek-V3.json");
  check_sizes(f, 7168, 2048, 256, 8);
  check_scheme(f, Scheme::block128, Dtype::float8_e4m3fn);
  check_shared(f, 1, 2048);
  CHECK(f.name == "DeepSeek-V3");
  CHECK(f.router.scoring == Scoring::sigmoid);
  CHECK(f.router.bias == Dtype::float32);
  CHECK(f.router.num_groups == 8);
  CHECK(f.router.top_groups == 4);
  CHECK(f.router.group_score == GroupScore::top2_sum);
  CHECK(f.router.normalize);
  CHECK(f.router.scale == 2.5);
  CHECK(f.finalize.shared);
  CHECK(f.activation.kind == ActivationKind::silu);
  CHECK(result.model_type == "deepseek_v3");
  CHECK(source_of(result, "/router/scale") == "/routed_scaling_factor");
  CHECK(source_of(result, "/router/scoring") ==
        "model_type deepseek_v3: transformers deepseek_v3/modeling_deepseek_v3.py");
  CHECK(source_of(result, "/quantization/scheme") == "/quantization_config/weight_block_size");
  CHECK(
      result.config.starts_with("// Made by moegen import from DeepSeek-V3.json: model_type deepseek_v3, layer 3 of "
                                "61 (moe, 58 alike).\n{"));
  REQUIRE(result.layers.size() == 2);
  CHECK(result.layers[0].layers == std::vector<int>{0, 1, 2});
  CHECK_FALSE(result.layers[0].moe);
  CHECK(result.layers[1].chosen);
  for (const ImportedValue& value : result.values) CHECK_MESSAGE(!value.source.empty(), value.pointer);
}

TEST_CASE("DeepSeek-V4-Flash: the frequent layer by default, the hash layer by number, fp4 experts") {
  const auto [result, f] = import(kDeepseekV4);
  check_sizes(f, 4096, 2048, 256, 6);
  check_scheme(f, Scheme::mxfp4, Dtype::float4_e2m1fn, Dtype::float8_e8m0fnu);
  CHECK(f.router.scoring == Scoring::sqrt_softplus);
  CHECK(f.router.bias == Dtype::float32);
  CHECK(f.router.num_groups == 1);
  CHECK(f.router.scale == 1.5);
  CHECK_FALSE(f.router.hash);
  CHECK(f.activation.limit == 10.0);
  REQUIRE(result.layers.size() == 2);
  CHECK(result.layers[0].description == "hash-routed moe");
  CHECK(result.layers[0].layers.size() == 3);

  const ConfigFields hash = import(kDeepseekV4, {.layer = 0}).fields;
  REQUIRE(hash.router.hash);
  CHECK(hash.router.hash->vocab == 129280);
  CHECK(hash.router.hash->token_id == Dtype::int64);
  CHECK_FALSE(hash.router.bias);

  const ConfigFields fp8 = import(kDeepseekV4, {.weights = Dtype::float8_e4m3fn}).fields;
  check_scheme(fp8, Scheme::block128, Dtype::float8_e4m3fn, Dtype::float8_e8m0fnu);
  const ConfigFields bf16 = import(kDeepseekV4, {.weights = Dtype::bfloat16}).fields;
  check_scheme(bf16, Scheme::none, Dtype::bfloat16);
}

TEST_CASE("GLM-5-FP8: one group, and exclusions that spare the experts") {
  const auto [result, f] = import(
      R"({"model_type": "glm_moe_dsa", "dtype": "bfloat16", "hidden_size": 6144, "moe_intermediate_size": 2048,
          "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
          "first_k_dense_replace": 3, "num_hidden_layers": 78, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
          "scoring_func": "sigmoid", "topk_method": "noaux_tc", "hidden_act": "silu",
          "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
          "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.3.mlp.gate",
          "model.layers.3.mlp.gate.e_score_correction_bias", "model.layers.3.input_layernorm"]}})");
  check_sizes(f, 6144, 2048, 256, 8);
  check_scheme(f, Scheme::block128, Dtype::float8_e4m3fn);
  check_shared(f, 1, 2048);
  CHECK(f.router.num_groups == 1);
  CHECK(f.router.scale == 2.5);
  CHECK(result.layers[1].layers.size() == 75);
}

TEST_CASE("Kimi-K2: DeepSeek-V3's router with one group of 384") {
  const std::string text = deepseek(
      R"("model_type": "kimi_k2", "hidden_size": 7168, "n_routed_experts": 384, "n_group": 1, "topk_group": 1,
         "routed_scaling_factor": 2.827, "first_k_dense_replace": 1, "num_hidden_layers": 61)");
  const ConfigFields f = import(text).fields;
  check_sizes(f, 7168, 2048, 384, 8);
  check_scheme(f, Scheme::block128, Dtype::float8_e4m3fn);
  CHECK(f.router.scale == 2.827);
  CHECK(f.router.num_groups == 1);
}

TEST_CASE("Kimi-K2.5: a nested text_config, int4 experts by compressed-tensors") {
  const std::string text =
      R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2", "hidden_size": 7168, "hidden_act": "silu",
          "moe_intermediate_size": 2048, "n_routed_experts": 384, "num_experts_per_tok": 8, "n_shared_experts": 1,
          "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.827, "first_k_dense_replace": 1,
          "num_hidden_layers": 61, "norm_topk_prob": true, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
          "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null,
              "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                       "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]}}})";
  const auto [result, f] = import(text);
  check_sizes(f, 7168, 2048, 384, 8);
  check_scheme(f, Scheme::int4, Dtype::int4);
  CHECK(source_of(result, "/hidden") == "/text_config/hidden_size");
  check_scheme(import(text, {.weights = Dtype::float8_e4m3fn}).fields, Scheme::block128, Dtype::float8_e4m3fn);
}

TEST_CASE("Llama-4-Scout: the weight goes on the input, a shared expert beside") {
  const auto [result, f] = import(
      R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 5120,
          "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1,
          "interleave_moe_layer_step": 1, "num_hidden_layers": 48, "hidden_act": "silu", "torch_dtype": "bfloat16"}})");
  check_sizes(f, 5120, 8192, 16, 1);
  check_scheme(f, Scheme::none, Dtype::bfloat16);
  check_shared(f, 1, 8192);
  CHECK(f.router.scoring == Scoring::sigmoid);
  CHECK(f.router.order == RouterOrder::select_then_score);
  CHECK_FALSE(f.router.normalize);
  CHECK(f.experts.weights_on_input);
  CHECK(f.finalize.weights_applied);
  CHECK(result.layers[0].layers.size() == 48);
}

TEST_CASE("MiniMax-M2.5: a sigmoid router whose bias a field turns on") {
  const std::string text =
      R"({"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_local_experts": 256,
          "num_experts_per_tok": 8, "num_hidden_layers": 62, "hidden_act": "silu", "scoring_func": "sigmoid",
          "shared_intermediate_size": 0, "use_routing_bias": true,
          "quantization_config": {"quant_method": "fp8", "fmt": "float8_e4m3fn", "activation_scheme": "dynamic",
          "weight_block_size": [128, 128], "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}})";
  const ConfigFields f = import(text).fields;
  check_sizes(f, 3072, 1536, 256, 8);
  check_scheme(f, Scheme::block128, Dtype::float8_e4m3fn);
  check_shared(f, 0, 0);
  CHECK(f.router.bias == Dtype::float32);
  CHECK(f.router.normalize);
  CHECK(f.router.scale == 1);
  std::string unbiased = text;
  unbiased.replace(unbiased.find("true"), 4, "false");
  CHECK_FALSE(import(unbiased).fields.router.bias);
}

TEST_CASE("Mixtral: softmax over the two best") {
  const ConfigFields f =
      import(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_local_experts": 8,
                 "num_experts_per_tok": 2, "num_hidden_layers": 32, "hidden_act": "silu", "torch_dtype": "bfloat16"})")
          .fields;
  check_sizes(f, 4096, 14336, 8, 2);
  check_scheme(f, Scheme::none, Dtype::bfloat16);
  CHECK(f.router.scoring == Scoring::softmax);
  CHECK(f.router.order == RouterOrder::select_then_score);
  CHECK(f.router.normalize);
}

TEST_CASE("Nemotron-3-Nano: squared relu without a gate, MoE layers by pattern") {
  const auto [result, f] = import(
      R"({"model_type": "nemotron_h", "hidden_size": 2688, "intermediate_size": 1856, "moe_intermediate_size": 1856,
          "moe_shared_expert_intermediate_size": 3712, "n_routed_experts": 128, "num_experts_per_tok": 6,
          "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
          "mlp_hidden_act": "relu2", "num_hidden_layers": 8, "hybrid_override_pattern": "MEM*E-ME",
          "torch_dtype": "bfloat16"})");
  check_sizes(f, 2688, 1856, 128, 6);
  check_shared(f, 1, 3712);
  CHECK(f.expert_hidden == 2688);
  CHECK(f.activation.kind == ActivationKind::relu2);
  CHECK_FALSE(f.activation.gated);
  CHECK(f.finalize.shared);
  CHECK(result.layers[1].layers == std::vector<int>{1, 4, 7});
}

TEST_CASE("Nemotron-3-Super: a latent width, with the shared expert outside") {
  const auto [result, f] = import(
      R"({"model_type": "nemotron_h", "hidden_size": 4096, "moe_latent_size": 1024, "moe_intermediate_size": 2688,
          "moe_shared_expert_intermediate_size": 5376, "n_routed_experts": 512, "num_experts_per_tok": 22,
          "n_group": 1, "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 5.0,
          "mlp_hidden_act": "relu2", "num_hidden_layers": 2, "hybrid_override_pattern": "ME", "dtype": "bfloat16",
          "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}})");
  CHECK(f.hidden == 4096);
  CHECK(f.expert_hidden == 1024);
  CHECK_FALSE(f.finalize.shared);
  CHECK(f.top_k == 22);
  check_scheme(f, Scheme::nvfp4, Dtype::float4_e2m1fn);
  CHECK(result.notes.size() == 1);
}

TEST_CASE("Qwen3: both checkpoints, block fp8 and bfloat16") {
  const auto text = [](std::string_view fields) {
    return R"({"model_type": "qwen3_moe", "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": true,
               "num_experts": 128, "num_experts_per_tok": 8, "hidden_act": "silu", "torch_dtype": "bfloat16", )" +
           std::string(fields) + "}";
  };
  const ConfigFields large = import(text(R"("hidden_size": 4096, "moe_intermediate_size": 1536,
                                             "num_hidden_layers": 94, )" +
                                         std::string(kFp8)))
                                 .fields;
  check_sizes(large, 4096, 1536, 128, 8);
  check_scheme(large, Scheme::block128, Dtype::float8_e4m3fn);
  const ConfigFields small =
      import(text(R"("hidden_size": 2048, "moe_intermediate_size": 768, "num_hidden_layers": 48)")).fields;
  check_sizes(small, 2048, 768, 128, 8);
  check_scheme(small, Scheme::none, Dtype::bfloat16);
  CHECK(small.router.scoring == Scoring::softmax);
  CHECK(small.router.order == RouterOrder::score_then_select);
  CHECK(small.router.normalize);
  CHECK_FALSE(small.router.bias);
}

TEST_CASE("Qwen3.5: always renormalised, a gated shared expert") {
  const auto [result, f] = import(
      R"({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text", "dtype": "bfloat16",
          "hidden_size": 2048, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
          "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 40, "mlp_only_layers": [],
          "hidden_act": "silu"}, "vision_config": {"hidden_size": 1152, "hidden_act": "gelu_pytorch_tanh"}})");
  check_sizes(f, 2048, 512, 256, 8);
  check_shared(f, 1, 512, SharedGate::sigmoid);
  CHECK(f.router.normalize);
  CHECK(source_of(result, "/router/normalize").starts_with("model_type qwen3_5_moe"));
}

TEST_CASE("Step-3.7-Flash: 288 experts, the code's silu, a scale under another name") {
  const std::string text =
      R"({"model_type": "step3p7", "num_hidden_layers": 45, "hidden_size": 4096, "torch_dtype": "bfloat16",
          "first_k_dense_replace": 3, "num_experts": 288, "num_experts_per_tok": 8, "moe_intermediate_size": 1280,
          "share_expert_dim": 1280, "n_shared_experts": 1, "scoring_func": "sigmoid", "use_moe_router_bias": true,
          "moe_router_scaling_factor": 3.0})";
  const auto [result, f] = import(text);
  check_sizes(f, 4096, 1280, 288, 8);
  check_shared(f, 1, 1280);
  CHECK(f.router.scoring == Scoring::sigmoid);
  CHECK(f.router.bias == Dtype::float32);
  CHECK(f.router.scale == 3);
  CHECK(result.layers[1].layers.size() == 42);
}

TEST_CASE("gemma-4: tanh gelu, and the scale of each expert as an expression") {
  const auto [result, f] = import(
      R"({"model_type": "gemma4", "dtype": "bfloat16", "text_config": {"model_type": "gemma4_text",
          "enable_moe_block": true, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2816,
          "intermediate_size": 2112, "moe_intermediate_size": 704, "num_experts": 128, "top_k_experts": 8,
          "num_hidden_layers": 30}})");
  check_sizes(f, 2816, 704, 128, 8);
  CHECK(f.activation.kind == ActivationKind::gelu_tanh);
  CHECK(f.router.normalize);
  REQUIRE(f.experts.down_epilogue);
  CHECK(f.experts.down_epilogue->text == "value * per_expert_scale");
  CHECK(f.experts.down_epilogue->inputs[0].shape == "experts");
  CHECK(source_of(result, "/dtypes/activation") == "/dtype");
  CHECK(result.notes.size() == 2);
}

TEST_CASE("gpt-oss: biases, interleaved gates, mxfp4") {
  const auto [result, f] = import(kGptOss);
  check_sizes(f, 2880, 2880, 32, 4);
  check_scheme(f, Scheme::mxfp4, Dtype::float4_e2m1fn, Dtype::float8_e8m0fnu);
  CHECK(f.router.order == RouterOrder::select_then_score);
  CHECK(f.activation.kind == ActivationKind::swiglu_oai);
  CHECK(f.activation.gate_layout == GateLayout::interleaved);
  CHECK(f.activation.limit == 7.0);
  CHECK(f.activation.alpha == 1.702);
  CHECK(f.experts.bias);
  check_scheme(import(kGptOss, {.weights = Dtype::bfloat16}).fields, Scheme::none, Dtype::bfloat16);
}

TEST_CASE("DeepSeek-V2: groups by their maximum, no renormalisation, times 16") {
  const std::string text =
      R"({"model_type": "deepseek_v2", "hidden_size": 5120, "moe_intermediate_size": 1536, "n_routed_experts": 160,
          "num_experts_per_tok": 6, "n_shared_experts": 2, "n_group": 8, "topk_group": 3, "norm_topk_prob": false,
          "topk_method": "group_limited_greedy", "scoring_func": "softmax", "routed_scaling_factor": 16.0,
          "first_k_dense_replace": 1, "num_hidden_layers": 60, "hidden_act": "silu", "torch_dtype": "bfloat16"})";
  const ConfigFields f = import(text).fields;
  CHECK(f.router.group_score == GroupScore::max);
  CHECK(f.router.num_groups == 8);
  CHECK(f.router.top_groups == 3);
  CHECK_FALSE(f.router.normalize);
  CHECK(f.router.scale == 16);
  check_shared(f, 2, 1536);
  std::string greedy = text;
  greedy.replace(greedy.find("group_limited_greedy"), 20, "greedy");
  CHECK(import(greedy).fields.router.num_groups == 1);
}

TEST_CASE("LongCat-Flash: zero experts and a scale without renormalisation") {
  const ConfigFields f =
      import(R"({"model_type": "longcat_flash", "hidden_size": 6144, "expert_ffn_hidden_size": 2048, "num_layers": 28,
                 "n_routed_experts": 512, "zero_expert_num": 256, "zero_expert_type": "identity", "moe_topk": 12,
                 "routed_scaling_factor": 6.0, "hidden_act": "silu", "torch_dtype": "bfloat16"})")
          .fields;
  check_sizes(f, 6144, 2048, 512, 12);
  CHECK(f.num_zero_experts == 256);
  CHECK(f.router.scale == 6);
  CHECK(f.router.bias == Dtype::float32);
  CHECK_FALSE(f.router.normalize);
}

TEST_CASE("Kimi-K3: latent experts with situ") {
  const auto [result, f] = import(
      R"({"model_type": "kimi_k3", "text_config": {"model_type": "kimi_linear", "hidden_size": 7168,
          "routed_expert_hidden_size": 3584, "moe_intermediate_size": 3072, "num_experts": 896,
          "num_experts_per_token": 16, "num_shared_experts": 2, "num_expert_group": 1, "topk_group": 1,
          "moe_renormalize": true, "routed_scaling_factor": 1.0, "moe_router_activation_func": "sigmoid",
          "hidden_act": "situ", "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0,
          "first_k_dense_replace": 1, "num_hidden_layers": 4}})");
  check_sizes(f, 7168, 3072, 896, 16);
  CHECK(f.expert_hidden == 3584);
  CHECK(f.activation.kind == ActivationKind::situ);
  CHECK(f.activation.beta == 4.0);
  CHECK(f.activation.linear_beta == 25.0);
}

TEST_CASE("Step-3: softmax without renormalisation, one shared expert") {
  const ConfigFields f =
      import(R"({"model_type": "step3_vl", "text_config": {"model_type": "step3_text", "hidden_size": 7168,
                 "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3, "share_expert_dim": 5120,
                 "norm_expert_weight": false, "moe_layers_enum": "4,5", "num_hidden_layers": 6}})")
          .fields;
  check_sizes(f, 7168, 5120, 48, 3);
  check_shared(f, 1, 5120);
  CHECK(f.router.scoring == Scoring::softmax);
  CHECK_FALSE(f.router.normalize);
}

TEST_CASE("DBRX: fields in a section of their own, renormalised by the 1-norm") {
  const ConfigFields f = import(R"({"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "torch_dtype": "bfloat16",
                                    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4,
                                    "moe_normalize_expert_weights": 1}})")
                             .fields;
  check_sizes(f, 6144, 10752, 16, 4);
  CHECK(f.router.normalize);
}

TEST_CASE("a scale that is null or absent is 1") {
  for (const char* scale : {R"("routed_scaling_factor": null,)", ""}) {
    const std::string text = std::string(R"({"model_type": "mimo_v2_flash", "hidden_size": 4096, )") + scale +
                             R"("moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
                                "n_group": 1, "topk_group": 1, "norm_topk_prob": true, "moe_layer_freq": [0, 1, 1],
                                "num_hidden_layers": 3, "hidden_act": "silu", "n_shared_experts": null})";
    const auto [result, f] = import(text);
    CHECK(f.router.scale == 1);
    CHECK(result.layers[1].layers == std::vector<int>{1, 2});
  }
}
