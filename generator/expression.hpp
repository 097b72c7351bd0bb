// SPDX-License-Identifier: Apache-2.0
// User expressions: text of a config -> checked tree -> device C++ text or an fp64 value. docs/expressions.md is the
// language's page.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/error.hpp>

namespace moegen {

namespace expression {
struct Tree;
}

/// A value and how far a float32 evaluation may be from it.
struct Bounded {
  double value = 0, error = 0;
};

/// A text that is not a legal expression. `what()` is "column N: fact; what is allowed" followed by the text and a
/// caret on lines of their own.
class ExpressionError : public Error {
 public:
  ExpressionError(std::string_view text, std::size_t position, const std::string& fact);
  /// Byte offset into the text, at most its size (= "at the end").
  std::size_t position() const noexcept { return position_; }
  /// The message without column and caret.
  const std::string& fact() const noexcept { return fact_; }

 private:
  std::size_t position_;
  std::string fact_;
};

/// A parsed and checked expression that yields a number. Immutable, cheap to copy, thread-safe.
class Expression {
 public:
  /// Longest text, in bytes.
  static constexpr std::size_t kMaxLength = 4096;
  /// Deepest nesting, of parentheses as of operations (a + b + c nests two). Keeps every walk over the tree, and the
  /// parentheses in emitted text, far below what a stack or a compiler (Clang: 256) stands.
  static constexpr int kMaxDepth = 128;

  /// Parses and checks `text`, which may name `names` and the functions of docs/expressions.md.
  /// Throws: ExpressionError.
  static Expression parse(std::string_view text, std::span<const std::string> names);

  /// C++ text of the expression in float32, fully parenthesised, with calls into moegen::math
  /// (templates/core/math.cuh). `spell` gives the C++ text that stands for a name; nothing of the user's own text is
  /// copied.
  std::string emit(const std::function<std::string(std::string_view name)>& spell) const;

  /// Value in float64. Literals have their float32 value, as in emitted text.
  double evaluate(const std::function<double(std::string_view name)>& value) const;
  /// The same with one value for each of the names given to `parse`, in their order. Allocates nothing.
  double evaluate(std::span<const double> values) const;

  /// The same where each value may be off by its `errors` entry and the arithmetic is float32. For references: a result
  /// within `error` of `value` is as good as emitted code can be.
  Bounded evaluate(std::span<const double> values, std::span<const double> errors) const;

  /// The names that the text uses, each once, in the order given to `parse`.
  std::vector<std::string> inputs_used() const;

 private:
  explicit Expression(std::shared_ptr<const expression::Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const expression::Tree> tree_;
};

}  // namespace moegen
