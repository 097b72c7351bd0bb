// SPDX-License-Identifier: Apache-2.0
#include "importer/builder.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "config_words.hpp"
#include "importer/quantization.hpp"
#include "importer/slices.hpp"

namespace moegen::importer {
namespace {

using Json = nlohmann::ordered_json;

Dtype weight_dtype(Scheme scheme, Dtype activation) {
  switch (scheme) {
    case Scheme::none: return activation;
    case Scheme::mxfp4:
    case Scheme::nvfp4: return Dtype::float4_e2m1fn;
    case Scheme::int4: return Dtype::int4;
    default: return Dtype::float8_e4m3fn;
  }
}

// `allowed` is a word, or a JSON literal: "1.0" holds for 1 as well.
bool holds(const nlohmann::json& value, std::string_view allowed) {
  if (value.is_string()) return value.get<std::string>() == allowed;
  return value == nlohmann::json::parse(allowed, nullptr, /*allow_exceptions=*/false);
}

class Builder {
 public:
  Builder(const Model& model, const ImportOptions& options) : model_(model), type_(model.type), options_(options) {}

  Draft run(const std::string& name) {
    check_expectations();
    read_dtypes();
    put_sizes(name);
    put_router();
    put_indices();
    put_dtypes();
    put_activation();
    put_experts();
    put_shared_experts();
    put_expert_parallel();
    if (!type_.note.empty()) draft_.note(std::string(type_.note));
    return std::move(draft_);
  }

 private:
  std::string row() const {
    return fmt::format("model_type {}: {}", type_.names.substr(0, type_.names.find('|')), type_.source);
  }

  void put_fixed(std::string_view pointer, const Json& value) { draft_.put(pointer, value, row()); }

  // ---- what the row stands for ----

  void check_expectations() const {
    for (const Expectation& expectation : type_.expectations) {
      const Document& holder = model_.section;
      const nlohmann::json* value = holder.find(expectation.field);
      if (value == nullptr) continue;
      if (!holds(*value, expectation.allowed))
        holder.refuse(expectation.field,
                      fmt::format("is {}; for this model_type only {} is known", preview(*value), expectation.allowed));
    }
  }

  // ---- dtypes and quantisation ----

  void read_dtypes() {
    read_activation_dtype();
    quantization_ = read_quantization(model_.root, model_.text, model_.layer);
    checkpoint_ = quantization_.scheme;
    if (!quantization_.excluded_by.empty())
      draft_.note(fmt::format("the experts of layer {} are not quantised: '{}' excludes them", model_.layer,
                              preview(nlohmann::json(quantization_.excluded_by))));
    if (options_.weights) make_twin(*options_.weights);
    weight_ = weight_dtype(quantization_.scheme, activation_.value);
  }

  void read_activation_dtype() {
    for (const Document* holder : {&model_.text, &model_.root}) {
      const auto name = holder->find_text("dtype|torch_dtype");
      if (!name) continue;
      const auto dtype = find_dtype(name->value);
      if (dtype != Dtype::bfloat16 && dtype != Dtype::float16)
        holder->refuse("dtype|torch_dtype", fmt::format("is '{}'; allowed bfloat16, float16", name->value));
      activation_ = {*dtype, name->source};
      return;
    }
    activation_ = {Dtype::bfloat16, "no dtype or torch_dtype: the default of moegen"};
  }

  void make_twin(Dtype weights) {
    if (weights != Dtype::bfloat16 && weights != Dtype::float8_e4m3fn)
      throw Error(ErrorCode::config, fmt::format("{}: --weights: is {}; allowed bfloat16, float8_e4m3fn",
                                                 model_.root.origin(), to_string(weights)));
    const bool fp8 = weights == Dtype::float8_e4m3fn;
    const Scheme scheme = fp8 ? Scheme::block128 : Scheme::none;
    if (scheme == checkpoint_ && (fp8 || activation_.value == weights)) return;
    if (!fp8) activation_ = {Dtype::bfloat16, "--weights bfloat16"};
    const std::string option = fmt::format("--weights {}", to_string(weights));
    quantization_ = {scheme, fp8 ? twin_scale() : Dtype::float32, option, option, ""};
    draft_.note(fmt::format("the checkpoint's experts are {}: their weights must be converted to {}",
                            checkpoint_ == Scheme::none ? "not quantised" : to_word(checkpoint_),
                            fp8 ? "fp8 with 128x128 scales" : "bfloat16"));
  }

  // The rest of a model whose experts have 4 bits may already be fp8 with a format of scales.
  Dtype twin_scale() const {
    for (const Document* holder : {&model_.root, &model_.text}) {
      const auto quantization = holder->child("quantization_config");
      const auto format = quantization ? quantization->find_text("scale_fmt") : std::nullopt;
      if (format && format->value == "ue8m0") return Dtype::float8_e8m0fnu;
    }
    return Dtype::float32;
  }

  void put_dtypes() {
    draft_.put("/dtypes/activation", to_string(activation_.value), activation_.source);
    draft_.put("/dtypes/weight", to_string(weight_), quantization_.source);
    draft_.put("/dtypes/output", to_string(activation_.value), activation_.source);
    if (quantization_.scheme != Scheme::none) {
      draft_.put("/quantization/scheme", to_word(quantization_.scheme), quantization_.source);
      draft_.put("/quantization/scale", to_string(quantization_.scale), quantization_.scale_source);
    }
    if (activation_.value == Dtype::float16) draft_.put("/finalize/down", "float16", activation_.source);
  }

  // ---- sizes ----

  void put_integer(std::string_view pointer, const Sourced<std::int64_t>& number) {
    draft_.put(pointer, number.value, number.source);
  }

  void put_sizes(const std::string& name) {
    draft_.put("/moegen", 1, "the config format");
    draft_.put("/name", name, options_.name.empty() ? "the file's name" : "--name");
    put_integer("/hidden", model_.text.integer(type_.hidden));
    intermediate_ = model_.section.integer(type_.intermediate, model_.layer);
    draft_.put("/intermediate", sliced(intermediate_), slice_source(intermediate_));
    num_experts_ = model_.section.integer(type_.num_experts, model_.layer);
    if (num_experts_.value == 0)
      model_.section.refuse(type_.num_experts, "is 0: a dense model; a Mixture-of-Experts model is needed");
    put_integer("/num_experts", num_experts_);
    put_integer("/top_k", model_.section.integer(type_.top_k, model_.layer));
    put_optional_integer("/expert_hidden", type_.expert_hidden);
    put_optional_integer("/num_zero_experts", type_.num_zero_experts);
  }

  void put_optional_integer(std::string_view pointer, std::string_view names) {
    const auto number = names.empty() ? std::nullopt : model_.section.find_integer(names);
    if (number && number->value != 0) put_integer(pointer, *number);
  }

  std::int64_t sliced(const Sourced<std::int64_t>& width) const {
    return slice_width(model_.root.origin(), width, options_.tensor_parallel,
                       slice_step(quantization_.scheme, weight_));
  }

  std::string slice_source(const Sourced<std::int64_t>& width) const {
    if (options_.tensor_parallel == 1) return width.source;
    return fmt::format("{}, one of {} slices: --tensor-parallel", width.source, options_.tensor_parallel);
  }

  // ---- router ----

  void put_router() {
    put_fixed("/router/scoring", to_word(type_.scoring));
    if (type_.order == RouterOrder::select_then_score) put_fixed("/router/order", "select_then_score");
    if (model_.role == LayerRole::hash_moe)
      put_hash();
    else
      put_bias();
    put_groups();
    put_normalize();
    put_scale();
  }

  // The table's ids are looked up by torch token ids; the choice needs no bias.
  void put_hash() {
    const auto vocab = model_.text.integer("vocab_size");
    draft_.put("/router/hash", Json{{"vocab", vocab.value}, {"token_id", "int64"}}, vocab.source);
  }

  void put_bias() {
    bool bias = type_.bias == BiasRule::always;
    std::string source = row();
    if (type_.bias == BiasRule::by_field) {
      const auto given = model_.section.find_boolean(type_.bias_field);
      bias = given ? given->value : type_.bias_default;
      if (given) source = given->source;
    }
    if (bias) draft_.put("/router/bias", "float32", source);
  }

  void put_groups() {
    if (type_.groups == GroupRule::none || !is_grouped()) return;
    const auto groups = model_.section.find_integer(type_.num_groups);
    if (!groups || groups->value <= 1) return;
    put_integer("/router/num_groups", *groups);
    put_integer("/router/top_groups", model_.section.integer(type_.top_groups));
    put_fixed("/router/group_score", type_.groups == GroupRule::by_method ? "max" : "top2_sum");
  }

  // DeepSeek-V2 has both methods, and its config names one.
  bool is_grouped() const {
    if (type_.groups != GroupRule::by_method) return true;
    const auto method = model_.section.find_text("topk_method");
    if (!method) model_.section.refuse_missing("topk_method");
    if (method->value != "greedy" && method->value != "group_limited_greedy")
      model_.section.refuse("topk_method", fmt::format("is '{}'; allowed greedy, group_limited_greedy", method->value));
    return method->value == "group_limited_greedy";
  }

  void put_normalize() {
    if (type_.normalize != NormalizeRule::by_field)
      return put_fixed("/router/normalize", type_.normalize == NormalizeRule::always);
    const auto given = model_.section.find_boolean(type_.normalize_field);
    if (given) return draft_.put("/router/normalize", given->value, given->source);
    if (!type_.normalize_default) model_.section.refuse_missing(type_.normalize_field);
    put_fixed("/router/normalize", *type_.normalize_default);
  }

  void put_scale() {
    const auto scale = type_.scale.empty() ? std::nullopt : model_.section.find_number(type_.scale);
    if (scale) draft_.put("/router/scale", scale->value, scale->source);
  }

  // ---- activation and experts ----

  ActivationKind read_kind() const {
    if (type_.fixed_activation) return *type_.fixed_activation;
    const auto word = model_.section.find_text(type_.activation);
    if (!word) model_.section.refuse_missing(type_.activation);
    if (word->value == "silu" || word->value == "swish") return ActivationKind::silu;
    if (word->value == "gelu") return ActivationKind::gelu;
    if (word->value == "gelu_pytorch_tanh" || word->value == "gelu_new") return ActivationKind::gelu_tanh;
    if (word->value == "relu2") return ActivationKind::relu2;
    if (word->value == "situ") return ActivationKind::situ;
    model_.section.refuse(
        type_.activation,
        fmt::format("is '{}'; known are silu, swish, gelu, gelu_pytorch_tanh, gelu_new, relu2, situ", word->value));
  }

  void put_activation() {
    const ActivationKind kind = read_kind();
    draft_.put("/activation/kind", to_word(kind),
               type_.fixed_activation ? row() : model_.section.place(type_.activation));
    if (!type_.gated) put_fixed("/activation/gated", false);
    if (type_.gate_layout == GateLayout::interleaved) put_fixed("/activation/gate_layout", "interleaved");
    put_limit(kind);
    if (kind == ActivationKind::situ) put_situ();
    refuse_late_limit();
  }

  void put_limit(ActivationKind kind) {
    if (type_.limit.empty()) return;
    const auto limit = model_.section.find_number(type_.limit, model_.layer);
    if (!limit && kind != ActivationKind::swiglu_oai) model_.section.refuse_missing(type_.limit);
    if (limit) draft_.put("/activation/limit", limit->value, limit->source);
    const auto alpha = type_.alpha.empty() ? std::nullopt : model_.section.find_number(type_.alpha);
    if (alpha) draft_.put("/activation/alpha", alpha->value, alpha->source);
  }

  void put_situ() {
    for (const auto& [pointer, field] : {std::pair{"/activation/beta", "activation_situ_beta"},
                                         std::pair{"/activation/linear_beta", "activation_situ_linear_beta"}}) {
      const auto bound = model_.section.find_number(field);
      if (!bound) model_.section.refuse_missing(field);
      draft_.put(pointer, bound->value, bound->source);
    }
  }

  void refuse_late_limit() const {
    const auto limit =
        type_.late_limit.empty() ? std::nullopt : model_.section.find_number(type_.late_limit, model_.layer);
    if (limit && limit->value != 0)
      model_.section.refuse(
          type_.late_limit,
          fmt::format("clamps layer {} at {} after the activation, but a config's limit is before it; "
                      "layers with 0 or null can be imported",
                      model_.layer, limit->value));
  }

  void put_experts() {
    if (type_.expert_bias) put_fixed("/experts/bias", true);
    if (type_.weights_on_input) put_fixed("/experts/weights_on_input", true);
    if (type_.expert_scale.empty()) return;
    const std::string input(type_.expert_scale);
    put_fixed("/experts/down_epilogue",
              Json{{"text", "value * " + input},
                   {"inputs", {{input, {{"dtype", to_string(activation_.value)}, {"shape", "experts"}}}}}});
    draft_.note(
        fmt::format("the checkpoint's {} multiplies a row of an expert: pass it as the input of "
                    "experts.down_epilogue, or fold it into the down projection and drop the expression",
                    input));
  }

  // ---- shared experts ----

  Sourced<std::int64_t> shared_count() const {
    if (type_.shared != SharedRule::counted) return {1, row()};
    const auto count = model_.section.find_integer(type_.shared_count, model_.layer);
    return count ? *count : Sourced<std::int64_t>{0, row()};
  }

  std::optional<Sourced<std::int64_t>> shared_width() const {
    if (type_.shared == SharedRule::none) return std::nullopt;
    auto own =
        type_.shared_width.empty() ? std::nullopt : model_.section.find_integer(type_.shared_width, model_.layer);
    if (own || type_.shared == SharedRule::one_wide) return own;
    return intermediate_;
  }

  void put_shared_experts() {
    const Sourced<std::int64_t> count = shared_count();
    const auto width = shared_width();
    if (!width || width->value == 0 || count.value == 0) return;
    put_integer("/shared_experts/count", count);
    draft_.put("/shared_experts/intermediate", sliced(*width), slice_source(*width));
    if (type_.shared_gate == SharedGate::sigmoid) put_fixed("/shared_experts/gate", "sigmoid");
    const bool latent = !type_.expert_hidden.empty() && model_.section.has(type_.expert_hidden);
    if (latent)
      draft_.note(
          "the shared experts work at the model's width, the routed ones at the latent width: add them outside");
    else
      put_fixed("/finalize/shared", true);
  }

  // ---- expert parallel ----

  bool is_parallel() const { return options_.expert_parallel > 1; }

  void put_indices() {
    if (!is_parallel()) return;
    check_ranks();
    const ExpertRange range =
        slice_experts(num_experts_.value, options_.expert_parallel, options_.expert_parallel_rank);
    const std::string source =
        fmt::format("--expert-parallel {} --rank {}", options_.expert_parallel, options_.expert_parallel_rank);
    draft_.put("/indices/first_expert", range.first, source);
    draft_.put("/indices/num_local_experts", range.count, source);
  }

  void check_ranks() const {
    if (options_.expert_parallel > num_experts_.value)
      throw Error(ErrorCode::config,
                  fmt::format("{}: --expert-parallel: is {} for {} experts; at most one rank an expert",
                              model_.root.origin(), options_.expert_parallel, num_experts_.value));
  }

  // Rows that the up projection quantises in blocks anyway travel quantised: the same bits at half the bytes.
  void put_expert_parallel() {
    if (!is_parallel()) return;
    draft_.put("/expert_parallel/ranks", options_.expert_parallel, "--expert-parallel");
    if (quantization_.scheme == Scheme::block128)
      draft_.put("/expert_parallel/format", "fp8_block128", "derived from quantization.scheme");
    draft_.note(fmt::format("the local experts are those of rank {} of {}", options_.expert_parallel_rank,
                            options_.expert_parallel));
  }

  const Model& model_;
  const ModelType& type_;
  const ImportOptions& options_;
  Draft draft_;
  Sourced<Dtype> activation_;
  Dtype weight_ = Dtype::bfloat16;
  ExpertQuantization quantization_;
  Scheme checkpoint_ = Scheme::none;
  Sourced<std::int64_t> intermediate_, num_experts_;
};

}  // namespace

Draft build_config(const Model& model, const std::string& name, const ImportOptions& options) {
  return Builder(model, options).run(name);
}

}  // namespace moegen::importer
