// SPDX-License-Identifier: Apache-2.0
#include "expression/checker.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "did_you_mean.hpp"
#include "expression.hpp"
#include "expression/functions.hpp"

namespace moegen::expression {
namespace {

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names;
  for (const Function& function : functions()) names.push_back(function.name);
  return names;
}

template <class Names>
int index_of(const Names& names, std::string_view word) {
  const auto found = std::find(names.begin(), names.end(), word);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

class Checker {
 public:
  explicit Checker(Tree& tree) : tree_(tree) {}

  void run() {
    for (Node& node : tree_.nodes) check(node);  // post-order: children come first
    if (tree_.root().type != Type::number)
      fail(tree_.root(), "the expression is a condition; a number is needed, as in 'condition ? 1 : 0'");
  }

 private:
  [[noreturn]] void fail(const Node& node, const std::string& fact) const {
    throw ExpressionError(tree_.text, node.position, fact);
  }

  void check(Node& node) {
    switch (node.op) {
      case Op::number: return;
      case Op::name: return check_name(node);
      case Op::call: return check_call(node);
      case Op::negate:
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide: return check_operands(node, Type::number, Type::number);
      case Op::less:
      case Op::less_equal:
      case Op::greater:
      case Op::greater_equal:
      case Op::equal:
      case Op::not_equal: return check_operands(node, Type::number, Type::truth);
      case Op::logical_not:
      case Op::logical_and:
      case Op::logical_or: return check_operands(node, Type::truth, Type::truth);
      case Op::choose: return check_choice(node);
    }
  }

  void check_name(Node& node) const {
    const std::string_view word = tree_.word(node);
    node.symbol = index_of(tree_.names, word);
    if (node.symbol >= 0) return;
    if (index_of(function_names(), word) >= 0)
      fail(node, fmt::format("'{}' is a function; it needs its arguments in parentheses", word));
    const std::vector<std::string_view> names(tree_.names.begin(), tree_.names.end());
    fail(node,
         fmt::format("'{}' is not a name here; allowed {}{}", word, fmt::join(names, ", "), did_you_mean(word, names)));
  }

  void check_call(Node& node) const {
    const std::string_view word = tree_.word(node);
    const std::vector<std::string_view> names = function_names();
    node.symbol = index_of(names, word);
    if (node.symbol < 0)
      fail(node, fmt::format("'{}' is not a function; allowed {}{}", word, fmt::join(names, ", "),
                             did_you_mean(word, names)));
    const std::size_t arity = static_cast<std::size_t>(functions()[node.symbol].arity);
    if (node.children.size() != arity)
      fail(node, fmt::format("'{}' has {} argument{}; it takes {}", word, node.children.size(),
                             node.children.size() == 1 ? "" : "s", arity));
    for (int child : node.children) want(tree_.nodes[child], Type::number, fmt::format("an argument of '{}'", word));
  }

  void check_operands(Node& node, Type operands, Type result) const {
    for (int child : node.children)
      want(tree_.nodes[child], operands, fmt::format("an operand of '{}'", tree_.word(node)));
    node.type = result;
  }

  void check_choice(Node& node) const {
    want(tree_.nodes[node.children[0]], Type::truth, "the condition of '?'");
    want(tree_.nodes[node.children[1]], Type::number, "a branch of '?'");
    want(tree_.nodes[node.children[2]], Type::number, "a branch of '?'");
  }

  void want(const Node& node, Type type, std::string_view role) const {
    if (node.type == type) return;
    if (type == Type::number)
      fail(node, fmt::format("'{}' gives a condition, but {} is a number; turn it into one with '? 1 : 0'",
                             tree_.word(node), role));
    fail(node,
         fmt::format("'{}' gives a number, but {} is a condition; compare it, as in 'x != 0'", tree_.word(node), role));
  }

  Tree& tree_;
};

}  // namespace

void check(Tree& tree) { Checker(tree).run(); }

}  // namespace moegen::expression
