// SPDX-License-Identifier: Apache-2.0
// JSON text into a value tree, with located errors. Knows JSON and nothing of configs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moegen {

/// Most nested arrays and objects that parse_json takes.
inline constexpr std::size_t kMaxJsonDepth = 64;

/// Parses one JSON value. Comments and a UTF-8 byte order mark are skipped.
/// Throws: config. A syntax error reads `ORIGIN:LINE:COLUMN: fact` and shows the line with a caret; a repeated key and
/// too deep a nesting read `ORIGIN: /json/pointer: fact; what is allowed`.
nlohmann::json parse_json(std::string_view text, std::string_view origin);

/// `pointer` followed by `key` as one more step, with '~' and '/' escaped as RFC 6901 says and nothing unprintable.
std::string child_pointer(std::string_view pointer, std::string_view key);

/// `text` fit for one line of a terminal: control characters and stray bytes become '?', and a long text is cut.
std::string printable(std::string_view text);

}  // namespace moegen
