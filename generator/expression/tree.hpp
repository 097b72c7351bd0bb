// SPDX-License-Identifier: Apache-2.0
// The tree of a user expression: made by the parser, completed by the checker, walked by emitter and evaluator.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moegen::expression {

enum class Op {
  number,
  name,
  call,
  negate,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  choose,  ///< condition ? a : b
};

/// Numbers are float32 on the device; truth values exist only inside an expression.
enum class Type { number, truth };

struct Node {
  Op op = Op::number;
  std::size_t position = 0;   ///< byte offset of the word or operator in the text
  std::size_t length = 0;     ///< its length in bytes
  std::vector<int> children;  ///< indices of nodes; always smaller than the node's own
  int depth = 1;              ///< 1 + depth of the deepest child
  float literal = 0;          ///< of a number
  int symbol = -1;            ///< set by the checker: index of the name, or of the function in functions()
  Type type = Type::number;   ///< set by the checker
};

/// Nodes in post-order: the last one is the root.
struct Tree {
  std::string text;
  std::vector<std::string> names;
  std::vector<Node> nodes;

  const Node& root() const { return nodes.back(); }
  std::string_view word(const Node& node) const { return std::string_view(text).substr(node.position, node.length); }
};

}  // namespace moegen::expression
