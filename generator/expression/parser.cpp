// SPDX-License-Identifier: Apache-2.0
#include "expression/parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "expression.hpp"
#include "expression/lexer.hpp"

namespace moegen::expression {
namespace {

struct Operator {
  std::string_view symbol;
  int precedence;  // of C: a higher one binds tighter
  Op op;
};

constexpr std::array<Operator, 12> kOperators = {{
    {"||", 1, Op::logical_or},
    {"&&", 2, Op::logical_and},
    {"==", 3, Op::equal},
    {"!=", 3, Op::not_equal},
    {"<", 4, Op::less},
    {"<=", 4, Op::less_equal},
    {">", 4, Op::greater},
    {">=", 4, Op::greater_equal},
    {"+", 5, Op::add},
    {"-", 5, Op::subtract},
    {"*", 6, Op::multiply},
    {"/", 6, Op::divide},
}};

const Operator* find_operator(const Token& token) {
  if (token.word != Word::symbol) return nullptr;
  const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                  [&](const Operator& candidate) { return candidate.symbol == token.text; });
  return found == kOperators.end() ? nullptr : &*found;
}

std::string describe(const Token& token) {
  return token.word == Word::end ? std::string("the end") : fmt::format("'{}'", token.text);
}

// Recursive descent with one token of look-ahead; binary operators by precedence climbing.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text_) {}

  Tree run() {
    advance();
    if (token_.word == Word::end) fail(token_.position, "the expression is empty; a number is needed");
    parse_choice();
    if (token_.word != Word::end)
      fail(token_.position, fmt::format("{} cannot follow here; an operator or the end is expected", describe(token_)));
    tree_.text = text_;
    return std::move(tree_);
  }

 private:
  // Counts the nesting of calls to the parser itself, which parentheses deepen without adding nodes: one for each
  // parenthesis, call, prefix and choice, and one for the value in the middle.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.depth_) { parser.check_depth(++depth_, parser.token_.position); }
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };

  [[noreturn]] void fail(std::size_t position, const std::string& fact) const {
    throw ExpressionError(text_, position, fact);
  }

  void check_depth(int depth, std::size_t position) const {
    if (depth > Expression::kMaxDepth)
      fail(position,
           fmt::format("the expression nests too deeply; at most {} levels are allowed", Expression::kMaxDepth));
  }

  void advance() { token_ = lexer_.next(); }

  bool accept(std::string_view symbol) {
    if (token_.word != Word::symbol || token_.text != symbol) return false;
    advance();
    return true;
  }

  void expect(std::string_view symbol, std::string_view purpose) {
    if (!accept(symbol))
      fail(token_.position, fmt::format("{} where '{}' is expected {}", describe(token_), symbol, purpose));
  }

  int add(Op op, const Token& token, std::vector<int> children) {
    Node node{.op = op, .position = token.position, .length = token.text.size(), .children = std::move(children)};
    for (int child : node.children) node.depth = std::max(node.depth, tree_.nodes[child].depth + 1);
    check_depth(node.depth, token.position);
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  // choice = binary ["?" choice ":" choice]
  int parse_choice() {
    const int condition = parse_binary(1);
    const Token token = token_;
    if (!accept("?")) return condition;
    const Nesting nesting(*this);
    const int yes = parse_choice();
    expect(":", "between the two branches of '?'");
    const int no = parse_choice();
    return add(Op::choose, token, {condition, yes, no});
  }

  // Operators of at least `precedence`; all of them group to the left.
  int parse_binary(int precedence) {
    int left = parse_prefix();
    for (const Operator* found = find_operator(token_); found != nullptr && found->precedence >= precedence;
         found = find_operator(token_)) {
      const Token token = token_;
      advance();
      const int right = parse_binary(found->precedence + 1);
      left = add(found->op, token, {left, right});
    }
    return left;
  }

  // prefix = ("-" | "!") prefix | primary
  int parse_prefix() {
    const Nesting nesting(*this);
    const Token token = token_;
    if (accept("-")) return add(Op::negate, token, {parse_prefix()});
    if (accept("!")) return add(Op::logical_not, token, {parse_prefix()});
    return parse_primary();
  }

  int parse_primary() {
    const Token token = token_;
    if (token.word == Word::number) return parse_number();
    if (token.word == Word::name) return parse_word();
    if (!accept("(")) fail(token.position, fmt::format("{} where a value is expected", describe(token)));
    const int inner = parse_choice();
    expect(")", "to close this parenthesis");
    return inner;
  }

  int parse_number() {
    const Token token = token_;
    float value = 0;
    const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (result.ec != std::errc()) fail(token.position, fmt::format("'{}' is outside the range of float32", token.text));
    advance();
    const int node = add(Op::number, token, {});
    tree_.nodes[node].literal = value;
    return node;
  }

  // A name, or a call if "(" follows.
  int parse_word() {
    const Token token = token_;
    advance();
    if (!accept("(")) return add(Op::name, token, {});
    std::vector<int> arguments;
    if (accept(")")) return add(Op::call, token, std::move(arguments));
    do arguments.push_back(parse_choice());
    while (accept(","));
    expect(")", fmt::format("after the arguments of '{}'", token.text));
    return add(Op::call, token, std::move(arguments));
  }

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  Tree tree_;
  int depth_ = 0;
};

}  // namespace

Tree parse(std::string_view text) {
  if (text.size() > Expression::kMaxLength)
    throw ExpressionError(
        text, Expression::kMaxLength,
        fmt::format("the expression has {} characters; at most {} are allowed", text.size(), Expression::kMaxLength));
  return Parser(text).run();
}

}  // namespace moegen::expression
