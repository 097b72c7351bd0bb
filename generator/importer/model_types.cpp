// SPDX-License-Identifier: Apache-2.0
#include "importer/model_types.hpp"

#include <array>

namespace moegen::importer {
namespace {

// Sources are files of Hugging Face transformers 5.24 below src/transformers/models, or of SGLang 0.5.23 below
// python/sglang/srt/models where the model's own code is what transformers would run.

constexpr std::array<Expectation, 2> kNoauxSigmoid = {{{"topk_method", "noaux_tc"}, {"scoring_func", "sigmoid"}}};
constexpr std::array<Expectation, 3> kDeepseekV4 = {
    {{"topk_method", "noaux_tc"}, {"scoring_func", "sqrtsoftplus"}, {"norm_topk_prob", "true"}}};
constexpr std::array<Expectation, 2> kDeepseekV2 = {{{"norm_topk_prob", "false"}, {"scoring_func", "softmax"}}};
constexpr std::array<Expectation, 2> kMinimaxM2 = {{{"scoring_func", "sigmoid"}, {"shared_intermediate_size", "0"}}};
constexpr std::array<Expectation, 1> kSigmoid = {{{"scoring_func", "sigmoid"}}};
constexpr std::array<Expectation, 1> kKimiLinear = {{{"moe_router_activation_func", "sigmoid"}}};
constexpr std::array<Expectation, 2> kLongcat = {{{"zero_expert_type", "identity"}, {"norm_topk_prob", "false"}}};
constexpr std::array<Expectation, 1> kBailing = {{{"score_function", "softmax"}}};
constexpr std::array<Expectation, 1> kBailingSigmoid = {{{"score_function", "sigmoid"}}};
constexpr std::array<Expectation, 1> kDbrx = {{{"moe_normalize_expert_weights", "1.0"}}};

// Sigmoid scores, a bias for the choice, groups by the sum of their two best, weights renormalised and scaled: the
// router of DeepSeek-V3, which many families took over as it is.
constexpr ModelType noaux_router(std::string_view names, std::string_view source, LayerRule layers) {
  ModelType row{.names = names, .source = source};
  row.layers = layers;
  row.scoring = Scoring::sigmoid;
  row.normalize = NormalizeRule::by_field;
  row.normalize_default = true;
  row.bias = BiasRule::always;
  row.groups = GroupRule::top2_sum;
  row.scale = "routed_scaling_factor";
  row.shared = SharedRule::counted;
  row.expectations = kNoauxSigmoid;
  return row;
}

// Softmax over all experts, the k best, renormalised if the config says so, an optional gated shared expert.
constexpr ModelType qwen_router(std::string_view names, std::string_view source, bool shared) {
  ModelType row{.names = names, .source = source};
  row.num_experts = "num_experts|num_local_experts";
  row.layers = LayerRule::sparse_step;
  if (!shared) return row;
  row.shared = SharedRule::one_wide;
  row.shared_width = "shared_expert_intermediate_size";
  row.shared_gate = SharedGate::sigmoid;
  return row;
}

constexpr ModelType by_field(ModelType row, bool standard) {
  row.normalize = NormalizeRule::by_field;
  row.normalize_default = standard;
  return row;
}

constexpr ModelType olmoe() {
  ModelType row = by_field(qwen_router("olmoe|flex_olmo", "transformers olmoe/modeling_olmoe.py", false), false);
  row.intermediate = "intermediate_size";
  row.layers = LayerRule::every;
  return row;
}

constexpr ModelType every_layer(ModelType row) {
  row.layers = LayerRule::every;
  return row;
}

constexpr ModelType deepseek_v2() {
  ModelType row{.names = "deepseek_v2", .source = "transformers deepseek_v2/modeling_deepseek_v2.py"};
  row.layers = LayerRule::dense_first;
  row.normalize = NormalizeRule::never;
  row.groups = GroupRule::by_method;
  row.scale = "routed_scaling_factor";
  row.shared = SharedRule::counted;
  row.expectations = kDeepseekV2;
  return row;
}

constexpr ModelType deepseek_v4() {
  ModelType row{.names = "deepseek_v4", .source = "transformers deepseek_v4/modeling_deepseek_v4.py"};
  row.layers = LayerRule::hash_first;
  row.scoring = Scoring::sqrt_softplus;
  row.bias = BiasRule::always;
  row.scale = "routed_scaling_factor";
  row.shared = SharedRule::counted;
  row.limit = "swiglu_limit";
  row.expectations = kDeepseekV4;
  return row;
}

constexpr ModelType kimi_linear() {
  ModelType row =
      noaux_router("kimi_linear|kimi_k3",
                   "transformers kimi_linear/modeling_kimi_linear.py, sglang kimi_k3.py for the latent width "
                   "and situ",
                   LayerRule::dense_first);
  row.num_experts = "num_experts|n_routed_experts|num_local_experts";
  row.top_k = "num_experts_per_token|num_experts_per_tok";
  row.expert_hidden = "routed_expert_hidden_size";
  row.normalize_field = "moe_renormalize|norm_topk_prob";
  row.num_groups = "num_expert_group|n_group";
  row.shared_count = "num_shared_experts|n_shared_experts";
  row.expectations = kKimiLinear;
  return row;
}

constexpr ModelType bailing_moe(std::string_view names, Scoring scoring, std::span<const Expectation> expectations) {
  ModelType row{.names = names, .source = "sglang bailing_moe.py"};
  row.num_experts = "num_experts";
  row.layers = LayerRule::dense_first;
  row.scoring = scoring;
  row.normalize = NormalizeRule::by_field;
  row.scale = "routed_scaling_factor";
  row.shared = SharedRule::counted;
  row.shared_count = "num_shared_experts";
  row.shared_width = "moe_shared_expert_intermediate_size";
  row.expectations = expectations;
  if (scoring == Scoring::softmax) return row;
  row.bias = BiasRule::by_field;
  row.bias_field = "moe_router_enable_expert_bias";
  row.groups = GroupRule::top2_sum;
  return row;
}

constexpr ModelType bailing_hybrid() {
  ModelType row =
      noaux_router("bailing_hybrid", "transformers bailing_hybrid/modeling_bailing_hybrid.py", LayerRule::dense_first);
  row.num_experts = "num_experts|num_local_experts";
  row.shared_count = "num_shared_experts|n_shared_experts";
  return row;
}

constexpr ModelType exaone_moe() {
  ModelType row = noaux_router("exaone_moe", "transformers exaone_moe/modeling_exaone_moe.py", LayerRule::dense_first);
  row.num_experts = "num_experts";
  row.shared_count = "num_shared_experts";
  return row;
}

constexpr ModelType mimo_v2() {
  ModelType row =
      noaux_router("mimo_v2_flash", "transformers mimo_v2_flash/modeling_mimo_v2_flash.py", LayerRule::dense_first);
  row.shared = SharedRule::none;
  return row;
}

constexpr ModelType lfm2_moe() {
  ModelType row{.names = "lfm2_moe", .source = "transformers lfm2_moe/modeling_lfm2_moe.py"};
  row.num_experts = "num_experts";
  row.layers = LayerRule::num_dense;
  row.scoring = Scoring::sigmoid;
  row.normalize = NormalizeRule::by_field;
  row.normalize_default = true;
  row.bias = BiasRule::by_field;
  row.bias_field = "use_expert_bias";
  row.bias_default = true;
  row.scale = "routed_scaling_factor";
  row.fixed_activation = ActivationKind::silu;
  return row;
}

constexpr ModelType minimax_m2() {
  ModelType row{.names = "minimax_m2", .source = "transformers minimax_m2/modeling_minimax_m2.py"};
  row.num_experts = "num_local_experts";
  row.intermediate = "intermediate_size";
  row.scoring = Scoring::sigmoid;
  row.bias = BiasRule::by_field;
  row.bias_field = "use_routing_bias";
  row.bias_default = true;
  row.expectations = kMinimaxM2;
  return row;
}

constexpr ModelType minimax_m3() {
  ModelType row{.names = "minimax_m3_vl|minimax_m3_vl_text|minimax_m3",
                .source = "transformers minimax_m3_vl/modeling_minimax_m3_vl.py"};
  row.num_experts = "num_local_experts";
  row.intermediate = "intermediate_size";
  row.layers = LayerRule::dense_first;
  row.scoring = Scoring::sigmoid;
  row.bias = BiasRule::by_field;
  row.bias_field = "use_routing_bias";
  row.bias_default = true;
  row.scale = "routed_scaling_factor";
  row.shared = SharedRule::one_wide;
  row.shared_width = "shared_intermediate_size";
  row.fixed_activation = ActivationKind::swiglu_oai;
  row.limit = "swiglu_limit";
  row.alpha = "swiglu_alpha";
  row.expectations = kSigmoid;
  return row;
}

constexpr ModelType mixtral() {
  ModelType row{.names = "mixtral",
                .source =
                    "transformers mixtral/modeling_mixtral.py: softmax, top-k, renormalised, which is softmax over "
                    "the k best"};
  row.num_experts = "num_local_experts";
  row.intermediate = "intermediate_size";
  row.order = RouterOrder::select_then_score;
  return row;
}

constexpr ModelType gpt_oss() {
  ModelType row{.names = "gpt_oss", .source = "transformers gpt_oss/modeling_gpt_oss.py"};
  row.num_experts = "num_local_experts|num_experts";
  row.top_k = "num_experts_per_tok|experts_per_token";
  row.intermediate = "intermediate_size";
  row.order = RouterOrder::select_then_score;
  row.fixed_activation = ActivationKind::swiglu_oai;
  row.gate_layout = GateLayout::interleaved;
  row.limit = "swiglu_limit";
  row.alpha = "swiglu_alpha";
  row.expert_bias = true;
  row.note = "the router's linear layer has a bias: it belongs to the logits";
  return row;
}

constexpr ModelType llama4() {
  ModelType row{.names = "llama4_text|llama4", .source = "transformers llama4/modeling_llama4.py"};
  row.num_experts = "num_local_experts";
  row.intermediate = "intermediate_size";
  row.layers = LayerRule::moe_layers;
  row.scoring = Scoring::sigmoid;
  row.order = RouterOrder::select_then_score;
  row.normalize = NormalizeRule::never;
  row.weights_on_input = true;
  row.shared = SharedRule::same_wide;
  return row;
}

constexpr ModelType nemotron_h() {
  ModelType row =
      noaux_router("nemotron_h", "transformers nemotron_h/modeling_nemotron_h.py", LayerRule::block_pattern);
  row.expert_hidden = "moe_latent_size";
  row.shared = SharedRule::one_wide;
  row.shared_width = "moe_shared_expert_intermediate_size";
  row.activation = "mlp_hidden_act";
  row.gated = false;
  return row;
}

constexpr ModelType gemma4() {
  ModelType row{.names = "gemma4_text|gemma4", .source = "transformers gemma4/modeling_gemma4.py"};
  row.num_experts = "num_experts";
  row.top_k = "top_k_experts";
  row.activation = "hidden_activation|hidden_act";
  row.expert_scale = "per_expert_scale";
  row.must_be_true = "enable_moe_block";
  row.note = "the dense MLP beside the experts has its own norm, so it is no shared expert: add it outside";
  return row;
}

constexpr ModelType step() {
  ModelType row{.names = "step3p7|step3p5", .source = "transformers step3p7/modeling_step3p7.py"};
  row.num_experts = "moe_num_experts|num_experts|n_routed_experts";
  row.top_k = "moe_top_k|num_experts_per_tok";
  row.layers = LayerRule::enumerated;
  row.scoring = Scoring::sigmoid;
  row.bias = BiasRule::by_field;
  row.bias_field = "use_moe_router_bias";
  row.bias_default = true;
  row.scale = "moe_router_scaling_factor";
  row.shared = SharedRule::one_wide;
  row.shared_width = "share_expert_dim|share_expert_dims";
  row.fixed_activation = ActivationKind::silu;
  row.late_limit = "swiglu_limits";
  row.expectations = kSigmoid;
  return row;
}

constexpr ModelType step3() {
  ModelType row{.names = "step3_text|step3_vl", .source = "sglang step3_vl.py"};
  row.num_experts = "moe_num_experts";
  row.top_k = "moe_top_k";
  row.layers = LayerRule::enumerated;
  row.normalize = NormalizeRule::by_field;
  row.normalize_field = "norm_expert_weight";
  row.shared = SharedRule::one_wide;
  row.shared_width = "share_expert_dim";
  row.fixed_activation = ActivationKind::silu;
  return row;
}

constexpr ModelType longcat_flash() {
  ModelType row{.names = "longcat_flash", .source = "transformers longcat_flash/modeling_longcat_flash.py"};
  row.num_layers = "num_layers|num_hidden_layers";
  row.top_k = "moe_topk";
  row.intermediate = "expert_ffn_hidden_size";
  row.num_zero_experts = "zero_expert_num";
  row.normalize = NormalizeRule::never;
  row.bias = BiasRule::always;
  row.scale = "routed_scaling_factor";
  row.expectations = kLongcat;
  return row;
}

constexpr ModelType ernie() {
  ModelType row{.names = "ernie4_5_moe", .source = "transformers ernie4_5_moe/modeling_ernie4_5_moe.py"};
  row.num_experts = "moe_num_experts";
  row.top_k = "moe_k";
  row.layers = LayerRule::interval;
  row.bias = BiasRule::always;
  row.shared = SharedRule::counted;
  row.shared_count = "moe_num_shared_experts";
  return row;
}

constexpr ModelType granite(std::string_view names, bool shared) {
  ModelType row{.names = names, .source = "transformers granitemoe/modeling_granitemoe.py"};
  row.num_experts = "num_local_experts";
  row.intermediate = "intermediate_size";
  row.order = RouterOrder::select_then_score;
  if (!shared) return row;
  row.shared = SharedRule::one_wide;
  row.shared_width = "shared_intermediate_size";
  return row;
}

constexpr ModelType dbrx() {
  ModelType row{.names = "dbrx", .source = "transformers dbrx/modeling_dbrx.py: weights divided by their 1-norm"};
  row.hidden = "d_model";
  row.num_layers = "n_layers";
  row.section = "ffn_config";
  row.num_experts = "moe_num_experts";
  row.top_k = "moe_top_k";
  row.intermediate = "ffn_hidden_size";
  row.activation = "";
  row.fixed_activation = ActivationKind::silu;
  row.expectations = kDbrx;
  return row;
}

constexpr ModelType hunyuan() {
  ModelType row{.names = "hunyuan_v1_moe",
                .source =
                    "transformers hunyuan_v1_moe/modeling_hunyuan_v1_moe.py, sglang "
                    "hunyuan.py for the lists by layer"};
  row.num_experts = "num_experts";
  row.top_k = "moe_topk";
  row.intermediate = "moe_intermediate_size|intermediate_size";
  row.shared = SharedRule::counted;
  row.shared_count = "num_shared_expert";
  row.shared_width = "intermediate_size";
  return row;
}

constexpr ModelType jamba() {
  ModelType row{.names = "jamba", .source = "transformers jamba/modeling_jamba.py"};
  row.num_experts = "num_experts";
  row.intermediate = "intermediate_size";
  row.layers = LayerRule::period;
  row.normalize = NormalizeRule::never;
  return row;
}

constexpr ModelType refused(std::string_view names, std::string_view source, std::string_view refusal) {
  ModelType row{.names = names, .source = source};
  row.refusal = refusal;
  return row;
}

constexpr std::array kModelTypes = {
    noaux_router("deepseek_v3", "transformers deepseek_v3/modeling_deepseek_v3.py", LayerRule::dense_first),
    noaux_router("deepseek_v32", "transformers deepseek_v32/modeling_deepseek_v32.py", LayerRule::dense_first),
    noaux_router("kimi_k2",
                 "the model's auto_map runs DeepSeek-V3's code: transformers "
                 "deepseek_v3/modeling_deepseek_v3.py",
                 LayerRule::dense_first),
    noaux_router("glm4_moe", "transformers glm4_moe/modeling_glm4_moe.py", LayerRule::dense_first),
    noaux_router("glm4_moe_lite", "transformers glm4_moe_lite/modeling_glm4_moe_lite.py", LayerRule::dense_first),
    noaux_router("glm4v_moe|glm4v_moe_text", "transformers glm4v_moe/modeling_glm4v_moe.py", LayerRule::dense_first),
    noaux_router("glm_moe_dsa", "transformers glm_moe_dsa/modeling_glm_moe_dsa.py", LayerRule::dense_first),
    by_field(noaux_router("dots1", "transformers dots1/modeling_dots1.py", LayerRule::dense_first), false),
    noaux_router("solar_open", "transformers solar_open/modeling_solar_open.py", LayerRule::every),
    deepseek_v2(),
    deepseek_v4(),
    kimi_linear(),
    by_field(qwen_router("qwen2_moe", "transformers qwen2_moe/modeling_qwen2_moe.py", true), false),
    by_field(qwen_router("qwen3_moe", "transformers qwen3_moe/modeling_qwen3_moe.py", false), false),
    by_field(qwen_router("qwen3_next", "transformers qwen3_next/modeling_qwen3_next.py", true), true),
    qwen_router("qwen3_vl_moe|qwen3_vl_moe_text", "transformers qwen3_vl_moe/modeling_qwen3_vl_moe.py", false),
    every_layer(qwen_router("qwen3_5_moe|qwen3_5_moe_text", "transformers qwen3_5_moe/modeling_qwen3_5_moe.py", true)),
    olmoe(),
    minimax_m2(),
    minimax_m3(),
    mixtral(),
    gpt_oss(),
    llama4(),
    nemotron_h(),
    gemma4(),
    step(),
    step3(),
    longcat_flash(),
    ernie(),
    granite("granitemoe", false),
    granite("granitemoeshared|granitemoehybrid", true),
    dbrx(),
    hunyuan(),
    jamba(),
    exaone_moe(),
    mimo_v2(),
    lfm2_moe(),
    bailing_moe("bailing_moe", Scoring::softmax, kBailing),
    bailing_moe("bailing_moe_v2", Scoring::sigmoid, kBailingSigmoid),
    bailing_hybrid(),
    refused("phimoe", "transformers phimoe/modeling_phimoe.py",
            "routes by sparsemixer, two masked arg-max rounds, which no router here does"),
    refused("ernie4_5_vl_moe", "transformers ernie4_5_vl_moe/modeling_ernie4_5_vl_moe.py",
            "has separate experts for text and vision tokens in one layer, which no config describes"),
};

}  // namespace

std::span<const ModelType> model_types() noexcept { return kModelTypes; }

const ModelType* find_model_type(std::string_view name) noexcept {
  for (const ModelType& row : kModelTypes)
    for (std::string_view names = row.names; !names.empty();) {
      const std::size_t bar = names.find('|');
      if (names.substr(0, bar) == name) return &row;
      names = bar == std::string_view::npos ? std::string_view() : names.substr(bar + 1);
    }
  return nullptr;
}

}  // namespace moegen::importer
