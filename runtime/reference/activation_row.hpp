// SPDX-License-Identifier: Apache-2.0
// A row of the activation family in plain float64 code: activation, then the user expression.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <moegen/config.hpp>

#include "reference/row_codes.hpp"

namespace moegen::reference {

/// Host copies of the inputs, in the dtypes of the config; what the config does not use may be null.
struct ActivationInputs {
  const void* up = nullptr;         ///< [R, 2 * I] or [R, I]
  const float* limits = nullptr;    ///< [E]
  std::vector<const void*> inputs;  ///< named inputs of experts.up_epilogue
};

/// Row `row`, of local expert `expert` (-1: none), before it is stored, and how far float32 arithmetic may be from it.
void activation_row(const ConfigFields& fields, const ActivationInputs& inputs, std::int64_t row, int expert,
                    RowTruth& truth);

}  // namespace moegen::reference
