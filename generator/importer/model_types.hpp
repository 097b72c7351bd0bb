// SPDX-License-Identifier: Apache-2.0
// What the code of a model family fixes and its config.json does not say, by model_type. One row, one family.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include <moegen/config.hpp>

namespace moegen::importer {

/// How a family says which of its layers are MoE layers (layers.cpp).
enum class LayerRule {
  every,          ///< all of them
  dense_first,    ///< mlp_layer_types; else first_k_dense_replace, then every moe_layer_freq-th
  sparse_step,    ///< every decoder_sparse_step-th, but not mlp_only_layers
  moe_layers,     ///< moe_layers; else every interleave_moe_layer_step-th
  block_pattern,  ///< layers_block_type, or hybrid_override_pattern with E for MoE
  interval,       ///< every moe_layer_interval-th from moe_layer_start_index to moe_layer_end_index
  period,         ///< index mod expert_layer_period equals expert_layer_offset
  num_dense,      ///< all but the first num_dense_layers
  hash_first,     ///< mlp_layer_types; else the first num_hash_layers are hash-routed, all are MoE
  enumerated,     ///< mlp_layer_types; else moe_layers_enum; else first_k_dense_replace
};

enum class NormalizeRule { always, never, by_field };
enum class BiasRule { none, always, by_field };
enum class GroupRule { none, top2_sum, by_method };

/// How a family describes its shared experts.
enum class SharedRule {
  none,
  counted,    ///< `shared_count` experts as wide as a routed one, or `shared_width` wide where that is given
  one_wide,   ///< one expert of `shared_width`; 0 or absent: none
  same_wide,  ///< always one, as wide as a routed expert
};

/// A field that must hold `allowed` where it is present, because the row stands for nothing else.
struct Expectation {
  std::string_view field, allowed;
};

/// Field names hold alternatives with '|' between them (Document). A name of "" means that the family has no such
/// field.
struct ModelType {
  std::string_view names;   ///< model_type words of this row, '|' between them
  std::string_view source;  ///< the code that the row was read from

  std::string_view hidden = "hidden_size";
  std::string_view num_layers = "num_hidden_layers";
  std::string_view num_experts = "n_routed_experts";
  std::string_view top_k = "num_experts_per_tok";
  std::string_view intermediate = "moe_intermediate_size";
  std::string_view expert_hidden = "";
  std::string_view num_zero_experts = "";
  std::string_view section = "";  ///< object that holds the expert fields; hidden and num_layers stay outside
  LayerRule layers = LayerRule::every;

  Scoring scoring = Scoring::softmax;
  RouterOrder order = RouterOrder::score_then_select;
  NormalizeRule normalize = NormalizeRule::always;
  std::string_view normalize_field = "norm_topk_prob";
  std::optional<bool> normalize_default = {};  ///< where the field is absent; nothing: refuse
  BiasRule bias = BiasRule::none;
  std::string_view bias_field = "";
  bool bias_default = false;
  GroupRule groups = GroupRule::none;
  std::string_view num_groups = "n_group", top_groups = "topk_group";
  std::string_view scale = "";  ///< absent or null is 1

  SharedRule shared = SharedRule::none;
  std::string_view shared_count = "n_shared_experts";
  std::string_view shared_width = "";
  SharedGate shared_gate = SharedGate::none;

  std::string_view activation = "hidden_act";
  std::optional<ActivationKind> fixed_activation = {};  ///< the code ignores the field
  bool gated = true;
  GateLayout gate_layout = GateLayout::halves;
  std::string_view limit = "", alpha = "";
  std::string_view late_limit = "";  ///< a clamp after the activation, which no config can say
  bool expert_bias = false;
  bool weights_on_input = false;
  std::string_view expert_scale = "";  ///< input name of a factor per expert on the rows of the down projection

  std::string_view must_be_true = "";  ///< a field without which the model is dense
  std::span<const Expectation> expectations = {};
  std::string_view note = "";
  std::string_view refusal = "";  ///< the family is known, but nothing here can express it
};

std::span<const ModelType> model_types() noexcept;

/// The row of `name`, or null.
const ModelType* find_model_type(std::string_view name) noexcept;

}  // namespace moegen::importer
