// SPDX-License-Identifier: Apache-2.0
// Text of a user expression -> tree, without regard to names and types.
#pragma once

#include <string_view>

#include "expression/tree.hpp"

namespace moegen::expression {

/// Throws: ExpressionError for a text that is no expression, or is longer or deeper than the limits of Expression.
Tree parse(std::string_view text);

}  // namespace moegen::expression
