// SPDX-License-Identifier: Apache-2.0
// Tree of a user expression -> device C++ text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "expression/tree.hpp"

namespace moegen::expression {

/// A C++ expression of type float. Every operation stands in parentheses of its own.
std::string emit(const Tree& tree, const std::function<std::string(std::string_view name)>& spell);

}  // namespace moegen::expression
