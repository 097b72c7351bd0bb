// SPDX-License-Identifier: Apache-2.0
#include "json_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::config, message); }

// ---- positions ----

struct Position {
  std::size_t line = 1, column = 1;
  std::string_view source_line;
};

// `offset` may be one past the end, where the parser saw the end of input.
Position locate(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  const std::size_t line_end = std::min(text.find('\n', offset), text.size());
  return {1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')), 1 + offset - line_start,
          text.substr(line_start, line_end - line_start)};
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

// Where the token starts whose last byte is at `offset`: the parser only tells where it ends.
std::size_t token_start(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return offset;
  if (text[offset] == '"') {
    std::size_t start = offset;
    while (start > 0 && (text[start - 1] != '"' || (start > 1 && text[start - 2] == '\\'))) --start;
    return start > 0 ? start - 1 : offset;
  }
  while (offset > 0 && is_word(text[offset]) && is_word(text[offset - 1])) --offset;
  return offset;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

char shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x7F ? '?' : c;
}

// The source line around the caret, every byte one column wide.
std::string excerpt(const Position& position) {
  constexpr std::size_t kBefore = 60, kWidth = 100;
  const std::size_t caret = position.column - 1;
  const std::size_t from = caret > kBefore ? caret - kBefore : 0;
  std::string line(position.source_line.substr(std::min(from, position.source_line.size()), kWidth));
  std::transform(line.begin(), line.end(), line.begin(), [](char c) { return c == '\t' ? ' ' : shown(c); });
  while (!line.empty() && line.back() == '?' && position.source_line.ends_with('\r')) line.pop_back();
  return fmt::format("  {}\n  {}^", line, std::string(caret - from, ' '));
}

// The library's expectations in our words; a missing comma is what it calls an unexpected value.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kExpectations = {{
    {"expected '[', '{', or a literal", "expected a value"},
    {"expected string literal", "expected a key in double quotes"},
    {"expected end of input", "expected nothing after the value"},
    {"expected '}'", "expected ',' or '}'"},
    {"expected ']'", "expected ',' or ']'"},
    {"invalid literal", "invalid literal; keys and texts stand in double quotes, true, false and null in lower case"},
}};

// The parser's own sentence without its error number, its position (ours is better) and its copy of the text.
std::string fact_of(const nlohmann::detail::exception& error) {
  constexpr int kOutOfRange = 406;  // the library's number for a literal that no double holds
  if (error.id == kOutOfRange) return "the number is too large; at most 1.7976931348623157e308 is allowed";
  std::string_view what = error.what();
  constexpr std::string_view kDash = " - ";
  if (const std::size_t at = what.find(kDash); at != what.npos) what.remove_prefix(at + kDash.size());
  if (const std::size_t copy = what.find("last read: "); copy != what.npos) what = what.substr(0, copy - 2);
  for (const auto& [theirs, ours] : kExpectations)
    if (what.ends_with(theirs)) return fmt::format("{}{}", what.substr(0, what.size() - theirs.size()), ours);
  return std::string(what);
}

[[noreturn]] void fail_at(std::string_view text, std::string_view origin, std::size_t offset, std::string_view fact) {
  const Position position = locate(text, offset);
  fail(fmt::format("{}:{}:{}: {}\n{}", origin, position.line, position.column, fact, excerpt(position)));
}

// ---- tree ----

// Builds the tree itself, because the library's own builder lets a repeated key silently win.
class TreeBuilder final : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // no JSON text holds one
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (levels_.back().container->contains(name))
      fail(fmt::format("{}: {}: is given twice; a key may stand once in an object", origin_,
                       child_pointer(pointer(levels_.size() - 1), name)));
    levels_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t bytes_read, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string fact = fact_of(error);
    const std::size_t last = bytes_read == 0 ? 0 : bytes_read - 1;
    fail_at(text_, origin_, fact.starts_with("unexpected") ? token_start(text_, last) : last, fact);
  }

 private:
  struct Level {
    json* container = nullptr;
    std::string key;  // the key being read, where `container` is an object
  };

  // Pointer of the value that the first `levels` open containers are at. An array holds its open element already,
  // unless that element is the one about to be added to the innermost.
  std::string pointer(std::size_t levels) const {
    std::string result;
    for (std::size_t i = 0; i < levels; ++i) {
      const Level& level = levels_[i];
      const std::size_t index = level.container->size() - (i + 1 < levels_.size() ? 1 : 0);
      result = child_pointer(result, level.container->is_object() ? level.key : std::to_string(index));
    }
    return result;
  }

  template <class Value>
  json& add(Value&& value) {
    if (levels_.empty()) return root_ = std::forward<Value>(value);
    Level& level = levels_.back();
    if (level.container->is_object()) return (*level.container)[level.key] = std::forward<Value>(value);
    level.container->push_back(std::forward<Value>(value));
    return level.container->back();
  }

  template <class Value>
  bool put(Value&& value) {
    add(std::forward<Value>(value));
    return true;
  }

  bool open(json&& container) {
    if (levels_.size() == kMaxJsonDepth)
      fail(fmt::format("{}: {}: is nested too deeply; at most {} levels are allowed", origin_, pointer(levels_.size()),
                       kMaxJsonDepth));
    levels_.push_back({&add(std::move(container)), {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_, origin_;
  json root_;
  std::vector<Level> levels_;
};

// The library takes a NUL byte for the end of input and would not see what follows.
void refuse_nul(std::string_view text, std::string_view origin) {
  if (const std::size_t at = text.find('\0'); at != text.npos)
    fail_at(text, origin, at, "holds a NUL byte; only UTF-8 text without one is allowed");
}

std::string_view without_bom(std::string_view text, std::string_view origin) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    fail(fmt::format("{}: is UTF-16 text; only UTF-8 is allowed", origin));
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace

json parse_json(std::string_view text, std::string_view origin) {
  text = without_bom(text, origin);
  refuse_nul(text, origin);
  TreeBuilder builder(text, origin);
  json::sax_parse(text, &builder, json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return builder.take();
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::size_t length = std::min(text.size(), kMost);
  while (length < text.size() && length > 0 && is_continuation(text[length])) --length;
  std::string result(text.substr(0, length));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return length < text.size() ? result + "..." : result;
}

std::string child_pointer(std::string_view pointer, std::string_view key) {
  std::string result = fmt::format("{}/", pointer);
  for (char c : printable(key)) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

}  // namespace moegen
