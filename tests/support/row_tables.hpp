// SPDX-License-Identifier: Apache-2.0
// The case tables of permute, activation and quantize: every pair of shapes, dtypes, schemes, options and inputs, for
// GPUs and for the CPU target.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <moegen/config.hpp>

#include "support/pairwise.hpp"
#include "verify/activation_case.hpp"
#include "verify/permute_case.hpp"
#include "verify/quantize_case.hpp"

namespace moegen::test {

/// How rows are stored: the fields of a config for it, and what a width is a multiple of.
struct RowScheme {
  std::string_view name, weight, quantization;
  int step;
};

/// The first keeps rows as they are; its weight is the activation's dtype.
inline constexpr std::array<RowScheme, 11> kRowSchemes = {{
    {"none", "", R"("scheme": "none")", 8},
    {"tensor", "float8_e4m3fn", R"("scheme": "tensor")", 16},
    {"rowwise", "float8_e4m3fn", R"("scheme": "rowwise")", 16},
    {"block128", "float8_e4m3fn", R"("scheme": "block128")", 16},
    {"block128 column", "float8_e4m3fn", R"("scheme": "block128", "scale_layout": "column")", 16},
    {"block128 e8m0", "float8_e4m3fn", R"("scheme": "block128", "scale": "float8_e8m0fnu")", 16},
    {"block128 e8m0 column", "float8_e4m3fn",
     R"("scheme": "block128", "scale": "float8_e8m0fnu", "scale_layout": "column")", 16},
    {"mxfp8", "float8_e4m3fn", R"("scheme": "mxfp8")", 16},
    {"mxfp4", "float4_e2m1fn", R"("scheme": "mxfp4")", 32},
    {"nvfp4", "float4_e2m1fn", R"("scheme": "nvfp4")", 32},
    {"rowwise, tiny floor", "float8_e4m3fn", R"("scheme": "rowwise", "floor": 1e-30)", 16},
}};

inline constexpr std::array<std::string_view, 3> kRowDtypes = {"bfloat16", "float16", "float32"};

/// What a target can take in the time of a test.
struct RowLimits {
  /// Widths around what changes the shape of a block: narrow rows, several slices, rows of one and of many warps, the
  /// widths of shipped layers; multiples of 8, 16, 32, 128.
  std::vector<int> widths = {8, 16, 32, 96, 704, 1056, 1408, 2048, 2688, 2880, 3072, 5120, 7168, 16384, 36864};
  std::vector<std::int64_t> rows = {0, 1, 2, 31, 257, 4097};
  std::int64_t most_elements = std::int64_t{40} << 20;
};

namespace row_tables {

inline std::string dtypes(const RowScheme& scheme, std::string_view activation) {
  return fmt::format(R"("dtypes": {{"activation": "{}", "weight": "{}"}}, "quantization": {{{}}})", activation,
                     scheme.weight.empty() ? activation : scheme.weight, scheme.quantization);
}

/// A config's text: both widths, its dtypes and scheme, and further sections.
inline Config config(int width, const RowScheme& scheme, std::string_view activation, std::string_view top,
                     std::string_view sections) {
  return Config::from_json(
      fmt::format(R"({{"moegen": 1, "name": "case", "hidden": {}, "intermediate": {}, {}, {} {}}})", width, width, top,
                  dtypes(scheme, activation), sections));
}

inline bool fits(int width, const RowScheme& scheme, std::size_t dtype) {
  if (scheme.weight.empty() && kRowDtypes[dtype] == "float32") return false;  // matmuls take 16 bits
  return width % scheme.step == 0;
}

}  // namespace row_tables

/// Pairwise over widths, rows, dtypes, schemes and patterns.
class QuantizeTable {
 public:
  explicit QuantizeTable(RowLimits limits)
      : limits_(std::move(limits)),
        choices_(pairwise({limits_.widths.size(), limits_.rows.size(), kRowDtypes.size(), kRowSchemes.size() - 1,
                           verify::kRowsPatterns.size()},
                          [this](const Choice& choice) { return possible(choice); })) {}

  enum Column { kWidth, kRows, kDtype, kScheme, kPattern };
  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const {
    const Choice& choice = choices_[index];
    return row_tables::config(limits_.widths[choice[kWidth]], scheme(choice), kRowDtypes[choice[kDtype]],
                              R"("num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"})", "");
  }
  verify::QuantizeCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    return {limits_.rows[choice[kRows]], verify::kRowsPatterns[choice[kPattern]], 2000 + 50 * index};
  }

 private:
  static const RowScheme& scheme(const Choice& choice) { return kRowSchemes[choice[kScheme] + 1]; }
  bool possible(const Choice& choice) const {
    const int width = limits_.widths[choice[kWidth]];
    return row_tables::fits(width, scheme(choice), choice[kDtype]) &&
           width * limits_.rows[choice[kRows]] <= limits_.most_elements;
  }

  RowLimits limits_;
  std::vector<Choice> choices_;
};

/// Pairwise over widths, rows, dtypes, schemes, patterns, activations and epilogues.
class ActivationTable {
 public:
  explicit ActivationTable(RowLimits limits)
      : limits_(std::move(limits)),
        choices_(pairwise({limits_.widths.size(), limits_.rows.size(), kRowDtypes.size(), kRowSchemes.size(),
                           verify::kRowsPatterns.size(), kActivations.size(), kEpilogues.size()},
                          [this](const Choice& choice) { return possible(choice); })) {}

  static constexpr std::array<std::string_view, 17> kActivations = {
      R"("kind": "silu")",
      R"("kind": "silu", "gate_layout": "interleaved")",
      R"("kind": "silu", "gated": false)",
      R"("kind": "silu", "limit": 7)",
      R"("kind": "silu", "limit": 0.5, "gate_layout": "interleaved")",
      R"("kind": "silu", "limit_per_expert": true)",
      R"("kind": "swiglu_oai")",
      R"("kind": "swiglu_oai", "gate_layout": "interleaved", "alpha": 1.5)",
      R"("kind": "swiglu_oai", "limit_per_expert": true)",
      R"("kind": "gelu")",
      R"("kind": "gelu", "gated": false)",
      R"("kind": "gelu_tanh", "gate_layout": "interleaved")",
      R"("kind": "gelu_tanh", "gated": false)",
      R"("kind": "relu2")",
      R"("kind": "situ", "beta": 4.0, "linear_beta": 25.0)",
      R"("kind": "identity")",
      R"("kind": "identity", "gated": false)",
  };
  static constexpr std::array<std::string_view, 3> kEpilogues = {
      "",
      R"(, "up_epilogue": "value * gain + silu(shift) * 0.5",
         "up_inputs": {"gain": {"dtype": "bfloat16", "shape": "columns"}, "shift": {"dtype": "float32", "shape": "rows"}})",
      R"(, "up_epilogue": "(expert < 8 ? value * own : value) + other + cell * 0.25 + col * 0.001",
         "up_inputs": {"own": {"dtype": "float32", "shape": "experts"},
                       "other": {"dtype": "float16", "shape": "experts_columns"},
                       "cell": {"dtype": "bfloat16", "shape": "rows_columns"}})"};

  enum Column { kWidth, kRows, kDtype, kScheme, kPattern, kActivation, kEpilogue };
  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const { return config_of(choices_[index]); }
  verify::ActivationCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    return {limits_.rows[choice[kRows]], verify::kRowsPatterns[choice[kPattern]], 3000 + 50 * index};
  }

  /// An activation with a scheme, on rows of a width.
  static Config one(int width, const RowScheme& scheme, std::string_view dtype, std::string_view activation,
                    std::string_view epilogue = "") {
    return row_tables::config(
        width, scheme, dtype,
        R"("num_experts": 12, "top_k": 2, "router": {"scoring": "softmax"},
                                 "indices": {"first_expert": 3, "num_local_experts": 9})",
        fmt::format(R"(, "activation": {{{}}}, "experts": {{"bias": false{}}})", activation, epilogue));
  }

 private:
  Config config_of(const Choice& choice) const {
    return one(limits_.widths[choice[kWidth]], kRowSchemes[choice[kScheme]], kRowDtypes[choice[kDtype]],
               kActivations[choice[kActivation]], kEpilogues[choice[kEpilogue]]);
  }
  // References of epilogues are slow.
  bool possible(const Choice& choice) const {
    const int width = limits_.widths[choice[kWidth]];
    const std::int64_t elements = width * limits_.rows[choice[kRows]];
    return row_tables::fits(width, kRowSchemes[choice[kScheme]], choice[kDtype]) &&
           elements <= limits_.most_elements / (choice[kEpilogue] == 0 ? 4 : 32);
  }

  RowLimits limits_;
  std::vector<Choice> choices_;
};

/// Pairwise over widths, tokens, dtypes, schemes, patterns of rows and ids, top_k, and options.
class PermuteTable {
 public:
  explicit PermuteTable(RowLimits limits)
      : limits_(std::move(limits)),
        choices_(pairwise({limits_.widths.size(), limits_.rows.size(), kRowDtypes.size(), kRowSchemes.size(), 2,
                           verify::all_id_patterns().size(), kTopKs.size(), kIndices.size(), kWeights.size(), 2},
                          [this](const Choice& choice) { return possible(choice); })) {}

  static constexpr std::array<int, 5> kTopKs = {1, 2, 5, 8, 22};
  static constexpr std::array<std::string_view, 6> kIndices = {
      R"("ids": "int32")",
      R"("pad_rows_to": 4, "experts": "all", "num_local_experts": 20)",
      R"("pad_rows_to": 16, "ids": "int64")",
      R"("pad_rows_to": 64, "first_expert": 5, "num_local_experts": 4)",
      R"("pad_rows_to": 128, "num_local_experts": 3)",
      R"("first_expert": 7, "num_local_experts": 3, "experts": "all")"};
  static constexpr std::array<std::string_view, 4> kWeights = {"", "float32", "bfloat16", "float16"};

  enum Column { kWidth, kTokens, kDtype, kScheme, kPattern, kIds, kTopK, kOption, kWeight, kShared };
  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const { return config_of(choices_[index]); }
  verify::PermuteCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    return {limits_.rows[choice[kTokens]], verify::all_id_patterns()[choice[kIds]],
            choice[kPattern] == 0 ? verify::RowsPattern::ordinary : verify::RowsPattern::hostile, 4000 + 50 * index};
  }

  static Config one(int width, const RowScheme& scheme, std::string_view dtype, int top_k, std::string_view indices,
                    std::string_view weight, bool shared = false) {
    const bool on_input = !weight.empty();
    return row_tables::config(
        width, scheme, dtype,
        fmt::format(R"("num_experts": 24, "top_k": {}, "router": {{"scoring": "softmax", "weights": "{}"{}}})", top_k,
                    on_input ? weight : "float32", shared ? R"(, "shared_slots": {"count": 2})" : ""),
        fmt::format(R"(, "indices": {{{}}}, "experts": {{"weights_on_input": {}}})", indices, on_input));
  }

 private:
  Config config_of(const Choice& choice) const {
    return one(limits_.widths[choice[kWidth]], kRowSchemes[choice[kScheme]], kRowDtypes[choice[kDtype]],
               kTopKs[choice[kTopK]], kIndices[choice[kOption]], kWeights[choice[kWeight]], choice[kShared] == 1);
  }
  bool possible(const Choice& choice) const {
    const int width = limits_.widths[choice[kWidth]];
    const std::int64_t rows = limits_.rows[choice[kTokens]] * (kTopKs[choice[kTopK]] + 2) + 26 * 127;
    return row_tables::fits(width, kRowSchemes[choice[kScheme]], choice[kDtype]) &&
           width * rows <= limits_.most_elements;
  }

  RowLimits limits_;
  std::vector<Choice> choices_;
};

}  // namespace moegen::test
