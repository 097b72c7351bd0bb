// SPDX-License-Identifier: Apache-2.0
#include "json_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::config, message); }

// ---- files ----

constexpr std::string_view kWantsFile = "give the path of a JSON file, or '-' for standard input";

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

std::string read_stream(std::FILE* stream, std::string_view origin) {
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), stream)) {
    text.append(buffer.data(), count);
    if (text.size() > kMaxTextBytes)
      fail(fmt::format("{}: is larger than {} MiB; {}", origin, kMaxTextBytes >> 20, kWantsFile));
  }
  if (std::ferror(stream) != 0)
    fail(fmt::format("{}: cannot be read: {}; {}", origin, std::strerror(errno), kWantsFile));
  return text;
}

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

// The parser's own sentence without its error number, its position (ours is better) and its copy of the text.
std::string fact_of(const nlohmann::detail::exception& error) {
  std::string_view what = error.what();
  if (error.id == 406) return "the number is too large; at most 1.7976931348623157e308 is allowed";
  const std::string_view dash = " - ";
  if (const std::size_t at = what.find(dash); at != what.npos) what.remove_prefix(at + dash.size());
  return std::string(what.substr(0, what.find("; last read:")));
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
    const Position position = locate(text_, bytes_read == 0 ? 0 : bytes_read - 1);
    fail(fmt::format("{}:{}:{}: {}\n{}", origin_, position.line, position.column, fact_of(error), excerpt(position)));
  }

 private:
  struct Level {
    json* container = nullptr;
    std::string key;  // the key being read, where `container` is an object
  };

  // Pointer of the innermost value inside the first `levels` open containers.
  std::string pointer(std::size_t levels) const {
    std::string result;
    for (std::size_t i = 0; i < levels; ++i) {
      const Level& level = levels_[i];
      const std::string step = level.container->is_object() ? level.key : std::to_string(level.container->size() - 1);
      result = child_pointer(result, step);
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

std::string_view without_bom(std::string_view text, std::string_view origin) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    fail(fmt::format("{}: is UTF-16 text; only UTF-8 is allowed", origin));
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace

std::string text_origin(const std::filesystem::path& path) { return path == "-" ? "<stdin>" : path.string(); }

std::string read_text(const std::filesystem::path& path) {
  const std::string origin = text_origin(path);
  if (path == "-") return read_stream(stdin, origin);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(fmt::format("{}: is a folder; {}", origin, kWantsFile));
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(fmt::format("{}: cannot be opened: {}; {}", origin, std::strerror(errno), kWantsFile));
  return read_stream(file.get(), origin);
}

json parse_json(std::string_view text, std::string_view origin) {
  text = without_bom(text, origin);
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
