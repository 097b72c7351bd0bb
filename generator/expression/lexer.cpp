// SPDX-License-Identifier: Apache-2.0
#include "expression/lexer.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "expression.hpp"

namespace moegen::expression {
namespace {

// Own tests instead of <cctype>: those depend on the locale and take no negative char.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Two characters first, so that "<=" is not read as "<".
constexpr std::array<std::string_view, 18> kSymbols = {"<=", ">=", "==", "!=", "&&", "||", "+", "-", "*",
                                                       "/",  "<",  ">",  "!",  "?",  ":",  "(", ")", ","};

struct Slip {
  std::string_view written, meant;
};
constexpr std::array<Slip, 3> kSlips = {{{"=", "=="}, {"&", "&&"}, {"|", "||"}}};

std::string printable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte < 0x7f) return fmt::format("'{}'", c);
  return fmt::format("byte 0x{:02x}", byte);
}

}  // namespace

Token Lexer::next() {
  while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  if (position_ == text_.size()) return take(Word::end, 0);
  if (const std::size_t length = number_length(); length > 0) return take(Word::number, length);
  if (is_letter(text_[position_])) return take(Word::name, name_length());
  for (std::string_view symbol : kSymbols)
    if (text_.substr(position_).starts_with(symbol)) return take(Word::symbol, symbol.size());
  refuse_character();
}

Token Lexer::take(Word word, std::size_t length) {
  const Token token{word, position_, text_.substr(position_, length)};
  position_ += length;
  return token;
}

std::size_t Lexer::name_length() const {
  std::size_t end = position_;
  while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
  return end - position_;
}

std::size_t Lexer::digits_from(std::size_t position) const {
  while (position < text_.size() && is_digit(text_[position])) ++position;
  return position;
}

// digits [. digits] [e [+-] digits], with digits on at least one side of the point. 0 where no number starts.
std::size_t Lexer::number_length() const {
  std::size_t end = digits_from(position_);
  std::size_t digits = end - position_;
  if (end < text_.size() && text_[end] == '.') {
    const std::size_t fraction = digits_from(end + 1);
    digits += fraction - (end + 1);
    end = fraction;
  }
  if (digits == 0) return 0;
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    const std::size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-') ? 1 : 0;
    const std::size_t exponent = digits_from(end + 1 + sign);
    if (exponent == end + 1 + sign) throw ExpressionError(text_, exponent, "the exponent has no digits");
    end = exponent;
  }
  if (end < text_.size() && (is_letter(text_[end]) || text_[end] == '.'))
    throw ExpressionError(text_, end,
                          fmt::format("{} follows a number; a number is written 2, 0.5 or 1e-3, without a suffix",
                                      printable(text_[end])));
  return end - position_;
}

void Lexer::refuse_character() const {
  const auto slip = std::find_if(kSlips.begin(), kSlips.end(),
                                 [&](const Slip& candidate) { return candidate.written[0] == text_[position_]; });
  const std::string hint = slip == kSlips.end() ? "" : fmt::format("; did you mean '{}'?", slip->meant);
  throw ExpressionError(text_, position_,
                        fmt::format("{} is not part of the language; allowed numbers, names, calls, ( ) and "
                                    "+ - * / < <= > >= == != && || ! ? :{}",
                                    printable(text_[position_]), hint));
}

}  // namespace moegen::expression
