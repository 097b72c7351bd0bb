// SPDX-License-Identifier: Apache-2.0
// Tree of a user expression -> its value in float64.
#pragma once

#include <span>

#include "expression/tree.hpp"

namespace moegen::expression {

/// `values` holds one value for each of `tree.names`.
double evaluate(const Tree& tree, std::span<const double> values);

}  // namespace moegen::expression
