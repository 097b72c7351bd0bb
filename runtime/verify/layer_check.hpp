// SPDX-License-Identifier: Apache-2.0
// Compares the output of a whole layer with the layer in float64: from tokens and dequantised weights to the sum over
// experts, without a rounding in between.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/config.hpp>

#include "reference/create_indices.hpp"
#include "reference/finalize.hpp"
#include "reference/grouped_matmul.hpp"

namespace moegen::verify {

/// How the rows of one matmul were stored on their way to it.
struct RowsOnTheWay {
  bool stored = false;     ///< rounded to dtypes.activation, before they were quantised (or instead)
  bool quantised = false;  ///< by quantization.scheme
  float global = 1;        ///< the scale of scheme tensor
};

/// What a layer was run on, all of it on the host, and how its kernels passed rows on. Refers; owns nothing.
struct LayerTensors {
  const ConfigFields& fields;
  const reference::Indices& indices;
  std::int64_t num_tokens = 0;
  const std::vector<char>& x;        ///< [T, D] dtypes.activation
  const std::vector<char>& weights;  ///< [T, slots] router.weights, as the router left them
  const reference::MatmulSpec &up, &down;
  /// Of up: limits and inputs are those of the kernel that applies the activation.
  const reference::MatmulTensors up_tensors, down_tensors;
  const reference::FinalizeInputs finalize;
  RowsOnTheWay to_up, to_down;
};

/// The reference's router is the kernel: ids and weights are taken as it left them (RouterProblem compares them).
///
/// Where the bound comes from. Each rounding on the way (of rows, codes, sums) is off by at most e, half the distance
/// of its neighbours there, and its sign is as good as random. An output is, to first order, linear in them: with
/// derivative d it is off by the sum of d * e. `spread` is the root of the sum of (d * e)^2, carried through each step:
/// a product with weights b adds (b * e)^2 over K; an activation takes the reference's own derivative; a matmul's sum
/// adds the bound of reference::matmul_sum. By Hoeffding's inequality a sum of such terms passes 8 spreads for one
/// element in 10^13 (2 exp(-8^2 / 2)); elements within 8 spreads pass. Evenly distributed roundings have a variance of
/// e^2 / 3, so that the norm of a token's differences is expected at 0.58 of the norm of its spreads, and hundreds of
/// independent roundings keep it there within a tenth: tokens within 1.0 pass. A wrong expert, row, weight or scale is
/// far outside: see tests/cpu/test_layer.cpp.
class LayerCheck {
 public:
  /// Layers of more than `budget` products are compared on some of their tokens, at least one.
  LayerCheck(LayerTensors tensors, std::int64_t budget);
  LayerCheck(const LayerCheck&) = delete;
  LayerCheck& operator=(const LayerCheck&) = delete;

  std::int64_t num_compared() const noexcept { return static_cast<std::int64_t>(tokens_.size()); }

  /// `output`: [T, D] finalize.output. The first token or element that is out of its bound, or nothing.
  std::optional<std::string> compare(const std::vector<char>& output) const;

 private:
  /// Numbers and the squares of their spreads.
  struct Row {
    std::vector<double> value, square;
  };

  void choose_tokens(std::int64_t budget);
  Row input_row(std::int64_t pair) const;
  Row expert_row(std::int64_t row, std::int64_t pair, std::int32_t expert) const;
  Row project(const reference::MatmulSpec& spec, const reference::MatmulTensors& tensors, std::int32_t expert,
              const Row& in) const;
  Row activated(std::int64_t row, std::int32_t expert, const Row& sums) const;
  Row finished(std::int64_t row, std::int32_t expert, const Row& sums) const;
  void pass_on(const RowsOnTheWay& way, Row& row) const;
  void round(Dtype dtype, Row& row) const;
  void quantise(float global, Row& row) const;
  reference::FinalizeRow output_row(std::int64_t token, std::vector<float>& down) const;
  std::optional<std::string> compare_token(std::int64_t token, const reference::FinalizeRow& want,
                                           const std::vector<char>& output) const;

  const LayerTensors tensors_;
  reference::MatmulSpec up_;  ///< with the activation, whoever applies it
  reference::MatmulEpilogue activate_, finish_;
  std::vector<char> ones_;  ///< scales of a: the reference's rows are not scaled
  std::vector<float> shared_, bias_;
  std::vector<std::int64_t> tokens_;  ///< that are compared
};

}  // namespace moegen::verify
