// SPDX-License-Identifier: Apache-2.0
// The functions of the expression language: one table for checker, emitter and evaluator.
#pragma once

#include <span>
#include <string_view>

namespace moegen::expression {

struct Function {
  std::string_view name;  ///< also the name of its device function in moegen::math
  int arity = 1;
  double (*evaluate)(const double* arguments);  ///< the function in float64, for references
};

/// Every function, in the order in which messages list them.
std::span<const Function> functions() noexcept;

}  // namespace moegen::expression
