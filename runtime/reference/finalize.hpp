// SPDX-License-Identifier: Apache-2.0
// finalize in plain float64 code, to compare kernels with. Shares nothing with them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <moegen/config.hpp>

namespace moegen::reference {

/// Host copies of finalize's inputs, in the dtypes of the config; what the config does not use may be null.
struct FinalizeInputs {
  const void* down = nullptr;              ///< [rows, D]
  const std::uint32_t* restore = nullptr;  ///< [T * slots]
  const void* weights = nullptr;           ///< [T, slots]
  const void* x = nullptr;                 ///< [T, D]
  const void* topk_ids = nullptr;          ///< [T, slots]
  const void* residual = nullptr;          ///< [T, D]
  const void* shared = nullptr;            ///< [T, D]
  const float* shared_gate = nullptr;      ///< [T]
  const void* bias = nullptr;              ///< [num_groups, D]
  std::vector<const void*> inputs;         ///< named inputs of the epilogue
};

/// One row of the result, before rounding, and how far float32 arithmetic may be from it.
struct FinalizeRow {
  std::vector<double> value;  ///< [D]
  std::vector<double>
      error;  ///< [D] bound on the error of the float32 sum and of the epilogue, without the final rounding
};

/// Row `token`. The error bound is (number of terms) * 2^-24 * (sum of the terms' magnitudes): each of n additions of a
/// float32 sum is off by at most half an ulp of a partial sum, and no partial sum exceeds the sum of magnitudes.
void finalize_row(const ConfigFields& fields, const FinalizeInputs& inputs, std::int64_t token, FinalizeRow& row);

/// The epilogue on row `token` of sums, in float64, with their error carried through it.
void finalize_epilogue(const ExpressionConfig& config, const FinalizeInputs& inputs, std::int64_t token,
                       FinalizeRow& row);

}  // namespace moegen::reference
