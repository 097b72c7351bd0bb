// SPDX-License-Identifier: Apache-2.0
#include "verify/quantize_case.hpp"

#include <limits>
#include <vector>

#include <fmt/format.h>

#include <moegen/args/quantize.h>

#include "reference/number.hpp"
#include "verify/memory.hpp"
#include "verify/row_output.hpp"
#include "verify/row_values.hpp"
#include "verify/scales.hpp"

namespace moegen::verify {
namespace {

// The tensors of one case.
class Problem {
 public:
  Problem(const Kernel& kernel, const Config& config, const QuantizeCase& c)
      : width_(kernel.plan().integer("width")),
        in_use_(c.pattern == RowsPattern::bounded ? c.num_rows * 3 / 5 : c.num_rows),
        stride_(own_stride(config, c.pattern, c.num_rows)),
        x_(row_values(config->dtypes.activation, c.num_rows, width_, c.pattern != RowsPattern::ordinary, c.seed,
                      std::numeric_limits<double>::max())),
        global_(global_scale(kernel.target(), config, kernel.plan())),
        output_(kernel.target(), config, row_codes(config, kernel.plan(), global_.value), c.num_rows, stride_) {
    x_.upload(kernel.target(), "x");
    if (c.pattern == RowsPattern::bounded)
      count_ =
          Memory::of(kernel.target(), "row_count", std::vector<std::uint32_t>{static_cast<std::uint32_t>(in_use_)});
    args_.rows = output_.rows();
    args_.scales = output_.scales();
    args_.x = x_.device.data();
    args_.row_count = count_.data<std::uint32_t>();
    args_.global_scale = global_.device.data<float>();
    args_.num_rows = c.num_rows;
    args_.scales_stride = stride_;
  }

  const quantize::Args& args() const noexcept { return args_; }

  std::optional<std::string> compare() const {
    return output_.compare([this](std::int64_t row, reference::RowTruth& truth) {
      if (row >= in_use_) return false;
      const auto width = static_cast<std::size_t>(width_);
      truth.value.resize(width);
      truth.error.assign(width, 0.0);
      for (std::size_t i = 0; i < width; ++i)
        truth.value[i] = reference::load(x_.dtype, x_.host.data(), static_cast<std::size_t>(row) * width + i);
      return true;
    });
  }

 private:
  std::int64_t width_, in_use_, stride_;
  Tensor x_;
  GlobalScale global_;
  Memory count_;
  RowOutput output_;
  quantize::Args args_{};
};

}  // namespace

std::string QuantizeCase::name() const { return fmt::format("{} rows {}", num_rows, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const QuantizeCase& c) {
  return c.num_rows * std::max(config->expert_hidden, config->intermediate) * bits(config->dtypes.activation) / 4;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const QuantizeCase& c) {
  const Problem problem(kernel, config, c);
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
