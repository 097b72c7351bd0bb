// SPDX-License-Identifier: Apache-2.0
// Words of a user expression.
#pragma once

#include <cstddef>
#include <string_view>

namespace moegen::expression {

enum class Word { end, number, name, symbol };

struct Token {
  Word word = Word::end;
  std::size_t position = 0;  ///< byte offset; of the end: the size of the text
  std::string_view text;     ///< a view into the expression; empty at the end
};

/// Cuts `text` into words on demand. The text must outlive the lexer.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  /// The next word. Throws: ExpressionError at a character or number that no expression contains.
  Token next();

 private:
  Token take(Word word, std::size_t length);
  std::size_t name_length() const;
  std::size_t number_length() const;
  std::size_t digits_from(std::size_t position) const;
  [[noreturn]] void refuse_character() const;

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace moegen::expression
