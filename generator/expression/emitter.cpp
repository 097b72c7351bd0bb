// SPDX-License-Identifier: Apache-2.0
#include "expression/emitter.hpp"

#include <fmt/format.h>

#include "expression/functions.hpp"

namespace moegen::expression {
namespace {

// The shortest decimal that reads back as the same float32, made a float literal of C++.
std::string spell_literal(float value) {
  std::string digits = fmt::format("{}", value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + "f";
}

std::string_view spell_operator(Op op) {
  switch (op) {
    case Op::negate: return "-";
    case Op::less: return "<";
    case Op::less_equal: return "<=";
    case Op::greater: return ">";
    case Op::greater_equal: return ">=";
    case Op::equal: return "==";
    case Op::not_equal: return "!=";
    case Op::logical_and: return "&&";
    case Op::logical_or: return "||";
    case Op::logical_not: return "!";
    default: return "";
  }
}

// The function that rounds an arithmetic operation once. Operators would leave it to the compiler what it contracts to
// an fma: not the same in every kernel, nor in all loops of one.
std::string_view spell_rounded(Op op) {
  switch (op) {
    case Op::add: return "add";
    case Op::subtract: return "subtract";
    case Op::multiply: return "multiply";
    default: return "divide";
  }
}

class Emitter {
 public:
  Emitter(const Tree& tree, const std::function<std::string(std::string_view)>& spell) : tree_(tree), spell_(spell) {}

  std::string emit(const Node& node) const {
    switch (node.op) {
      case Op::number: return spell_literal(node.literal);
      case Op::name: return spell_(tree_.names[node.symbol]);
      case Op::call: return emit_call(node);
      case Op::choose: return fmt::format("({} ? {} : {})", child(node, 0), child(node, 1), child(node, 2));
      case Op::negate:
      case Op::logical_not: return fmt::format("({}{})", spell_operator(node.op), child(node, 0));
      case Op::add:
      case Op::subtract: return emit_sum(node);
      case Op::multiply:
      case Op::divide: return emit_rounded(node);
      default: return fmt::format("({} {} {})", child(node, 0), spell_operator(node.op), child(node, 1));
    }
  }

 private:
  std::string child(const Node& node, std::size_t index) const { return emit(tree_.nodes[node.children[index]]); }

  std::string emit_rounded(const Node& node) const {
    return fmt::format("moegen::math::{}({}, {})", spell_rounded(node.op), child(node, 0), child(node, 1));
  }

  // A product that is added to or subtracted from something becomes part of an fma, of two products the first.
  std::string emit_sum(const Node& node) const {
    const Node &left = tree_.nodes[node.children[0]], &right = tree_.nodes[node.children[1]];
    const bool minus = node.op == Op::subtract;
    if (left.op == Op::multiply)
      return fmt::format("moegen::math::fma({}, {}, {}{})", child(left, 0), child(left, 1), minus ? "-" : "",
                         emit(right));
    if (right.op == Op::multiply)
      return fmt::format("moegen::math::fma({}{}, {}, {})", minus ? "-" : "", child(right, 0), child(right, 1),
                         emit(left));
    return emit_rounded(node);
  }

  std::string emit_call(const Node& node) const {
    std::string text = fmt::format("moegen::math::{}(", functions()[node.symbol].name);
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (i > 0) text += ", ";
      text += child(node, i);
    }
    return text + ")";
  }

  const Tree& tree_;
  const std::function<std::string(std::string_view)>& spell_;
};

}  // namespace

std::string emit(const Tree& tree, const std::function<std::string(std::string_view)>& spell) {
  return Emitter(tree, spell).emit(tree.root());
}

}  // namespace moegen::expression
