// SPDX-License-Identifier: Apache-2.0
#include "verify/quantize_problem.hpp"

#include <utility>
#include <vector>

#include "reference/number.hpp"

namespace moegen::verify {

QuantizeProblem::QuantizeProblem(const Kernel& kernel, const Config& config, Tensor x, std::int64_t num_rows,
                                 const QuantizeOptions& options)
    : width_(kernel.plan().integer("width")),
      in_use_(options.rows_in_use < 0 ? num_rows : options.rows_in_use),
      x_(std::move(x)),
      global_(verify::global_scale(kernel.target(), config, kernel.plan())),
      output_(kernel.target(), config, row_codes(config, kernel.plan(), global_.value), num_rows,
              options.scales_stride) {
  x_.upload(kernel.target(), "x");
  if (options.rows_in_use >= 0)
    count_ = Memory::of(kernel.target(), "row_count", std::vector<std::uint32_t>{static_cast<std::uint32_t>(in_use_)});
  args_.rows = output_.rows();
  args_.scales = output_.scales();
  args_.x = x_.device.data();
  args_.row_count = count_.data<std::uint32_t>();
  args_.global_scale = global_.device.data<float>();
  args_.num_rows = num_rows;
  args_.scales_stride = options.scales_stride;
}

std::optional<std::string> QuantizeProblem::compare() const {
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

}  // namespace moegen::verify
