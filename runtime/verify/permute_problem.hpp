// SPDX-License-Identifier: Apache-2.0
// permute's tensors on a target for a given routing, and the comparison of its rows with their definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/permute.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/create_indices.hpp"
#include "verify/memory.hpp"
#include "verify/row_output.hpp"
#include "verify/row_pattern.hpp"
#include "verify/scales.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

struct PermuteOptions {
  std::uint64_t seed = 1;
  RowsPattern pattern = RowsPattern::ordinary;
  const std::vector<char>* x = nullptr;        ///< [T, D] dtypes.activation; null: random
  const std::vector<char>* weights = nullptr;  ///< [T, slots] router.weights as a router left them; null: random
};

/// Of random weights that of a pair without a row is NaN: it must not be used.
class PermuteProblem {
 public:
  /// For `kernel`, permute of `config`, on its target. `indices`: what create_indices made of the pairs.
  PermuteProblem(const Kernel& kernel, const Config& config, reference::Indices indices, const PermuteOptions& options);

  const permute::Args& args() const noexcept { return args_; }
  const RowOutput& output() const noexcept { return output_; }
  float global_scale() const noexcept { return global_.value; }
  /// Poisons the outputs.
  void reset() const { output_.reset(); }
  /// The first wrong row, or nothing. All rows are known to the bit.
  std::optional<std::string> compare() const;

 private:
  bool truth_of(std::int64_t row, reference::RowTruth& truth) const;
  std::int64_t num_rows() const noexcept { return static_cast<std::int64_t>(indices_.token_expert_order.size()); }

  const Config config_;
  const reference::Indices indices_;
  std::int64_t num_tokens_, stride_;
  Tensor x_, weights_;
  GlobalScale global_;
  Memory restore_, order_, starts_;
  RowOutput output_;
  permute::Args args_{};
};

}  // namespace moegen::verify
