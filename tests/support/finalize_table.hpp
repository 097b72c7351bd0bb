// SPDX-License-Identifier: Apache-2.0
// The case table of finalize: every pair of shapes, top_k, dtypes, options and inputs, for GPUs and for the CPU target.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <moegen/config.hpp>

#include "support/pairwise.hpp"
#include "verify/finalize_case.hpp"

namespace moegen::test {

/// What a target can take in the time of a test.
struct FinalizeLimits {
  /// The row widths of the 17 shapes that configs/models ships.
  std::vector<int> widths = {7168, 5120, 7168, 7168, 3584, 1024, 2688, 2048, 4096,
                             2880, 2816, 5120, 7168, 4096, 6144, 2048, 4096};
  std::vector<std::int64_t> num_tokens = {0, 1, 7, 128, 4096, 16384};
  std::int64_t most_host_bytes = std::int64_t{208} << 20;  ///< of rows, so that the table runs in a few minutes
  std::int64_t most_epilogue_tokens = 128;                 ///< its reference is slow
  bool sparse = true;                                      ///< rows five gigabytes apart
};

/// Pairwise over widths, top_k, tokens, dtypes, options, row patterns and zero experts.
class FinalizeTable {
 public:
  explicit FinalizeTable(FinalizeLimits limits)
      : limits_(std::move(limits)),
        choices_(pairwise({limits_.widths.size(), kTopKs, limits_.num_tokens.size(), kDtypes.size(), kDtypes.size(),
                           kDtypes.size(), 2, kOptions.size(), verify::all_row_patterns().size(), 2},
                          [this](const Choice& choice) { return possible(choice); })) {}

  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const {
    return Config::from_json(config_text(limits_.widths[choices_[index][kShape]], choices_[index]));
  }
  verify::FinalizeCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    return {limits_.num_tokens[choice[kT]], pattern_of(choice), 1000 + 50 * index};
  }

  static constexpr std::size_t kNumDtypeTriples = 27;
  /// The config of a triple of down, weight and output dtypes; one shape, no option.
  static Config dtype_triple(std::size_t index) {
    return Config::from_json(config_text(2880, {0, 3, 3, index % 3, index / 3 % 3, index / 9, 0, 0, 0, 0}));
  }
  /// With a residual; down and output in bfloat16 and float32.
  static Config with_residual() { return Config::from_json(config_text(2880, {0, 3, 3, 0, 2, 0, 0, 1, 0, 0})); }

  static constexpr std::array<std::string_view, 3> kDtypes = {"bfloat16", "float16", "float32"};
  static constexpr std::size_t kTopKs = 32;
  static constexpr std::array<std::string_view, 8> kOptions = {
      R"("residual": false)",
      R"("residual": true)",
      R"("shared": true)",
      R"("shared": true, "residual": true)",
      R"("weights_applied": true)",
      R"("bias": true)",
      R"("bias": true, "residual": true, "shared": true)",
      R"("epilogue": "clamp(value * scale + silu(bias) * 0.5, -20, 20) + tokenwise * 0.125",
         "inputs": {"scale": {"dtype": "float32", "shape": "scalar"}, "bias": {"dtype": "bfloat16", "shape": "columns"},
                    "tokenwise": {"dtype": "float16", "shape": "tokens"}})"};
  enum Column { kShape, kTopK, kT, kDown, kWeight, kOutput, kActivation, kOption, kPattern, kZero };

 private:
  static std::string config_text(int width, const Choice& choice) {
    const std::string zero = choice[kZero] == 1 ? R"("num_zero_experts": 7,)" : "";
    return fmt::format(
        R"({{"moegen": 1, "name": "case", "hidden": {}, "intermediate": 1024, "num_experts": 64, "top_k": {}, {}
            "router": {{"scoring": "softmax", "weights": "{}"}}, "dtypes": {{"activation": "{}", "weight": "{}"}},
            "shared_experts": {{"count": 1, "intermediate": 512, "gate": "{}"}},
            "finalize": {{"down": "{}", "output": "{}", {}}}}})",
        width, choice[kTopK] + 1, zero, kDtypes[choice[kWeight]], kDtypes[choice[kActivation]],
        kDtypes[choice[kActivation]], choice[kTopK] % 2 ? "sigmoid" : "none", kDtypes[choice[kDown]],
        kDtypes[choice[kOutput]], kOptions[choice[kOption]]);
  }

  static verify::RowPattern pattern_of(const Choice& choice) { return verify::all_row_patterns()[choice[kPattern]]; }

  bool possible(const Choice& choice) const {
    const std::int64_t tokens = limits_.num_tokens[choice[kT]];
    const bool sparse = pattern_of(choice) == verify::RowPattern::sparse;
    if (sparse && (!limits_.sparse || tokens == 0 || tokens > 128)) return false;
    if (choice[kOption] == kOptions.size() - 1 && tokens > limits_.most_epilogue_tokens) return false;
    const std::int64_t width = limits_.widths[choice[kShape]], element = kDtypes[choice[kDown]] == "float32" ? 4 : 2;
    return tokens * (static_cast<std::int64_t>(choice[kTopK]) + 5) * width * element <= limits_.most_host_bytes;
  }

  FinalizeLimits limits_;
  std::vector<Choice> choices_;
};

}  // namespace moegen::test
