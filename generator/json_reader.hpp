// SPDX-License-Identifier: Apache-2.0
// JSON text into a value tree, with located errors. Knows JSON and nothing of configs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moegen {

/// Most nested arrays and objects that parse_json takes.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// Largest text that read_text takes, bytes.
inline constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;

/// The bytes of `path`; "-" reads standard input.
/// Throws: config, as `FILE: fact; what is allowed`, for what is not a readable file of at most kMaxTextBytes.
std::string read_text(const std::filesystem::path& path);

/// What messages call `path`: its text, or "<stdin>" for "-".
std::string text_origin(const std::filesystem::path& path);

/// Parses one JSON value. Comments and a UTF-8 byte order mark are skipped.
/// Throws: config. A syntax error reads `ORIGIN:LINE:COLUMN: fact` and shows the line with a caret; a repeated key and
/// too deep a nesting read `ORIGIN: /json/pointer: fact; what is allowed`.
nlohmann::json parse_json(std::string_view text, std::string_view origin);

/// `pointer` followed by `key` as one more step, with '~' and '/' escaped as RFC 6901 says and nothing unprintable.
std::string child_pointer(std::string_view pointer, std::string_view key);

/// `text` fit for one line of a terminal: control characters and stray bytes become '?', and a long text is cut.
std::string printable(std::string_view text);

}  // namespace moegen
