// SPDX-License-Identifier: Apache-2.0
// Names, functions, arities and types of a parsed expression.
#pragma once

#include "expression/tree.hpp"

namespace moegen::expression {

/// Fills `symbol` and `type` of every node. Throws: ExpressionError at the first word or operator that does not fit, or
/// where the whole is not a number.
void check(Tree& tree);

}  // namespace moegen::expression
