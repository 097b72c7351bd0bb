// SPDX-License-Identifier: Apache-2.0
#include "verify/scale.hpp"

#include <cstdint>
#include <string_view>

#include <fmt/core.h>

namespace moegen::verify {
namespace {

constexpr std::int64_t kBlock = 128, kLeastBlocks = 3;

std::int64_t narrow(std::int64_t width) {
  const std::int64_t least = kLeastBlocks * kBlock + width % kBlock;
  return width < least ? width : least;
}

}  // namespace

Scaled scaled_for_cpu(const Config& config) {
  ConfigFields fields = config.fields();
  std::vector<std::string> changes;
  const auto cut = [&](std::string_view name, std::int64_t& width) {
    const std::int64_t narrower = narrow(width);
    if (narrower == width) return;
    changes.push_back(fmt::format("{} {} -> {}", name, width, narrower));
    width = narrower;
  };
  cut("hidden", fields.hidden);
  cut("expert_hidden", fields.expert_hidden);
  cut("intermediate", fields.intermediate);
  cut("shared_experts.intermediate", fields.shared_experts.intermediate);
  if (changes.empty()) return {config, {}};
  return {Config::from_fields(fields, config.origin()), std::move(changes)};
}

}  // namespace moegen::verify
