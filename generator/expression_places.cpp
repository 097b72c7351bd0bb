// SPDX-License-Identifier: Apache-2.0
#include "expression_places.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "expression/functions.hpp"

namespace moegen {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 3> kScoresNames = {"logit", "expert", "token"};
constexpr std::array<std::string_view, 4> kScoresShapes = {"scalar", "tokens", "experts", "tokens_experts"};
constexpr std::array<std::string_view, 4> kMatmulNames = {"value", "row", "col", "expert"};
constexpr std::array<std::string_view, 6> kMatmulShapes = {"scalar",  "rows",         "columns",
                                                           "experts", "rows_columns", "experts_columns"};
constexpr std::array<std::string_view, 3> kFinalizeNames = {"value", "token", "col"};
constexpr std::array<std::string_view, 4> kFinalizeShapes = {"scalar", "tokens", "columns", "tokens_columns"};

constexpr std::array<ExpressionPlace, 4> kPlaces = {{
    {"/router/scores", Words(kScoresNames), Words(kScoresShapes)},
    {"/experts/up_epilogue", Words(kMatmulNames), Words(kMatmulShapes)},
    {"/experts/down_epilogue", Words(kMatmulNames), Words(kMatmulShapes)},
    {"/finalize/epilogue", Words(kFinalizeNames), Words(kFinalizeShapes)},
}};

constexpr std::array<Dtype, 3> kInputDtypes = {Dtype::float32, Dtype::bfloat16, Dtype::float16};

constexpr std::size_t kLongestName = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || !is_letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

std::span<const ExpressionPlace> expression_places() noexcept { return kPlaces; }

const ExpressionPlace& expression_place(std::string_view pointer) {
  for (const ExpressionPlace& place : kPlaces)
    if (place.pointer == pointer) return place;
  throw Error(ErrorCode::internal, fmt::format("no expression can stand at '{}'", pointer));
}

std::span<const Dtype> expression_input_dtypes() noexcept { return kInputDtypes; }

std::optional<std::string> refuse_input_name(const ExpressionPlace& place, std::string_view name) {
  if (!is_identifier(name))
    return fmt::format("'{}' is not a name; a letter or '_', then letters, digits and '_', at most {}", name,
                       kLongestName);
  for (const expression::Function& function : expression::functions())
    if (function.name == name) return fmt::format("'{}' is a function; choose another name", name);
  if (std::find(place.names.begin(), place.names.end(), name) != place.names.end())
    return fmt::format("'{}' is taken here; the names {} are always there", name, fmt::join(place.names, ", "));
  return std::nullopt;
}

std::vector<std::string> names_at(const ExpressionPlace& place, std::span<const ExpressionInput> inputs) {
  std::vector<std::string> names(place.names.begin(), place.names.end());
  for (const ExpressionInput& input : inputs) names.push_back(input.name);
  return names;
}

Expression parse_at(const ExpressionPlace& place, const ExpressionConfig& config) {
  return Expression::parse(config.text, names_at(place, config.inputs));
}

}  // namespace moegen
