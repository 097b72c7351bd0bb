// SPDX-License-Identifier: Apache-2.0
// The case tables of grouped_matmul, for GPUs and for the CPU target: every pair of options, widths and groups; and the
// shapes of Modular's tests of its grouped matmuls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <moegen/config.hpp>

#include "support/pairwise.hpp"
#include "verify/grouped_matmul_case.hpp"

namespace moegen::test {

/// A config, its kernel and a case of it.
struct MatmulTest {
  Config config;
  std::string kernel;
  verify::GroupedMatmulCase matmul_case;
};

/// How weights and rows are stored, scaled and summed: a row of the table, as pieces of JSON.
struct MatmulScheme {
  std::string_view name, activation, weight, scheme, accumulate;
  std::string_view scale = "float32", scale_layout = "row";
  bool quantised() const { return scheme != "none"; }
  bool blocks() const { return scheme == "block128"; }
  bool mx() const { return scheme == "mxfp8"; }
};

inline constexpr std::array<MatmulScheme, 16> kMatmulSchemes = {{
    {"bf16", "bfloat16", "bfloat16", "none", "float32"},
    {"bf16 fast", "bfloat16", "bfloat16", "none", "fast"},
    {"fp16", "float16", "float16", "none", "float32"},
    {"tensor", "bfloat16", "float8_e4m3fn", "tensor", "float32"},
    {"tensor fast", "float16", "float8_e4m3fn", "tensor", "fast"},
    {"rowwise", "bfloat16", "float8_e4m3fn", "rowwise", "float32"},
    {"rowwise fast", "bfloat16", "float8_e4m3fn", "rowwise", "fast"},
    {"rowwise, float16", "float16", "float8_e4m3fn", "rowwise", "float32"},
    {"rowwise, float32", "float32", "float8_e4m3fn", "rowwise", "fast"},
    {"block128", "bfloat16", "float8_e4m3fn", "block128", "float32"},
    {"block128 column", "float16", "float8_e4m3fn", "block128", "float32", "float32", "column"},
    {"block128 e8m0", "bfloat16", "float8_e4m3fn", "block128", "float32", "float8_e8m0fnu"},
    {"block128 e8m0 column", "float32", "float8_e4m3fn", "block128", "float32", "float8_e8m0fnu", "column"},
    {"block128 fast", "bfloat16", "float8_e4m3fn", "block128", "fast"},
    {"mxfp8", "bfloat16", "float8_e4m3fn", "mxfp8", "float32", "float8_e8m0fnu"},
    {"mxfp8, float32", "float32", "float8_e4m3fn", "mxfp8", "fast", "float8_e8m0fnu"},
}};

/// What a config says about the activation, and whether a gate is there.
struct MatmulActivation {
  std::string_view text;
  bool gated = true;
};

inline constexpr std::array<MatmulActivation, 12> kMatmulActivations = {{
    {R"("kind": "silu")"},
    {R"("kind": "silu", "gate_layout": "interleaved")"},
    {R"("kind": "silu", "limit": 0.75)"},
    {R"("kind": "silu", "limit_per_expert": true, "gate_layout": "interleaved")"},
    {R"("kind": "swiglu_oai", "limit": 1.5, "gate_layout": "interleaved")"},
    {R"("kind": "gelu")"},
    {R"("kind": "gelu_tanh", "gate_layout": "interleaved")"},
    {R"("kind": "situ", "beta": 4, "linear_beta": 25)"},
    {R"("kind": "identity", "gate_layout": "interleaved")"},
    {R"("kind": "relu2", "gated": false)", false},
    {R"("kind": "gelu_tanh", "gated": false)", false},
    {R"("kind": "silu", "gated": false)", false},
}};

inline constexpr std::array<std::string_view, 3> kMatmulOutputs = {"bfloat16", "float16", "float32"};

enum MatmulFusion : std::size_t { kPlainMatmul, kActivatedMatmul, kQuantisedMatmul };
inline constexpr std::array<std::string_view, 3> kMatmulFusions = {
    R"("fuse_activation": false, "fuse_quantize": false)",
    R"("fuse_activation": true, "fuse_quantize": false)",
    R"("fuse_activation": true, "fuse_quantize": true)",
};

inline constexpr std::array<std::string_view, 3> kMatmulExpressions = {
    "",
    R"("{0}_epilogue": "value * gain + per * 0.5",
       "{0}_inputs": {{"gain": {{"dtype": "bfloat16", "shape": "columns"}},
                       "per": {{"dtype": "float32", "shape": "experts_columns"}}}},)",
    R"("{0}_epilogue": "row < 5 ? value * 2 : value + r * c + expert * 0.0625 + col * 0.001",
       "{0}_inputs": {{"r": {{"dtype": "float16", "shape": "rows"}},
                       "c": {{"dtype": "float32", "shape": "rows_columns"}}}},)",
};

/// One choice of everything that a config says about a grouped matmul; indices are into the lists above.
struct MatmulOptions {
  bool up = true;
  std::size_t scheme = 0, output = 0;  ///< the output of up is its scheme's activation dtype
  int hidden = 192, intermediate = 144, experts = 9;
  std::size_t activation = 0, fusion = kPlainMatmul;
  bool gather = false, bias = false;
  std::size_t expression = 0;
  std::string_view space = "";  ///< members of tune.space: limits of the plan
  const char* kernel() const { return up ? "grouped_matmul.up" : "grouped_matmul.down"; }
};

inline Config matmul_config(const MatmulOptions& options) {
  const MatmulScheme& scheme = kMatmulSchemes[options.scheme];
  const std::string expression =
      fmt::format(fmt::runtime(kMatmulExpressions[options.expression]), options.up ? "up" : "down");
  return Config::from_json(fmt::format(
      R"({{"moegen": 1, "name": "case", "hidden": {}, "intermediate": {}, "num_experts": {}, "top_k": {},
          "router": {{"scoring": "softmax"}},
          "dtypes": {{"activation": "{}", "weight": "{}", "accumulate": "{}"}},
          "quantization": {{"scheme": "{}", "scale": "{}", "scale_layout": "{}"}},
          "activation": {{{}}},
          "experts": {{{} "bias": {}, "gather_a": {}, {}}},
          "finalize": {{"down": "{}"}}, "tune": {{"space": {{{}}}}}}})",
      options.hidden, options.intermediate, options.experts,
      options.gather ? std::min(3, options.experts) : 1,  // the order's pairs are not the tokens
      scheme.activation, scheme.weight, scheme.accumulate, scheme.scheme, scheme.scale, scheme.scale_layout,
      kMatmulActivations[options.activation].text, expression, options.bias, options.gather,
      kMatmulFusions[options.fusion], kMatmulOutputs[options.output], options.space));
}

/// What a target can take in the time of a test.
struct MatmulLimits {
  std::vector<int> hidden = {2880, 704, 192, 80, 176, 512};
  std::vector<int> intermediate = {704, 2880, 64, 176, 80, 384, 16};
  std::vector<std::int64_t> rows = {0, 1, 7, 33, 130, 700};
  std::vector<int> experts = {1, 4, 9, 200};
  std::int64_t most_products = std::int64_t{1} << 40;  ///< rows * N * K of a case
};

/// Pairwise over scheme, output, widths, activation, fusions, bias, expression, groups, rows and experts of one kernel.
class MatmulTable {
 public:
  /// Of the up projection, whose output is the activation's dtype, which the scheme names; or of the down projection,
  /// which has no activation, no fusion and no gather.
  MatmulTable(bool up, MatmulLimits limits)
      : up_(up),
        limits_(std::move(limits)),
        choices_(pairwise({kMatmulSchemes.size(), up ? 1 : kMatmulOutputs.size(), limits_.hidden.size(),
                           limits_.intermediate.size(), up ? kMatmulActivations.size() : 1,
                           up ? kMatmulFusions.size() : 1, up ? 2u : 1u, 2, kMatmulExpressions.size(),
                           verify::all_group_patterns().size(), limits_.rows.size(), limits_.experts.size()},
                          [this](const Choice& choice) { return possible(choice); })) {}

  std::size_t size() const noexcept { return choices_.size(); }
  MatmulTest at(std::size_t index) const {
    const Choice& choice = choices_[index];
    Config config = matmul_config(options_of(choice));
    auto matmul_case =
        verify::make_matmul_case(config.fields(), pattern_of(choice), limits_.rows[choice[kRows]], 1000 + 7 * index);
    return {std::move(config), up_ ? "grouped_matmul.up" : "grouped_matmul.down", std::move(matmul_case)};
  }

  enum Column {
    kScheme,
    kOutput,
    kHidden,
    kIntermediate,
    kActivation,
    kFusion,
    kGather,
    kBias,
    kExpression,
    kPattern,
    kRows,
    kExperts
  };

 private:
  MatmulOptions options_of(const Choice& choice) const {
    return {.up = up_,
            .scheme = choice[kScheme],
            .output = choice[kOutput],
            .hidden = limits_.hidden[choice[kHidden]],
            .intermediate = limits_.intermediate[choice[kIntermediate]],
            .experts = limits_.experts[choice[kExperts]],
            .activation = choice[kActivation],
            .fusion = choice[kFusion],
            .gather = choice[kGather] == 1,
            .bias = choice[kBias] == 1,
            .expression = choice[kExpression]};
  }

  static verify::GroupPattern pattern_of(const Choice& choice) {
    return verify::all_group_patterns()[choice[kPattern]];
  }

  bool possible(const Choice& choice) const {
    const MatmulScheme& scheme = kMatmulSchemes[choice[kScheme]];
    if (choice[kFusion] == kQuantisedMatmul && !quantises(choice)) return false;
    if (up_ && choice[kFusion] == kPlainMatmul && choice[kExpression] != 0) return false;  // it follows the activation
    const bool limits = kMatmulActivations[choice[kActivation]].text.find("limit_per_expert") != std::string_view::npos;
    if (limits && choice[kFusion] == kPlainMatmul) return false;
    const std::int64_t hidden = limits_.hidden[choice[kHidden]], inner = limits_.intermediate[choice[kIntermediate]];
    const std::int64_t piece = scheme.quantised() ? 16 : 8;
    if (hidden % piece != 0 || inner % piece != 0) return false;
    return limits_.rows[choice[kRows]] * 2 * hidden * inner <= limits_.most_products;
  }

  /// Whether tiles hold what a group of 128 columns needs, or one of 32, which all do; the others are refused.
  bool quantises(const Choice& choice) const {
    if (kMatmulSchemes[choice[kScheme]].mx()) return true;
    const MatmulActivation& activation = kMatmulActivations[choice[kActivation]];
    if (!kMatmulSchemes[choice[kScheme]].blocks()) return false;
    if (!activation.gated) return true;
    return activation.text.find("interleaved") == std::string_view::npos &&
           limits_.intermediate[choice[kIntermediate]] % 128 == 0;
  }

  bool up_;
  MatmulLimits limits_;
  std::vector<Choice> choices_;
};

/// A shape of Modular's tests: experts, N x K, rows of each group and their experts.
struct MatmulShape {
  std::string_view note;
  int experts = 1;
  int columns = 256, depth = 256;  ///< N, K
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> ids;
  std::int64_t products() const {
    std::int64_t rows = 0;
    for (const std::int64_t count : counts) rows += count;
    return rows * columns * depth;
  }
};

/// The test of its rowwise float8 kernel (facts of the original: rtol = atol = 1e-2, random inputs and scales).
inline std::vector<MatmulShape> rowwise_shapes() {
  return {
      {"partial tile", 1, 256, 256, {128}, {0}},
      {"partial tile", 1, 256, 256, {100}, {0}},
      {"sparse id", 4, 512, 1024, {256}, {2}},
      {"two groups", 4, 512, 1024, {20, 40}, {0, 2}},
      {"empty group", 6, 512, 1024, {20, 0, 300, 28}, {0, 3, 2, 4}},
      {"DeepSeek down", 6, 7168, 2048, {20, 1500, 300, 28}, {0, 3, 2, 4}},
      {"Llama-4-Scout gate/up", 2, 8192, 5120, {13, 51}, {0, 1}},
  };
}

/// Those of its bfloat16 grouped matmul, with the row counts of the list above where the original's are not known.
inline std::vector<MatmulShape> plain_shapes() {
  const std::vector<std::int64_t> ragged = {20, 0, 300, 28};
  const std::vector<std::int32_t> ids = {0, 3, 2, 4};
  return {
      {"square", 1, 256, 256, {128}, {0}},
      {"narrow output", 6, 16, 256, ragged, ids},
      {"wide output", 6, 1024, 256, ragged, ids},
      {"two blocks of K", 6, 512, 1024, ragged, ids},
      {"one short block of K", 6, 256, 64, ragged, ids},
      {"gpt-oss down", 6, 2880, 512, ragged, ids},
      {"gpt-oss up", 6, 5760, 512, ragged, ids},
      {"Qwen3 moe", 6, 768, 1024, ragged, ids},
      {"1280 columns", 6, 1280, 1024, ragged, ids},
      {"192 columns", 6, 192, 1024, ragged, ids},
      {"K of 16", 6, 1280, 16, ragged, ids},
      {"N of 16", 6, 16, 1024, ragged, ids},
      {"LoRA shrink", 4, 16, 576, {1, 17, 5, 64}, {0, -1, 3, 1}},
      {"LoRA expand", 4, 576, 16, {1, 17, 5, 64}, {0, -1, 3, 1}},
  };
}

/// Weights of more than 2^31 elements, where 32-bit offsets wrap.
inline std::vector<MatmulShape> vast_shapes() {
  return {
      {"Step-3.5-Flash", 288, 2560, 4096, {3, 128, 1, 40}, {0, 205, 287, 204}},
      {"Kimi-K3", 896, 768, 3584, {3, 128, 1, 40}, {0, 780, 895, 779}},
      {"more than 2^32 elements", 520, 4096, 2048, {5, 1, 64}, {511, 512, 519}},
  };
}

/// Those of its block-scaled float8 kernels.
inline std::vector<MatmulShape> block_shapes() {
  const std::vector<std::int64_t> ragged = {20, 0, 300, 28};
  const std::vector<std::int32_t> ids = {0, 3, 2, 4};
  return {
      {"square", 1, 256, 256, {128}, {0}},
      {"two groups", 4, 512, 1024, {20, 40}, {0, 2}},
      {"empty group", 6, 512, 1024, ragged, ids},
      {"DeepSeek up", 6, 4096, 7168, ragged, ids},
      {"DeepSeek down", 6, 7168, 2048, {20, 1500, 300, 28}, ids},
      {"1280 columns", 6, 1280, 1024, ragged, ids},
      {"Qwen3-VL-30B-A3B", 4, 1536, 2048, {707, 709}, {1, 3}},
      {"rows around powers of two", 8, 2048, 1024, {0, 1, 2, 3, 127, 257, 513, 1025}, {7, 6, -1, 4, 3, 2, 1, 0}},
      {"gpt-oss", 8, 2880, 2880, {1, 127, 0, 257}, {0, 1, 2, 7}},
      {"a repeated id", 4, 2048, 1024, {17, 30, 81}, {0, 1, 1}},
      {"Kimi K2.5 in 8 ranks", 49, 4096, 7168, {4, 1, 9, 85}, {0, 20, 47, 48}},
  };
}

/// `shape` as a down projection: K = intermediate, N = hidden.
inline MatmulTest shape_test(const MatmulShape& shape, const MatmulScheme& scheme, std::string_view output) {
  const std::string text = fmt::format(
      R"({{"moegen": 1, "name": "shape", "hidden": {}, "intermediate": {}, "num_experts": {}, "top_k": 1,
          "router": {{"scoring": "softmax"}},
          "dtypes": {{"activation": "{}", "weight": "{}", "accumulate": "{}"}},
          "quantization": {{"scheme": "{}", "scale": "{}", "scale_layout": "{}"}}, "finalize": {{"down": "{}"}}}})",
      shape.columns, shape.depth, shape.experts, scheme.activation, scheme.weight, scheme.accumulate, scheme.scheme,
      scheme.scale, scheme.scale_layout, output);
  verify::GroupedMatmulCase matmul_case;
  matmul_case.label = shape.note;
  matmul_case.counts = shape.counts;
  matmul_case.ids = shape.ids;
  matmul_case.seed = 31;
  return {Config::from_json(text), "grouped_matmul.down", std::move(matmul_case)};
}

}  // namespace moegen::test
