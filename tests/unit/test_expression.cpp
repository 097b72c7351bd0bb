// SPDX-License-Identifier: Apache-2.0
// The expression language: what it accepts, what it emits, and where its errors point.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expression.hpp"
#include "expression/functions.hpp"
#include "expression_places.hpp"

using namespace moegen;

namespace {

const std::vector<std::string> kNames = {"x", "y", "bias"};

std::string emitted(std::string_view text) {
  return Expression::parse(text, kNames).emit([](std::string_view name) { return "in_" + std::string(name); });
}

double value_of(std::string_view text, double x = 0, double y = 0) {
  return Expression::parse(text, kNames).evaluate(std::vector<double>{x, y, 0});
}

struct Refusal {
  std::size_t position;
  std::string fact;
};

Refusal refusal_of(std::string_view text) {
  try {
    (void)Expression::parse(text, kNames);
  } catch (const ExpressionError& error) {
    CHECK(error.code() == ErrorCode::config);
    return {error.position(), error.fact()};
  }
  FAIL("accepted: ", text);
  return {};
}

std::string repeated(std::string_view unit, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += unit;
  return text;
}

}  // namespace

/// `text` without the functions' namespace.
std::string emitted_short(std::string_view text) {
  constexpr std::string_view kNamespace = "moegen::math::";
  std::string out = emitted(text);
  for (std::size_t at; (at = out.find(kNamespace)) != std::string::npos;) out.erase(at, kNamespace.size());
  return out;
}

TEST_CASE("operators bind as in C, and every operation is rounded by itself") {
  CHECK(emitted("(x + y) * bias") == "moegen::math::multiply(moegen::math::add(in_x, in_y), in_bias)");
  CHECK(emitted_short("x - y - bias") == "subtract(subtract(in_x, in_y), in_bias)");
  CHECK(emitted_short("x / y / bias") == "divide(divide(in_x, in_y), in_bias)");
  CHECK(emitted_short("-x * -y") == "multiply((-in_x), (-in_y))");
  CHECK(emitted_short("x * y * bias") == "multiply(multiply(in_x, in_y), in_bias)");
  CHECK(emitted("--x") == "(-(-in_x))");
  CHECK(emitted("x < 0 || y < 0 && !(x == y) ? 1 : 2") ==
        "(((in_x < 0.0f) || ((in_y < 0.0f) && (!(in_x == in_y)))) ? 1.0f : 2.0f)");
  CHECK(emitted("x > 0 ? y : x >= 1 ? 2 : bias") == "((in_x > 0.0f) ? in_y : ((in_x >= 1.0f) ? 2.0f : in_bias))");
  CHECK(emitted("x != 0 ? y <= 1 ? 3 : 4 : 5") == "((in_x != 0.0f) ? ((in_y <= 1.0f) ? 3.0f : 4.0f) : 5.0f)");
  CHECK(emitted("clamp(x, -1, max(y, 1))") == "moegen::math::clamp(in_x, (-1.0f), moegen::math::max(in_y, 1.0f))");
  CHECK(emitted_short(" x\n+\ty ") == "add(in_x, in_y)");
}

TEST_CASE("a literal is the nearest float32, spelt so that it reads back exactly") {
  CHECK(emitted("1") == "1.0f");
  CHECK(emitted(".5") == "0.5f");
  CHECK(emitted("5.") == "5.0f");
  CHECK(emitted("1.702") == "1.702f");
  CHECK(emitted("1E-3") == "0.001f");
  CHECK(emitted("16777217") == "16777216.0f");
  CHECK(emitted("1e30") == "1e+30f");
  CHECK(emitted("3.4028234663852886e38") == "3.4028235e+38f");
  CHECK(emitted("1e-45") == "1e-45f");
  CHECK(emitted("0") == "0.0f");
  CHECK(value_of("0.1") == static_cast<double>(0.1F));
  for (const char* text : {"0.1", "0.33333334", "2.5e-41", "1.17549435e-38", "8388609", "0.1000000000000000055"})
    CHECK(std::strtof(emitted(text).c_str(), nullptr) == std::strtof(text, nullptr));
}

TEST_CASE("values agree with the mathematics") {
  CHECK(value_of("x + y * 2", 3, 4) == 11);
  CHECK(value_of("x - y - 1", 3, 4) == -2);
  CHECK(value_of("x > y ? x : y", 3, 4) == 4);
  CHECK(value_of("x > 1 && y > 1 ? 1 : 0", 3, 0) == 0);
  CHECK(value_of("x > 1 || y > 1 ? 1 : 0", 3, 0) == 1);
  CHECK(value_of("!(x > 1) ? 1 : 0", 3) == 0);
  CHECK(value_of("exp(x)", 1) == std::exp(1.0));
  CHECK(value_of("log(x)", 5) == std::log(5.0));
  CHECK(value_of("tanh(x)", 0.25) == std::tanh(0.25));
  CHECK(value_of("sigmoid(x)", 2) == doctest::Approx(0.8807970779778823).epsilon(1e-15));
  CHECK(value_of("sigmoid(x)", -800) == std::exp(-800.0));
  CHECK(value_of("silu(x)", 2) == doctest::Approx(1.7615941559557646).epsilon(1e-15));
  CHECK(value_of("gelu(x)", 1) == doctest::Approx(0.8413447460685429).epsilon(1e-15));
  CHECK(value_of("gelu(x)", -10) == doctest::Approx(-7.61985302416047e-23).epsilon(1e-12));
  CHECK(value_of("gelu_tanh(x)", 1) == doctest::Approx(0.8411919906082768).epsilon(1e-15));
  CHECK(value_of("relu(x)", -2) == 0);
  CHECK(value_of("min(x, y)", 3, 4) == 3);
  CHECK(value_of("max(x, y)", 3, 4) == 4);
  CHECK(value_of("clamp(x, -1, 1)", -7) == -1);
  CHECK(value_of("abs(x)", -7) == 7);
  CHECK(value_of("rsqrt(x)", 4) == 0.5);
  CHECK(value_of("sqrt(x)", 9) == 3);
}

TEST_CASE("a NaN is never hidden, and a gate far to the left is closed") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const char* text : {"min(x, 1)", "min(1, x)", "max(x, 1)", "max(1, x)", "clamp(x, 0, 1)", "relu(x)", "silu(x)"})
    CHECK_MESSAGE(std::isnan(value_of(text, nan)), text);
  for (const char* text : {"silu(x)", "gelu(x)", "gelu_tanh(x)"}) {
    CHECK_MESSAGE(value_of(text, -infinity) == 0, text);
    CHECK_MESSAGE(value_of(text, infinity) == infinity, text);
  }
}

TEST_CASE("a name is looked up once and only where it is used") {
  const Expression expression = Expression::parse("bias + x * x", kNames);
  CHECK(expression.inputs_used() == std::vector<std::string>{"x", "bias"});
  std::map<std::string, double, std::less<>> values = {{"x", 3}, {"bias", 1}};
  CHECK(expression.evaluate([&](std::string_view name) { return values.at(std::string(name)); }) == 10);
  CHECK_THROWS_AS((void)expression.evaluate(std::vector<double>{1}), Error);
}

TEST_CASE("errors point at the word") {
  const auto check = [](std::string_view text, std::size_t position, const std::string& fact) {
    const Refusal refusal = refusal_of(text);
    CHECK_MESSAGE(refusal.position == position, text);
    CHECK(refusal.fact == fact);
  };
  check("", 0, "the expression is empty; a number is needed");
  check("  ", 2, "the expression is empty; a number is needed");
  check("x + bais", 4, "'bais' is not a name here; allowed x, y, bias; did you mean 'bias'?");
  check("exp", 0, "'exp' is a function; it needs its arguments in parentheses");
  check("1 + sigmod(x)", 4,
        "'sigmod' is not a function; allowed exp, log, tanh, sigmoid, silu, gelu, gelu_tanh, relu, min, max, clamp, "
        "abs, rsqrt, sqrt; did you mean 'sigmoid'?");
  check("exp(x, y)", 0, "'exp' has 2 arguments; it takes 1");
  check("clamp(x)", 0, "'clamp' has 1 argument; it takes 3");
  check("max()", 0, "'max' has 0 arguments; it takes 2");
  check("x +", 3, "the end where a value is expected");
  check("x + * y", 4, "'*' where a value is expected");
  check("(x + y", 6, "the end where ')' is expected to close this parenthesis");
  check("exp(x", 5, "the end where ')' is expected after the arguments of 'exp'");
  check("x y", 2, "'y' cannot follow here; an operator or the end is expected");
  check("x)", 1, "')' cannot follow here; an operator or the end is expected");
  check("x > 0 ? 1", 9, "the end where ':' is expected between the two branches of '?'");
  check("x > 0", 2, "the expression is a condition; a number is needed, as in 'condition ? 1 : 0'");
  check("x < y < 3 ? 1 : 0", 2,
        "'<' gives a condition, but an operand of '<' is a number; turn it into one with '? 1 : 0'");
  check("x ? 1 : 0", 0, "'x' gives a number, but the condition of '?' is a condition; compare it, as in 'x != 0'");
  check("!x ? 1 : 0", 1, "'x' gives a number, but an operand of '!' is a condition; compare it, as in 'x != 0'");
  check("exp(x > 0)", 6,
        "'>' gives a condition, but an argument of 'exp' is a number; turn it into one with '? 1 : 0'");
  check("x > 0 ? y > 0 : 1", 10,
        "'>' gives a condition, but a branch of '?' is a number; turn it into one with '? 1 : 0'");
  check("1e", 2, "the exponent has no digits");
  check("1e+", 3, "the exponent has no digits");
  check("2.0f", 3, "'f' follows a number; a number is written 2, 0.5 or 1e-3, without a suffix");
  check("1.2.3", 3, "'.' follows a number; a number is written 2, 0.5 or 1e-3, without a suffix");
  check("1e39", 0, "'1e39' is outside the range of float32");
  check("1e-60", 0, "'1e-60' is outside the range of float32");
  const std::string language =
      " is not part of the language; allowed numbers, names, calls, ( ) and + - * / < <= > >= == != && || ! ? :";
  check("x = y", 2, "'='" + language + "; did you mean '=='?");
  check("x & y", 2, "'&'" + language + "; did you mean '&&'?");
  check("x; y", 1, "';'" + language);
  check("x\"", 1, "'\"'" + language);
  check("x + \xc3\xa9", 4, "byte 0xc3" + language);
  check(std::string_view("x\0", 2), 1, "byte 0x00" + language);
  check("+x", 0, "'+' where a value is expected");
}

TEST_CASE("the message shows the text with a caret below the word") {
  CHECK_THROWS_WITH_AS((void)Expression::parse("x +\tbais", kNames),
                       "column 5: 'bais' is not a name here; allowed x, y, bias; did you mean 'bias'?\n"
                       "  x + bais\n"
                       "      ^",
                       ExpressionError);
}

TEST_CASE("the caret of a long text stands below its word") {
  const std::string text = repeated("x + ", 50) + "q" + repeated(" + x", 40);
  try {
    (void)Expression::parse(text, kNames);
    FAIL("accepted");
  } catch (const ExpressionError& error) {
    const std::string message = error.what();
    const std::size_t first = message.find('\n'), second = message.find('\n', first + 1);
    const std::size_t caret = message.size() - 1 - (second + 1);
    CHECK(message[first + 1 + caret] == 'q');
    CHECK(second - first < 110);
  }
}

TEST_CASE("length and depth have stated limits") {
  CHECK(value_of(repeated("(", 127) + "x" + repeated(")", 127), 5) == 5);
  CHECK(value_of(repeated("-", 127) + "x", 5) == -5);
  CHECK(value_of(repeated("abs(", 127) + "x" + repeated(")", 127), -5) == 5);
  for (const std::string_view opening : {"(", "-", "abs("}) {
    const Refusal refused = refusal_of(repeated(opening, 128) + "x");
    CHECK(refused.fact == "the expression nests too deeply; at most 128 levels are allowed");
    CHECK(refused.position == 128 * opening.size());
  }
  CHECK(value_of("x" + repeated("+x", 127), 1) == 128);
  CHECK(refusal_of("x" + repeated("+x", 128)).fact ==
        "the expression nests too deeply; at most 128 levels are allowed");
  CHECK(refusal_of(repeated("(", 4000)).fact == "the expression nests too deeply; at most 128 levels are allowed");
  CHECK(refusal_of(repeated("-", 4000) + "x").fact ==
        "the expression nests too deeply; at most 128 levels are allowed");
  CHECK(refusal_of(repeated("abs(", 1000)).fact == "the expression nests too deeply; at most 128 levels are allowed");
  CHECK(refusal_of(repeated("x>0?x:", 600)).fact == "the expression nests too deeply; at most 128 levels are allowed");
  CHECK(refusal_of(repeated(" ", 4097)).fact == "the expression has 4097 characters; at most 4096 are allowed");
  CHECK(refusal_of(repeated("x", 1000000)).position == 4096);
}

TEST_CASE("a product in a sum is part of an fma, of two products the first") {
  CHECK(emitted("x + y * bias") == "moegen::math::fma(in_y, in_bias, in_x)");
  CHECK(emitted_short("x * y + bias") == "fma(in_x, in_y, in_bias)");
  CHECK(emitted_short("x * y - bias") == "fma(in_x, in_y, -in_bias)");
  CHECK(emitted_short("x - y * bias") == "fma(-in_y, in_bias, in_x)");
  CHECK(emitted_short("x * y - -bias") == "fma(in_x, in_y, -(-in_bias))");
  CHECK(emitted_short("x * 2 - -1 * y") == "fma(in_x, 2.0f, -multiply((-1.0f), in_y))");
  CHECK(emitted_short("x * y + y * bias") == "fma(in_x, in_y, multiply(in_y, in_bias))");
  CHECK(emitted_short("x + y * bias + 1 - x / y") ==
        "subtract(add(fma(in_y, in_bias, in_x), 1.0f), divide(in_x, in_y))");
  CHECK(emitted_short("-(x * y) + bias") == "add((-multiply(in_x, in_y)), in_bias)");
}

TEST_CASE("emitted text nests less deeply than compilers allow") {
  const std::string text = emitted("x" + repeated("+x", 127));
  int depth = 0, deepest = 0;
  for (char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  CHECK(depth == 0);
  CHECK(deepest == 127);
}

TEST_CASE("each place knows its names and the names it cannot lend") {
  const ExpressionPlace& place = expression_place("/finalize/epilogue");
  const ExpressionConfig config{"value * scale + token", {{"scale", Dtype::float32, "columns"}}};
  CHECK(names_at(place, config.inputs) == std::vector<std::string>{"value", "token", "col", "scale"});
  CHECK(parse_at(place, config).inputs_used() == std::vector<std::string>{"value", "token", "scale"});
  CHECK_FALSE(refuse_input_name(place, "scale"));
  CHECK(*refuse_input_name(place, "value") == "'value' is taken here; the names value, token, col are always there");
  CHECK(*refuse_input_name(place, "exp") == "'exp' is a function; choose another name");
  for (const char* name : {"", "1x", "a-b", "a b", "\xc3\xa9"}) CHECK(refuse_input_name(place, name));
  CHECK(refuse_input_name(place, std::string(65, 'a')));
  CHECK_THROWS_AS((void)expression_place("/finalize"), Error);
}

TEST_CASE("errors are carried through an expression") {
  const std::vector<std::string> names = {"a", "b"};
  const auto at = [&](std::string_view text, double a, double b, double error) {
    return Expression::parse(text, names).evaluate(std::vector<double>{a, b}, std::vector<double>{error, 0.0});
  };
  CHECK(at("a - b", 1, 1, 1e-6).value == 0);
  CHECK(at("a - b", 1, 1, 1e-6).error == doctest::Approx(1e-6));  // nothing is left of the values, all of the error
  CHECK(at("a * 3", 2, 0, 1e-6).error > 3e-6);
  CHECK(at("a * 3", 2, 0, 1e-6).error < 4e-6);
  CHECK(at("exp(a)", 0, 0, 0).error > 0);
  CHECK(at("a > b ? 10 : 20", 1, 2, 0).error == 0);
  CHECK(at("a > b ? 10 : 20", 1, 1.0000001, 1e-6).error == 10);  // the comparison may go either way
  CHECK(at("min(a, b)", 5, 1, 1e-6).error < 1e-6);
}

TEST_CASE("bounds know the range of float32") {
  const std::vector<std::string> names = {"a", "b"};
  const auto at = [&](std::string_view text, double a) {
    return Expression::parse(text, names).evaluate(std::vector<double>{a, 0.0}, std::vector<double>(2, 0.0));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(at("a * 1e38 * 1e-38", 4).value == kInfinity);
  CHECK(at("a * 1e38 * 1e-38", 4).error == 0);
  CHECK(at("exp(a)", 100).value == kInfinity);
  CHECK(at("1 / (a * 1e38)", 4).value == 0);
  CHECK(at("0 - a * 2", -3e38).error == kInfinity);  // a contracted product: 6e38, and infinity too, but nobody knows
  CHECK(at("a * 1e38 - 3e38", 4).error == kInfinity);
  CHECK(at("clamp(a * 1e38, -1, 1)", 4).value == 1);
  CHECK(at("a * 2", double{std::numeric_limits<float>::max()} / 2).error == kInfinity);  // the edge
  CHECK(at("a > 0 ? 1 : a * 2 * 1e38 - 1", 3e38).error == 0);                            // not taken
  CHECK(at("a * 1", 0x1p-140).error >= 0x1p-149);                                        // absolute, not relative
  CHECK(at("a * 0.5", 3e38).error < 1e32);
}
