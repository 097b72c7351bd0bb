// SPDX-License-Identifier: Apache-2.0
#include "expression.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "expression/checker.hpp"
#include "expression/emitter.hpp"
#include "expression/evaluator.hpp"
#include "expression/parser.hpp"
#include "expression/tree.hpp"

namespace moegen {
namespace {

// One column a byte: what a terminal cannot show in one column becomes '?', so that the caret stands where it should.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = c == '\n' || c == '\t' || c == '\r' ? ' ' : '?';
  }
  return line;
}

// The text around `position` and a caret below it, two lines indented by two.
std::string point_at(std::string_view text, std::size_t position) {
  constexpr std::size_t kBefore = 60, kWidth = 100;
  const std::size_t begin = position > kBefore ? position - kBefore : 0;
  const std::string line = one_line(text.substr(begin, kWidth));
  return fmt::format("\n  {}\n  {}^", line, std::string(position - begin, ' '));
}

}  // namespace

ExpressionError::ExpressionError(std::string_view text, std::size_t position, const std::string& fact)
    : Error(ErrorCode::config, fmt::format("column {}: {}{}", position + 1, fact, point_at(text, position))),
      position_(position),
      fact_(fact) {}

Expression Expression::parse(std::string_view text, std::span<const std::string> names) {
  auto tree = std::make_shared<expression::Tree>(expression::parse(text));
  tree->names.assign(names.begin(), names.end());
  expression::check(*tree);
  return Expression(std::move(tree));
}

std::string Expression::emit(const std::function<std::string(std::string_view)>& spell) const {
  return expression::emit(*tree_, spell);
}

double Expression::evaluate(const std::function<double(std::string_view)>& value) const {
  std::vector<double> values(tree_->names.size());
  for (const expression::Node& node : tree_->nodes)
    if (node.op == expression::Op::name) values[node.symbol] = value(tree_->names[node.symbol]);
  return evaluate(values);
}

double Expression::evaluate(std::span<const double> values) const {
  if (values.size() != tree_->names.size())
    throw Error(ErrorCode::internal,
                fmt::format("an expression of {} names was given {} values", tree_->names.size(), values.size()));
  return expression::evaluate(*tree_, values);
}

Bounded Expression::evaluate(std::span<const double> values, std::span<const double> errors) const {
  return expression::evaluate_bounded(*tree_, values, errors);
}

std::vector<std::string> Expression::inputs_used() const {
  std::vector<bool> used(tree_->names.size());
  for (const expression::Node& node : tree_->nodes)
    if (node.op == expression::Op::name) used[node.symbol] = true;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) names.push_back(tree_->names[i]);
  return names;
}

}  // namespace moegen
