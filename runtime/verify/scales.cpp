// SPDX-License-Identifier: Apache-2.0
#include "verify/scales.hpp"

#include <vector>

namespace moegen::verify {
namespace {

constexpr float kScale = 0.0123f;  // of ordinary values below 4: codes up to 325
constexpr float kFactor = 268.8f;  // 448 * 6 / 10, for a largest magnitude of 10

}  // namespace

GlobalScale global_scale(Target target, const Config&, const Plan& plan) {
  GlobalScale scale;
  const std::string& scheme = plan.text("scheme_kind");
  if (scheme != "tensor" && scheme != "nvfp4") return scale;
  scale.value = scheme == "tensor" ? kScale : kFactor;
  scale.device = Memory::of(target, "global_scale", std::vector<float>{scale.value});
  return scale;
}

std::int64_t own_stride(const Config& config, RowsPattern pattern, std::int64_t num_rows) {
  const bool column = config->quantization.scale_layout == ScaleLayout::column;
  if (!column || pattern == RowsPattern::ordinary) return 0;
  return (num_rows + 15) / 16 * 16 + 48;
}

}  // namespace moegen::verify
