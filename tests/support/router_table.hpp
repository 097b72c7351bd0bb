// SPDX-License-Identifier: Apache-2.0
// The case table of router: every pair of sizes, rules, dtypes and inputs, for GPUs and for the CPU target.
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
#include "verify/router_case.hpp"

namespace moegen::test {

/// Pairwise over experts, top_k, groups, scoring, normalisation, dtypes, extras, tokens, logits, biases and padding.
class RouterTable {
 public:
  static constexpr std::array<int, 19> kExperts = {1,   5,   8,   40,  48,  60,  64,  96,   128, 160,
                                                   256, 288, 384, 512, 576, 768, 896, 1025, 2048};

  explicit RouterTable(std::vector<std::int64_t> num_tokens)
      : num_tokens_(std::move(num_tokens)),
        choices_(pairwise({kExperts.size(), kTopKs.size(), kGroups.size(), kScorings.size(), 2, kDtypes.size(),
                           kDtypes.size(), kDtypes.size() + 1, kExtras.size(), num_tokens_.size(),
                           verify::all_logit_patterns().size(), verify::all_bias_patterns().size(), kPaddings.size()},
                          possible)) {}

  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const { return Config::from_json(config_text(choices_[index])); }
  verify::RouterCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    verify::RouterCase result;
    result.num_tokens = num_tokens_[choice[kT]];
    result.logits = verify::all_logit_patterns()[choice[kPattern]];
    result.bias = verify::all_bias_patterns()[choice[kBiasPattern]];
    result.padding = kPaddings[choice[kPadding]];
    result.seed = 1000 + 20 * index;
    return result;
  }

 private:
  /// 0: as many as there are experts.
  static constexpr std::array<int, 12> kTopKs = {1, 2, 3, 4, 6, 8, 10, 12, 16, 22, 32, 0};
  struct Groups {
    int count, kept;  // count 0: as many as there are experts
    std::string_view score;
  };
  static constexpr std::array<Groups, 9> kGroups = {{{1, 1, "max"},
                                                     {8, 4, "top2_sum"},
                                                     {8, 3, "max"},
                                                     {4, 4, "top2_sum"},
                                                     {5, 3, "top2_sum"},
                                                     {16, 7, "max"},
                                                     {32, 20, "top2_sum"},
                                                     {0, 2, "top2_sum"},
                                                     {0, 40, "max"}}};
  static constexpr std::array<std::string_view, 8> kScorings = {
      R"("scoring": "none")",
      R"("scoring": "softmax")",
      R"("scoring": "softmax", "order": "select_then_score")",
      R"("scoring": "sigmoid")",
      R"("scoring": "sigmoid", "order": "select_then_score")",
      R"("scoring": "sqrt_softplus")",
      R"("scoring": "none", "scores": "logit * 0.5")",
      R"json("scoring": "none", "scores": "tanh(logit * slope) + max(each, 0.25) * by_token - 0.001 * expert",
         "inputs": {"slope": {"dtype": "float32"}, "each": {"dtype": "bfloat16", "shape": "tokens_experts"},
                    "by_token": {"dtype": "float16", "shape": "tokens"}})json"};
  static constexpr std::array<std::string_view, 3> kDtypes = {"float32", "bfloat16", "float16"};
  enum Extra { kNothing, kZeroExperts, kSharedSlots, kHash, kHash64 };
  static constexpr std::array<Extra, 5> kExtras = {kNothing, kZeroExperts, kSharedSlots, kHash, kHash64};
  static constexpr std::array<int, 4> kPaddings = {0, 1, 4, 24};
  enum Column {
    kE,
    kTopK,
    kGroup,
    kScoring,
    kNormalize,
    kLogits,
    kWeights,
    kBias,
    kExtra,
    kT,
    kPattern,
    kBiasPattern,
    kPadding
  };

  static int experts_of(const Choice& choice) { return kExperts[choice[kE]]; }
  static int top_k_of(const Choice& choice) {
    return kTopKs[choice[kTopK]] == 0 ? experts_of(choice) : kTopKs[choice[kTopK]];
  }
  static int groups_of(const Choice& choice) {
    const int count = kGroups[choice[kGroup]].count;
    return count == 0 ? experts_of(choice) : count;
  }

  static bool possible(const Choice& choice) {
    const int experts = experts_of(choice), groups = groups_of(choice), kept = kGroups[choice[kGroup]].kept;
    const int slots = top_k_of(choice) + (choice[kExtra] == kSharedSlots ? 2 : 0);
    if (slots > 32 || top_k_of(choice) > experts) return false;
    if (experts % groups != 0 || kept > groups || kept * (experts / groups) < top_k_of(choice)) return false;
    return choice[kExtra] != kZeroExperts || experts + 5 <= 2048;
  }

  static std::string extra_text(const Choice& choice) {
    switch (choice[kExtra]) {
      case kSharedSlots: return R"(, "shared_slots": {"count": 2, "weight": 0.375})";
      case kHash: return R"(, "hash": {"vocab": 97, "token_id": "int32"})";
      case kHash64: return R"(, "hash": {"vocab": 13, "token_id": "int64"})";
      default: return "";
    }
  }

  static std::string config_text(const Choice& choice) {
    const Groups& groups = kGroups[choice[kGroup]];
    const std::string bias = choice[kBias] == kDtypes.size() ? "null" : fmt::format("\"{}\"", kDtypes[choice[kBias]]);
    return fmt::format(
        R"({{"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": {}, "top_k": {}, {}
            "router": {{{}, "normalize": {}, "logits": "{}", "weights": "{}", "bias": {}, "scale": 2.5,
                        "num_groups": {}, "top_groups": {}, "group_score": "{}"{}}}}})",
        experts_of(choice), top_k_of(choice), choice[kExtra] == kZeroExperts ? R"("num_zero_experts": 5,)" : "",
        kScorings[choice[kScoring]], choice[kNormalize] == 1, kDtypes[choice[kLogits]], kDtypes[choice[kWeights]], bias,
        groups_of(choice), groups.kept, groups.score, extra_text(choice));
  }

  std::vector<std::int64_t> num_tokens_;
  std::vector<Choice> choices_;
};

}  // namespace moegen::test
