// SPDX-License-Identifier: Apache-2.0
// The bytes of a file that a user named, with errors that say what is wrong with it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace moegen {

/// Largest text that read_text takes, bytes: far above any config, far below what an endless device file would fill.
inline constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;

/// The bytes of `path`; "-" reads standard input.
/// Throws: config, as `FILE: fact; what is allowed`, for what is not a readable file of at most kMaxTextBytes.
std::string read_text(const std::filesystem::path& path);

/// What messages call `path`: its text, or "<stdin>" for "-".
std::string text_origin(const std::filesystem::path& path);

}  // namespace moegen
