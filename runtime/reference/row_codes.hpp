// SPDX-License-Identifier: Apache-2.0
// What a row of floats may be stored as: the quantisers of contracts in plain code, by IEEE division, for values that
// are known exactly or up to an error. Shares nothing with the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/config.hpp>

namespace moegen::reference {

/// A row before it is stored. Where `error` is 0 the value is a float32, and what is stored is known to the bit.
struct RowTruth {
  std::vector<double> value, error;  ///< [width]
};

/// How rows of one kernel are stored.
class RowCodes {
 public:
  /// `scheme` none: elements of `dtype`. `global`: the scale (tensor) or the factor of all scales (nvfp4).
  RowCodes(const QuantizationConfig& quantization, Scheme scheme, Dtype dtype, std::int64_t width, float global);

  std::int64_t row_bytes() const noexcept;
  std::int64_t num_scales() const noexcept { return num_scales_; }  ///< of a row
  Dtype scale_dtype() const noexcept { return scale_dtype_; }

  /// What is wrong with a stored row and its `scales` (num_scales() elements, side by side), or nothing.
  std::optional<std::string> check(const RowTruth& truth, const void* row, const void* scales) const;

 private:
  struct Group;
  std::optional<std::string> check_elements(const RowTruth& truth, const void* row) const;
  std::optional<std::string> check_group(const RowTruth& truth, const Group& group, const void* row,
                                         const void* scales) const;
  std::optional<std::string> check_scale(const Group& group, double stored) const;
  std::optional<std::string> check_code(double value, double error, std::int64_t column, float divisor,
                                        const void* row) const;
  Group group_of(const RowTruth& truth, std::int64_t index) const;
  double scale_for(double absmax) const;
  float divisor_for(double scale) const;
  int encode(float quotient) const;
  int code_at(const void* row, std::int64_t column) const;

  Scheme scheme_;
  Dtype dtype_, scale_dtype_ = Dtype::float32;
  std::int64_t width_, group_, num_scales_ = 0;
  float floor_, global_;
  bool fp4_;
};

}  // namespace moegen::reference
