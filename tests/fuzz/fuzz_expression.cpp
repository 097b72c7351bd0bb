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

bool is_name(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Arguments of the call whose parenthesis opens at `open`; `end` is the place after its closing one.
std::vector<std::string> arguments(std::string_view text, std::size_t open, std::size_t& end) {
  std::vector<std::string> all(1);
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    end = i + 1;
    if (depth == 0) return all;
    if (depth == 1 && text[i] == ',') {
      all.emplace_back();
      ++i;  // a space follows
    } else if (i != open) {
      all.back() += text[i];
    }
  }
  return {};
}

std::string operators(std::string_view text);

// The operators that a call of a rounded function stands for; "" for any other function. A minus that is no operand's
// own, which would stand in parentheses, is the subtraction's.
std::string operators_of(std::string_view name, const std::vector<std::string>& args) {
  const auto pair = [&](const char* sign) { return "(" + operators(args[0]) + sign + operators(args[1]) + ")"; };
  if (name == "add") return pair(" + ");
  if (name == "subtract") return pair(" - ");
  if (name == "multiply") return pair(" * ");
  if (name == "divide") return pair(" / ");
  if (name != "fma") return "";
  const auto product = [&](const std::string& a) { return "(" + operators(a) + " * " + operators(args[1]) + ")"; };
  if (args[0].starts_with('-')) return "(" + operators(args[2]) + " - " + product(args[0].substr(1)) + ")";
  if (args[2].starts_with('-')) return "(" + product(args[0]) + " - " + operators(args[2].substr(1)) + ")";
  return "(" + product(args[0]) + " + " + operators(args[2]) + ")";
}

// The text with operators where it calls functions that round, which the language does not name.
std::string operators(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 0, end = 0;
    while (i + length < text.size() && is_name(text[i + length])) ++length;
    if (length > 0 && i + length < text.size() && text[i + length] == '(') {
      const std::vector<std::string> args = arguments(text, i + length, end);
      if (const std::string spelt = operators_of(text.substr(i, length), args); !spelt.empty()) {
        result += spelt;
        i = end;
        continue;
      }
    }
    length = length == 0 ? 1 : length;
    result += text.substr(i, length);
    i += length;
  }
  return result;
}

void require_same(double a, double b) { require(std::isnan(a) ? std::isnan(b) : a == b); }

// The emitted text has at most two levels more than the expression, whose own limit it may therefore exceed.
void check_round_trip(const Expression& expression) {
  const std::string text = expression.emit([](std::string_view name) { return std::string(name); });
  require(text.find_first_of("\"'\\;{}[]#@$`\n") == std::string::npos);
  const std::string plain = operators(strip_cpp(text));
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
