// SPDX-License-Identifier: Apache-2.0
#include "verify/activation_problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "reference/expert_rows.hpp"
#include "reference/number.hpp"

namespace moegen::verify {
namespace {

Tensor make_limits(const ConfigFields& fields, std::uint64_t seed) {
  Tensor limits = random_tensor(Dtype::float32, num_groups(fields), seed);
  for (std::size_t i = 0; i < limits.host.size() / 4; ++i)
    reference::store(Dtype::float32, limits.host.data(), i,
                     std::abs(reference::load(Dtype::float32, limits.host.data(), i)));
  return limits;
}

}  // namespace

int RowGroups::expert_of(std::int64_t row) const {
  const auto after = std::upper_bound(starts.begin(), starts.end(), static_cast<std::uint32_t>(row));
  return experts[static_cast<std::size_t>(after - starts.begin() - 1)];
}

ActivationProblem::ActivationProblem(const Kernel& kernel, const Config& config, RowGroups groups, Tensor up,
                                     std::int64_t num_rows, const ActivationOptions& options)
    : config_(config),
      groups_(std::move(groups)),
      up_(std::move(up)),
      global_(verify::global_scale(kernel.target(), config, kernel.plan())),
      output_(kernel.target(), config, row_codes(config, kernel.plan(), global_.value), num_rows,
              options.scales_stride) {
  upload(kernel.target(), num_rows, options.seed);
  args_.rows = output_.rows();
  args_.scales = output_.scales();
  args_.up = up_.device.data();
  if (options.count_rows) args_.row_count = starts_.data<std::uint32_t>() + groups_.experts.size();
  args_.expert_start_indices = starts_.data<std::uint32_t>();
  args_.expert_ids = experts_.data<std::int32_t>();
  args_.limits = limits_.device.data<float>();
  args_.global_scale = global_.device.data<float>();
  for (std::size_t i = 0; i < named_.size(); ++i) args_.inputs[i] = named_[i].device.data();
  args_.num_rows = num_rows;
  args_.num_groups = static_cast<std::int64_t>(groups_.experts.size());
  args_.scales_stride = options.scales_stride;
}

void ActivationProblem::upload(Target target, std::int64_t num_rows, std::uint64_t seed) {
  up_.upload(target, "up");
  starts_ = Memory::of(target, "expert_start_indices", groups_.starts);
  experts_ = Memory::of(target, "expert_ids", groups_.experts);
  if (config_->activation.limit_per_expert) {
    limits_ = make_limits(config_.fields(), seed);
    limits_.upload(target, "limits");
  }
  if (!config_->experts.up_epilogue) return;
  for (const ExpressionInput& input : config_->experts.up_epilogue->inputs) {
    named_.push_back(random_tensor(
        input.dtype,
        reference::expert_input_count(input.shape, num_rows, config_->intermediate, num_groups(config_.fields())),
        seed + 1 + named_.size()));
    named_.back().upload(target, fmt::format("inputs[{}]", named_.size() - 1));
  }
}

reference::ActivationInputs ActivationProblem::inputs() const {
  reference::ActivationInputs in;
  in.up = up_.host.data();
  in.limits = reinterpret_cast<const float*>(limits_.host.data());
  for (const Tensor& tensor : named_) in.inputs.push_back(tensor.host.data());
  return in;
}

std::optional<std::string> ActivationProblem::compare() const {
  const reference::ActivationInputs in = inputs();
  return output_.compare([&](std::int64_t row, reference::RowTruth& truth) {
    if (row >= groups_.rows()) return false;
    reference::activation_row(config_.fields(), in, row, groups_.expert_of(row), truth);
    return true;
  });
}

}  // namespace moegen::verify
