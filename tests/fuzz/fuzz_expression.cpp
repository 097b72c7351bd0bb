// SPDX-License-Identifier: Apache-2.0
// Any bytes as an expression: either refused with a position inside the text, or emitted as text that means the same.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "expression.hpp"

namespace {

using moegen::Expression;
using moegen::ExpressionError;

const std::vector<std::string> kNames = {"value", "row", "col", "expert", "s"};
const std::vector<double> kValues = {-1.5, 3, 40, 7, 0.25};

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Emitted C++ is the language itself once "moegen::math::" and the f of literals are gone.
std::string strip_cpp(std::string text) {
  constexpr std::string_view kScope = "moegen::math::";
  for (std::size_t at = text.find(kScope); at != std::string::npos; at = text.find(kScope, at))
    text.erase(at, kScope.size());
  std::string stripped;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != 'f' || i == 0 || !is_digit(text[i - 1])) stripped += text[i];
  return stripped;
}

void require_same(double a, double b) { require(std::isnan(a) ? std::isnan(b) : a == b); }

// The emitted text has at most two levels more than the expression, whose own limit it may therefore exceed.
void check_round_trip(const Expression& expression) {
  const std::string text = expression.emit([](std::string_view name) { return std::string(name); });
  require(text.find_first_of("\"'\\;{}[]#@$`\n") == std::string::npos);
  const std::string plain = strip_cpp(text);
  try {
    const Expression again = Expression::parse(plain, kNames);
    require_same(again.evaluate(kValues), expression.evaluate(kValues));
    require(again.inputs_used() == expression.inputs_used());
    require(again.emit([](std::string_view name) { return std::string(name); }) == text);
  } catch (const ExpressionError& error) {
    require(plain.size() > Expression::kMaxLength || error.fact().find("too deeply") != std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check_round_trip(Expression::parse(text, kNames));
  } catch (const ExpressionError& error) {
    require(error.position() <= text.size());
    require(std::string_view(error.what()).find('^') != std::string_view::npos);
  }
  return 0;
}
