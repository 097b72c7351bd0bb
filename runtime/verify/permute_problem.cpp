// SPDX-License-Identifier: Apache-2.0
#include "verify/permute_problem.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "reference/number.hpp"
#include "verify/row_values.hpp"

namespace moegen::verify {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Random weights, NaN where a pair has no row.
Tensor make_weights(Dtype dtype, const std::vector<std::uint32_t>& restore, std::uint64_t seed) {
  Tensor weights = random_tensor(dtype, static_cast<std::int64_t>(restore.size()), seed);
  for (std::size_t pair = 0; pair < restore.size(); ++pair)
    if (restore[pair] == kNone) reference::store(dtype, weights.host.data(), pair, std::nan(""));
  return weights;
}

}  // namespace

PermuteProblem::PermuteProblem(const Kernel& kernel, const Config& config, reference::Indices indices,
                               const PermuteOptions& options)
    : config_(config),
      indices_(std::move(indices)),
      num_tokens_(static_cast<std::int64_t>(indices_.restore_token_order.size()) / config->num_slots()),
      stride_(own_stride(config, options.pattern, num_rows())),
      x_(row_values(config->dtypes.activation, num_tokens_, config->expert_hidden,
                    options.pattern != RowsPattern::ordinary, options.seed, std::numeric_limits<double>::max())),
      weights_(make_weights(config->router.weights, indices_.restore_token_order, options.seed + 1)),
      global_(verify::global_scale(kernel.target(), config, kernel.plan())),
      restore_(Memory::of(kernel.target(), "restore", indices_.restore_token_order)),
      order_(Memory::of(kernel.target(), "order", indices_.token_expert_order)),
      starts_(Memory::of(kernel.target(), "expert_start_indices", indices_.expert_start_indices)),
      output_(kernel.target(), config, row_codes(config, kernel.plan(), global_.value), num_rows(), stride_) {
  if (options.x) x_.host = *options.x;
  if (options.weights) weights_.host = *options.weights;
  x_.upload(kernel.target(), "x");
  weights_.upload(kernel.target(), "weights");
  args_.rows = output_.rows();
  args_.scales = output_.scales();
  args_.x = x_.device.data();
  args_.restore = restore_.data<std::uint32_t>();
  args_.weights = weights_.device.data();
  args_.order = order_.data<std::uint32_t>();
  args_.expert_start_indices = starts_.data<std::uint32_t>();
  args_.global_scale = global_.device.data<float>();
  args_.num_tokens = num_tokens_;
  args_.num_rows = num_rows();
  args_.scales_stride = stride_;
}

bool PermuteProblem::truth_of(std::int64_t row, reference::RowTruth& truth) const {
  if (row >= std::int64_t{indices_.expert_start_indices.back()}) return false;
  const auto width = static_cast<std::size_t>(config_->expert_hidden);
  truth.value.assign(width, 0.0);
  truth.error.assign(width, 0.0);
  const std::uint32_t pair = indices_.token_expert_order[static_cast<std::size_t>(row)];
  if (pair == kNone) return true;
  const std::size_t token = pair / static_cast<std::size_t>(config_->num_slots());
  const bool weighted = config_->experts.weights_on_input;
  const auto weight = weighted ? static_cast<float>(reference::load(weights_.dtype, weights_.host.data(), pair)) : 1.0f;
  for (std::size_t i = 0; i < width; ++i) {
    const auto value = static_cast<float>(reference::load(x_.dtype, x_.host.data(), token * width + i));
    truth.value[i] = double{weighted ? value * weight : value};
  }
  return true;
}

std::optional<std::string> PermuteProblem::compare() const {
  return output_.compare([this](std::int64_t row, reference::RowTruth& truth) { return truth_of(row, truth); });
}

}  // namespace moegen::verify
