// SPDX-License-Identifier: Apache-2.0
// quantize's tensors on a target for given rows, and the comparison of its output with the definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <moegen/args/quantize.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "verify/memory.hpp"
#include "verify/row_output.hpp"
#include "verify/scales.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

struct QuantizeOptions {
  std::int64_t rows_in_use = -1;   ///< told to the kernel; -1: all, and nothing is told
  std::int64_t scales_stride = 0;  ///< 0: the default
};

class QuantizeProblem {
 public:
  /// For `kernel`, quantize.up or quantize.down of `config`, on its target. `x`: [num_rows, width] on the host.
  QuantizeProblem(const Kernel& kernel, const Config& config, Tensor x, std::int64_t num_rows,
                  const QuantizeOptions& options);

  const quantize::Args& args() const noexcept { return args_; }
  const RowOutput& output() const noexcept { return output_; }
  float global_scale() const noexcept { return global_.value; }
  /// Poisons the output.
  void reset() const { output_.reset(); }
  /// The first wrong row, or nothing. All rows are known to the bit.
  std::optional<std::string> compare() const;

 private:
  const std::int64_t width_, in_use_;
  Tensor x_;
  GlobalScale global_;
  Memory count_;
  RowOutput output_;
  quantize::Args args_{};
};

}  // namespace moegen::verify
