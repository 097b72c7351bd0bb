// SPDX-License-Identifier: Apache-2.0
// activation's tensors on a target for given rows and groups, and the comparison of its output with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/activation.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/activation_row.hpp"
#include "verify/memory.hpp"
#include "verify/row_output.hpp"
#include "verify/scales.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

/// Which expert each row belongs to: group g has rows starts[g] .. starts[g + 1].
struct RowGroups {
  std::vector<std::uint32_t> starts;
  std::vector<std::int32_t> experts;  ///< -1: none
  std::int64_t rows() const { return starts.back(); }
  int expert_of(std::int64_t row) const;
};

struct ActivationOptions {
  std::uint64_t seed = 1;          ///< of limits and named inputs
  std::int64_t scales_stride = 0;  ///< 0: the default
  bool count_rows = true;          ///< rows behind the last group are told to be none
};

class ActivationProblem {
 public:
  /// For `kernel`, activation of `config`, on its target. `up`: [num_rows, columns of the up projection] on the host.
  ActivationProblem(const Kernel& kernel, const Config& config, RowGroups groups, Tensor up, std::int64_t num_rows,
                    const ActivationOptions& options);

  const activation::Args& args() const noexcept { return args_; }
  const RowOutput& output() const noexcept { return output_; }
  /// Host copies of what the reference reads; valid as long as this is.
  reference::ActivationInputs inputs() const;
  float global_scale() const noexcept { return global_.value; }
  /// Poisons the output.
  void reset() const { output_.reset(); }
  /// The first wrong row, or nothing.
  std::optional<std::string> compare() const;

 private:
  void upload(Target target, std::int64_t num_rows, std::uint64_t seed);

  const Config config_;
  const RowGroups groups_;
  Tensor up_, limits_;
  std::vector<Tensor> named_;
  GlobalScale global_;
  Memory starts_, experts_;
  RowOutput output_;
  activation::Args args_{};
};

}  // namespace moegen::verify
