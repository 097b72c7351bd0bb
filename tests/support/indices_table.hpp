// SPDX-License-Identifier: Apache-2.0
// The case table of create_indices: every pair of options and inputs, for GPUs and for the CPU target alike.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <moegen/config.hpp>

#include "support/pairwise.hpp"
#include "verify/indices_case.hpp"

namespace moegen::test {

/// Pairwise over experts, pairs, id pattern, padding, id dtype, mode, scales and extras.
class IndicesTable {
 public:
  /// `pairs`: the values of the column P. A GPU takes all of kPairs; the CPU target fewer, for time.
  static constexpr std::array<std::int64_t, 8> kPairs = {0, 1, 11, 197, 2500, 20660, 100000, 524288};
  static constexpr std::array<int, 11> kExperts = {1, 5, 8, 60, 128, 256, 512, 513, 896, 1025, 2048};

  explicit IndicesTable(std::vector<std::int64_t> pairs)
      : pairs_(std::move(pairs)),
        choices_(pairwise({kExperts.size(), pairs_.size(), verify::all_id_patterns().size(), kPads.size(), kIds.size(),
                           kModes.size(), 2, kNumExtras},
                          possible)) {}

  std::size_t size() const noexcept { return choices_.size(); }
  Config config(std::size_t index) const { return Config::from_json(config_text(choices_[index])); }
  verify::IndicesCase at(std::size_t index) const {
    const Choice& choice = choices_[index];
    return {pairs_[choice[kP]], verify::all_id_patterns()[choice[kPattern]], 1000 + index};
  }

 private:
  static constexpr std::array<int, 5> kPads = {1, 4, 16, 64, 128};
  static constexpr std::array<std::string_view, 5> kIds = {"int32", "uint32", "uint8", "uint16", "int64"};
  static constexpr std::array<std::string_view, 2> kModes = {"active", "all"};
  // Local range and what follows the routed experts.
  enum Extra { kNothing, kFirstHalf, kMiddle, kZeroExperts, kSharedSlots, kNumExtras };
  enum Column { kE, kP, kPattern, kPad, kId, kMode, kScales, kExtra };

  static int id_limit(std::string_view ids) { return ids == "uint8" ? 256 : ids == "uint16" ? 65536 : 1 << 30; }

  static bool possible(const Choice& choice) {
    const int experts = kExperts[choice[kE]], extra = static_cast<int>(choice[kExtra]);
    const int space = experts + (extra == kZeroExperts ? 3 : extra == kSharedSlots ? 2 : 0);
    return space <= id_limit(kIds[choice[kId]]) && (experts >= 3 || extra != kMiddle) && space <= 2048;
  }

  static std::string config_text(const Choice& choice) {
    const int experts = kExperts[choice[kE]], extra = static_cast<int>(choice[kExtra]);
    std::string indices =
        fmt::format(R"("ids": "{}", "experts": "{}", "pad_rows_to": {}, "scales_offset": {})", kIds[choice[kId]],
                    kModes[choice[kMode]], kPads[choice[kPad]], choice[kScales] == 1);
    if (extra == kFirstHalf) indices += fmt::format(R"(, "num_local_experts": {})", (experts + 1) / 2);
    if (extra == kMiddle)
      indices += fmt::format(R"(, "first_expert": {}, "num_local_experts": {})", experts / 3, experts / 3);
    const std::string zero = extra == kZeroExperts ? R"("num_zero_experts": 3,)" : "";
    const std::string shared = extra == kSharedSlots ? R"(, "shared_slots": {"count": 2, "weight": 1.0})" : "";
    return fmt::format(
        R"({{"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": {}, "top_k": 1, {}
                           "router": {{"scoring": "softmax"{}}}, "indices": {{{}}}}})",
        experts, zero, shared, indices);
  }

  std::vector<std::int64_t> pairs_;
  std::vector<Choice> choices_;
};

}  // namespace moegen::test
