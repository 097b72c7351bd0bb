// SPDX-License-Identifier: Apache-2.0
// Files that commands write: whole or not at all; and files that they read, as bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace moegen::cli {

/// Writes `text` to `path`: a temporary beside it, fsync, rename, so that an interrupted or failed write leaves what
/// was there before. A symbolic link keeps pointing where it does; a device or pipe is written to directly. Throws:
/// cache, naming the path and the reason.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The whole file; "-" is standard input. Throws: config, naming the path and the reason; also for more than
/// `max_bytes`, so that a device without an end is refused rather than read until memory is full.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace moegen::cli
