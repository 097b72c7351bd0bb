// SPDX-License-Identifier: Apache-2.0
#include "verify/activation_case.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <moegen/args/activation.h>
#include <moegen/shapes.hpp>

#include "reference/activation_row.hpp"
#include "reference/expert_rows.hpp"
#include "reference/number.hpp"
#include "verify/memory.hpp"
#include "verify/random.hpp"
#include "verify/row_output.hpp"
#include "verify/row_values.hpp"
#include "verify/scales.hpp"

namespace moegen::verify {
namespace {

// Products of two such numbers, and squares, stay finite in float32.
constexpr double kMost = 1e15;

// Which expert each row belongs to.
struct Groups {
  std::vector<std::uint32_t> starts;  // [groups + 1]
  std::vector<std::int32_t> experts;  // [groups]
  std::int64_t rows() const { return starts.back(); }
  int expert_of(std::int64_t row) const {
    const auto after = std::upper_bound(starts.begin(), starts.end(), static_cast<std::uint32_t>(row));
    return experts[static_cast<std::size_t>(after - starts.begin() - 1)];
  }
};

// `rows` rows over all groups of the config: some empty, one without an expert.
Groups make_groups(const ConfigFields& fields, std::int64_t rows, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(num_groups(fields));
  Groups groups;
  groups.starts.push_back(0);
  for (std::size_t group = 0; group < count; ++group) {
    const std::uint64_t left = static_cast<std::uint64_t>(rows) - groups.starts.back();
    const std::uint64_t share = group % 3 == 1 ? 0 : random_below(seed, group, left / 2 + 2);
    const std::uint64_t own = group + 1 == count ? left : std::min(share, left);
    groups.starts.push_back(groups.starts.back() + static_cast<std::uint32_t>(own));
    groups.experts.push_back(group % 7 == 4 ? -1 : static_cast<std::int32_t>(random_below(seed + 1, group, count)));
  }
  return groups;
}

Tensor make_limits(const ConfigFields& fields, std::uint64_t seed) {
  Tensor limits = random_tensor(Dtype::float32, num_groups(fields), seed);
  for (std::size_t i = 0; i < limits.host.size() / 4; ++i)
    reference::store(Dtype::float32, limits.host.data(), i,
                     std::abs(reference::load(Dtype::float32, limits.host.data(), i)));
  return limits;
}

// The tensors of one case.
class Problem {
 public:
  Problem(const Kernel& kernel, const Config& config, const ActivationCase& c)
      : config_(config),
        groups_(
            make_groups(config.fields(), c.pattern == RowsPattern::bounded ? c.num_rows * 3 / 5 : c.num_rows, c.seed)),
        stride_(own_stride(config, c.pattern, c.num_rows)),
        up_(row_values(config->dtypes.activation, c.num_rows, config->intermediate * (config->activation.gated ? 2 : 1),
                       c.pattern != RowsPattern::ordinary, c.seed, kMost)),
        global_(global_scale(kernel.target(), config, kernel.plan())),
        output_(kernel.target(), config, row_codes(config, kernel.plan(), global_.value), c.num_rows, stride_) {
    upload(kernel.target(), c);
    args_.rows = output_.rows();
    args_.scales = output_.scales();
    args_.up = up_.device.data();
    if (c.pattern != RowsPattern::ordinary) args_.row_count = starts_.data<std::uint32_t>() + groups_.experts.size();
    args_.expert_start_indices = starts_.data<std::uint32_t>();
    args_.expert_ids = experts_.data<std::int32_t>();
    args_.limits = limits_.device.data<float>();
    args_.global_scale = global_.device.data<float>();
    for (std::size_t i = 0; i < named_.size(); ++i) args_.inputs[i] = named_[i].device.data();
    args_.num_rows = c.num_rows;
    args_.num_groups = static_cast<std::int64_t>(groups_.experts.size());
    args_.scales_stride = stride_;
  }

  const activation::Args& args() const noexcept { return args_; }

  std::optional<std::string> compare() const {
    reference::ActivationInputs in;
    in.up = up_.host.data();
    in.limits = reinterpret_cast<const float*>(limits_.host.data());
    for (const Tensor& tensor : named_) in.inputs.push_back(tensor.host.data());
    return output_.compare([&](std::int64_t row, reference::RowTruth& truth) {
      if (row >= groups_.rows()) return false;
      reference::activation_row(config_.fields(), in, row, groups_.expert_of(row), truth);
      return true;
    });
  }

 private:
  void upload(Target target, const ActivationCase& c) {
    up_.upload(target, "up");
    starts_ = Memory::of(target, "expert_start_indices", groups_.starts);
    experts_ = Memory::of(target, "expert_ids", groups_.experts);
    if (config_->activation.limit_per_expert) {
      limits_ = make_limits(config_.fields(), c.seed + 3);
      limits_.upload(target, "limits");
    }
    if (!config_->experts.up_epilogue) return;
    for (const ExpressionInput& input : config_->experts.up_epilogue->inputs) {
      named_.push_back(random_tensor(
          input.dtype,
          reference::expert_input_count(input.shape, c.num_rows, config_->intermediate, num_groups(config_.fields())),
          c.seed + 4 + named_.size()));
      named_.back().upload(target, fmt::format("inputs[{}]", named_.size() - 1));
    }
  }

  const Config config_;
  Groups groups_;
  std::int64_t stride_;
  Tensor up_, limits_;
  std::vector<Tensor> named_;
  GlobalScale global_;
  Memory starts_, experts_;
  RowOutput output_;
  activation::Args args_{};
};

}  // namespace

std::string ActivationCase::name() const { return fmt::format("{} rows {}", num_rows, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const ActivationCase& c) {
  return c.num_rows * config->intermediate * 3 * bits(config->dtypes.activation) / 8;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const ActivationCase& c) {
  const Problem problem(kernel, config, c);
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
