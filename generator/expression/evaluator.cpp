// SPDX-License-Identifier: Apache-2.0
#include "expression/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "expression/functions.hpp"

namespace moegen::expression {
namespace {

double binary(Op op, double a, double b) {
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

  const Tree& tree_;
  std::span<const double> values_;
};

// docs/expressions.md: the least accurate function, gelu, is within 7 ulp; a plain operation within half of one.
constexpr double kFloatUlps = 7;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What float32 makes of a finite result: infinity beyond its range, either at the edge of it, and below its normal
// numbers a multiple of the least one.
Bounded in_float32(Bounded exact) {
  constexpr double kLargest = std::numeric_limits<float>::max(), kLeast = 0x1p-149;
  const double magnitude = std::abs(exact.value);
  if (magnitude - exact.error > kLargest) return {std::copysign(kInfinity, exact.value), 0};
  if (magnitude + exact.error > kLargest) return {exact.value, kInfinity};
  return {exact.value, exact.error + kLeast};
}

// The same walk with errors. A truth value has error 1 where the errors leave it open.
class BoundedEvaluator {
 public:
  BoundedEvaluator(const Tree& tree, std::span<const double> values, std::span<const double> errors)
      : tree_(tree), values_(values), errors_(errors) {}

  Bounded value(const Node& node) const {
    switch (node.op) {
      case Op::number: return {static_cast<double>(node.literal), 0};
      case Op::name: return {values_[node.symbol], errors_[node.symbol]};
      case Op::call: return apply(node, kFloatUlps, functions()[node.symbol].evaluate);
      case Op::negate: return apply(node, 0, [](const double* a) { return -a[0]; });
      case Op::logical_not: return truth(node, [](const double* a) { return a[0] == 0 ? 1.0 : 0.0; });
      case Op::logical_and: return truth(node, [](const double* a) { return a[0] != 0 && a[1] != 0 ? 1.0 : 0.0; });
      case Op::logical_or: return truth(node, [](const double* a) { return a[0] != 0 || a[1] != 0 ? 1.0 : 0.0; });
      case Op::choose: return choose(node);
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide: return apply(node, 1, [op = node.op](const double* a) { return binary(op, a[0], a[1]); });
      default: return truth(node, [op = node.op](const double* a) { return binary(op, a[0], a[1]); });
    }
  }

 private:
  Bounded child(const Node& node, std::size_t index) const { return value(tree_.nodes[node.children[index]]); }

  // A product beyond float32 may come back into it as part of an fma.
  static bool may_contract(const Node& sum, const Node& term) {
    return (sum.op == Op::add || sum.op == Op::subtract) && (term.op == Op::multiply || term.op == Op::negate);
  }

  // The operation at its operands, and the farthest it gets at the corners of their errors.
  template <class Operation>
  Bounded apply(const Node& node, double ulps, const Operation& operation) const {
    std::array<double, 3> centre{}, error{};
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const Bounded operand = child(node, i);
      if (std::isinf(operand.error)) return {0, kInfinity};
      if (std::isinf(operand.value) && may_contract(node, tree_.nodes[node.children[i]])) return {0, kInfinity};
      centre[i] = operand.value;
      error[i] = operand.error;
    }
    const double result = operation(centre.data());
    if (!std::isfinite(result)) return {result, 0};
    const Bounded exact = {result, farthest(node, operation, centre, error, result)};
    return ulps == 0 ? exact : in_float32({result, exact.error + ulps * std::ldexp(std::abs(result), -23)});
  }

  template <class Operation>
  static double farthest(const Node& node, const Operation& operation, const std::array<double, 3>& centre,
                         const std::array<double, 3>& error, double result) {
    double most = 0;
    for (unsigned corner = 0; corner < 1u << node.children.size(); ++corner) {
      std::array<double, 3> at = centre;
      for (std::size_t i = 0; i < node.children.size(); ++i) at[i] += corner >> i & 1 ? error[i] : -error[i];
      const double distance = std::abs(operation(at.data()) - result);
      if (distance > most) most = distance;
    }
    return most;
  }

  template <class Operation>
  Bounded truth(const Node& node, const Operation& operation) const {
    const Bounded plain = apply(node, 0, operation);
    return {plain.value, plain.error > 0 ? 1.0 : 0.0};
  }

  Bounded choose(const Node& node) const {
    const Bounded condition = child(node, 0), yes = child(node, 1), no = child(node, 2);
    const Bounded& taken = condition.value != 0 ? yes : no;
    const Bounded& other = condition.value != 0 ? no : yes;
    if (condition.error == 0) return taken;
    return {taken.value, std::max(taken.error, std::abs(taken.value - other.value) + other.error)};
  }

  const Tree& tree_;
  std::span<const double> values_, errors_;
};

}  // namespace

Bounded evaluate_bounded(const Tree& tree, std::span<const double> values, std::span<const double> errors) {
  return BoundedEvaluator(tree, values, errors).value(tree.root());
}

double evaluate(const Tree& tree, std::span<const double> values) { return Evaluator(tree, values).value(tree.root()); }

}  // namespace moegen::expression
