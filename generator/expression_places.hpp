// SPDX-License-Identifier: Apache-2.0
// Where a config may hold a user expression, and what it may read there: the one table that the config reader, the
// families and docs/expressions.md go by.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>

#include "expression.hpp"

namespace moegen {

/// Most named inputs of one expression (finalize::kMaxInputs).
inline constexpr int kMaxExpressionInputs = 8;

struct ExpressionPlace {
  std::string_view pointer;                  ///< of the expression in a config, e.g. "/finalize/epilogue"
  std::span<const std::string_view> names;   ///< always there; integers among them arrive as float32
  std::span<const std::string_view> shapes;  ///< words for the shape of a named input
};

std::span<const ExpressionPlace> expression_places() noexcept;

/// The place at `pointer`. Throws: internal if there is none.
const ExpressionPlace& expression_place(std::string_view pointer);

/// Dtypes that a named input may have: float32, bfloat16, float16.
std::span<const Dtype> expression_input_dtypes() noexcept;

/// Why `name` cannot be the name of an input at `place` ("'exp' is a function; ..."), or nothing if it can.
std::optional<std::string> refuse_input_name(const ExpressionPlace& place, std::string_view name);

/// Names that an expression at `place` with `inputs` may use: those of the place, then the inputs, in order.
std::vector<std::string> names_at(const ExpressionPlace& place, std::span<const ExpressionInput> inputs);

/// Parses `config` as an expression at `place`. Throws: ExpressionError.
Expression parse_at(const ExpressionPlace& place, const ExpressionConfig& config);

}  // namespace moegen
