// SPDX-License-Identifier: Apache-2.0
#include "expression/evaluator.hpp"

#include <array>

#include "expression/functions.hpp"

namespace moegen::expression {
namespace {

class Evaluator {
 public:
  Evaluator(const Tree& tree, std::span<const double> values) : tree_(tree), values_(values) {}

  // Truth values are 1 and 0.
  double value(const Node& node) const {
    switch (node.op) {
      case Op::number: return static_cast<double>(node.literal);
      case Op::name: return values_[node.symbol];
      case Op::call: return call(node);
      case Op::negate: return -child(node, 0);
      case Op::logical_not: return child(node, 0) == 0;
      case Op::logical_and: return child(node, 0) != 0 && child(node, 1) != 0;
      case Op::logical_or: return child(node, 0) != 0 || child(node, 1) != 0;
      case Op::choose: return child(node, 0) != 0 ? child(node, 1) : child(node, 2);
      default: return binary(node.op, child(node, 0), child(node, 1));
    }
  }

 private:
  double child(const Node& node, std::size_t index) const { return value(tree_.nodes[node.children[index]]); }

  double call(const Node& node) const {
    std::array<double, 3> arguments{};  // the checker has made sure of the arity, 3 at most
    for (std::size_t i = 0; i < node.children.size(); ++i) arguments[i] = child(node, i);
    return functions()[node.symbol].evaluate(arguments.data());
  }

  static double binary(Op op, double a, double b) {
    switch (op) {
      case Op::add: return a + b;
      case Op::subtract: return a - b;
      case Op::multiply: return a * b;
      case Op::divide: return a / b;
      case Op::less: return a < b;
      case Op::less_equal: return a <= b;
      case Op::greater: return a > b;
      case Op::greater_equal: return a >= b;
      case Op::equal: return a == b;
      default: return a != b;
    }
  }

  const Tree& tree_;
  std::span<const double> values_;
};

}  // namespace

double evaluate(const Tree& tree, std::span<const double> values) { return Evaluator(tree, values).value(tree.root()); }

}  // namespace moegen::expression
