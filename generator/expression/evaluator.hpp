// SPDX-License-Identifier: Apache-2.0
// Tree of a user expression -> its value in float64.
#pragma once

#include <span>

#include "expression.hpp"
#include "expression/tree.hpp"

namespace moegen::expression {

/// `values` holds one value for each of `tree.names`.
double evaluate(const Tree& tree, std::span<const double> values);

/// The same with the error that each value may carry, and what float32 arithmetic adds: each operation is taken at the
/// corners of its operands' errors, and is itself off by at most kFloatUlps ulp.
Bounded evaluate_bounded(const Tree& tree, std::span<const double> values, std::span<const double> errors);

}  // namespace moegen::expression
