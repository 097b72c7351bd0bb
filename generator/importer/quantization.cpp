// SPDX-License-Identifier: Apache-2.0
#include "importer/quantization.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "config_words.hpp"

namespace moegen::importer {

using nlohmann::json;

namespace {

ExpertQuantization found(Scheme scheme, const std::string& source, Dtype scale = Dtype::float32) {
  return {scheme, scale, source, source, ""};
}

// ---- quant_method fp8: DeepSeek's and Qwen's block format, or one scale a tensor ----

void expect_text(const Document& q, std::string_view field, std::initializer_list<std::string_view> allowed) {
  const auto text = q.find_text(field);
  if (!text || std::find(allowed.begin(), allowed.end(), text->value) != allowed.end()) return;
  std::string list;
  for (std::string_view word : allowed) list += (list.empty() ? "" : " or ") + std::string(word);
  q.refuse(field, fmt::format("is '{}'; allowed {}", text->value, list));
}

Dtype block_scale(const Document& q) {
  expect_text(q, "scale_fmt", {"ue8m0", "float32", "float"});
  const auto format = q.find_text("scale_fmt");
  return format && format->value == "ue8m0" ? Dtype::float8_e8m0fnu : Dtype::float32;
}

ExpertQuantization read_fp8(const Document& root, const Document& text, const Document& q) {
  expect_text(q, "fmt", {"e4m3", "float8_e4m3fn"});
  for (const Document* holder : {&q, &text, &root}) {
    expect_text(*holder, "expert_dtype", {"fp4", "fp8"});
    const auto dtype = holder->find_text("expert_dtype");
    if (dtype && dtype->value == "fp4")  // e2m1 in groups of 32 with e8m0 scales: transformers, finegrained_fp8.py
      return found(Scheme::mxfp4, dtype->source, Dtype::float8_e8m0fnu);
  }
  expect_text(q, "activation_scheme", {"dynamic", "static"});
  if (!q.has("weight_block_size")) return found(Scheme::tensor, q.place("quant_method"));
  if (q.integers("weight_block_size") != std::vector<std::int64_t>{128, 128})
    q.refuse("weight_block_size", fmt::format("is {}; allowed [128, 128]", preview(*q.find("weight_block_size"))));
  expect_text(q, "activation_scheme", {"dynamic"});
  ExpertQuantization result = found(Scheme::block128, q.place("weight_block_size"), block_scale(q));
  result.scale_source = q.has("scale_fmt") ? q.place("scale_fmt") : "no scale_fmt: float32";
  return result;
}

// ---- quant_method modelopt ----

ExpertQuantization read_modelopt(const Document& q) {
  const auto algorithm = q.find_text("quant_algo");
  if (!algorithm) q.refuse_missing("quant_algo");
  const auto group = q.find_integer("group_size");
  if (algorithm->value == "NVFP4") {
    if (group && group->value != 16) q.refuse("group_size", fmt::format("is {}; nvfp4 has groups of 16", group->value));
    return found(Scheme::nvfp4, algorithm->source);
  }
  if (algorithm->value == "FP8") return found(Scheme::tensor, algorithm->source);
  if (algorithm->value == "MXFP8") return found(Scheme::mxfp8, algorithm->source, Dtype::float8_e8m0fnu);
  q.refuse("quant_algo", fmt::format("is '{}'; known are NVFP4, FP8 and MXFP8", algorithm->value));
}

// ---- quant_method compressed-tensors ----

struct TensorFormat {
  std::string type, strategy;
  std::int64_t bits = 0, group = 0;
  bool operator==(const TensorFormat&) const = default;
};

TensorFormat read_format(const Document& tensors) {
  TensorFormat format;
  if (const auto type = tensors.find_text("type")) format.type = type->value;
  if (const auto strategy = tensors.find_text("strategy")) format.strategy = strategy->value;
  format.bits = tensors.integer("num_bits").value;
  if (const auto group = tensors.find_integer("group_size")) format.group = group->value;
  return format;
}

ExpertQuantization read_float8(const Document& group, const Document& weights, const TensorFormat& format) {
  const std::string source = weights.place("strategy");
  const auto inputs = group.child("input_activations");
  if (!inputs) group.refuse("", "keeps activations at 16 bits beside fp8 weights; allowed fp8 activations");
  const TensorFormat rows = read_format(*inputs);
  if (format.strategy == "channel" && rows.strategy == "token") return found(Scheme::rowwise, source);
  if (format.strategy == "tensor" && rows.strategy == "tensor") return found(Scheme::tensor, source);
  if (format.strategy == "block" && rows.strategy == "group" && rows.group == 128 &&
      weights.integers("block_structure") == std::vector<std::int64_t>{128, 128})
    return found(Scheme::block128, source);
  weights.refuse("strategy", fmt::format("is '{}' with '{}' activations; known are channel with token, tensor with "
                                         "tensor, and block 128x128 with group 128",
                                         format.strategy, rows.strategy));
}

ExpertQuantization read_group(const Document& group) {
  const auto weights = group.child("weights");
  if (!weights) group.refuse_missing("weights");
  const TensorFormat format = read_format(*weights);
  const std::string source = weights->place("num_bits");
  if (format.type == "float" && format.bits == 8) return read_float8(group, *weights, format);
  if (format.type == "float" && format.bits == 4 && format.group == 16) return found(Scheme::nvfp4, source);
  if (format.type == "float" && format.bits == 4 && format.group == 32)
    return found(Scheme::mxfp4, source, Dtype::float8_e8m0fnu);
  if (format.type == "int" && format.bits == 4 && format.group == 32) return found(Scheme::int4, source);
  weights->refuse("", fmt::format("is {} bits of {} in groups of {}; known are float 8, float 4 in groups of 16 or 32, "
                                  "and int 4 in groups of 32",
                                  format.bits, format.type.empty() ? "no type" : format.type, format.group));
}

ExpertQuantization read_compressed(const Document& q) {
  const auto groups = q.child("config_groups");
  if (!groups || groups->node().empty()) q.refuse_missing("config_groups");
  std::optional<ExpertQuantization> all;
  for (const auto& [name, value] : groups->node().items()) {
    const auto group = groups->child(name);
    if (!group) groups->refuse("", fmt::format("has null for '{}'; a group is an object", name));
    const ExpertQuantization one = read_group(*group);
    if (all && all->scheme != one.scheme)
      q.refuse("config_groups", "mixes schemes; one scheme for all experts of a layer is needed");
    all = one;
  }
  return *all;
}

ExpertQuantization read_method(const Document& root, const Document& text, const Document& q) {
  const auto method = q.find_text("quant_method");
  if (!method) q.refuse_missing("quant_method");
  if (method->value == "fp8") return read_fp8(root, text, q);
  if (method->value == "mxfp4") return found(Scheme::mxfp4, method->source, Dtype::float8_e8m0fnu);
  if (method->value == "modelopt" || method->value == "modelopt_fp4") return read_modelopt(q);
  if (method->value == "compressed-tensors") return read_compressed(q);
  q.refuse("quant_method",
           fmt::format("is '{}'; known are fp8, mxfp4, modelopt and compressed-tensors", method->value));
}

}  // namespace

ExpertQuantization read_quantization(const Document& root, const Document& text, int layer) {
  auto q = root.child("quantization_config");
  if (!q) q = text.child("quantization_config");
  if (!q) return found(Scheme::none, "no quantization_config");
  ExpertQuantization result = read_method(root, text, *q);
  for (std::string_view list : {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"}) {
    const std::string pattern = excluding_pattern(*q, q->texts(list), layer);
    if (pattern.empty()) continue;
    result = found(Scheme::none, q->place(list));
    result.excluded_by = pattern;
  }
  return result;
}

}  // namespace moegen::importer
