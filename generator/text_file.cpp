// SPDX-License-Identifier: Apache-2.0
#include "text_file.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <moegen/error.hpp>

namespace moegen {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
};

[[noreturn]] void fail(std::string_view origin, std::string_view fact) {
  throw Error(ErrorCode::config,
              fmt::format("{}: {}; give the path of a JSON file, or '-' for standard input", origin, fact));
}

std::string reason(int error) { return std::generic_category().message(error); }

std::string read_stream(std::FILE* stream, std::string_view origin) {
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), stream)) {
    text.append(buffer.data(), count);
    if (text.size() > kMaxTextBytes) fail(origin, fmt::format("is larger than {} MiB", kMaxTextBytes >> 20));
  }
  if (std::ferror(stream) != 0) fail(origin, "cannot be read: " + reason(errno));
  return text;
}

}  // namespace

std::string text_origin(const std::filesystem::path& path) { return path == "-" ? "<stdin>" : path.string(); }

std::string read_text(const std::filesystem::path& path) {
  const std::string origin = text_origin(path);
  if (path == "-") return read_stream(stdin, origin);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(origin, "is a folder");
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(origin, "cannot be opened: " + reason(errno));
  return read_stream(file.get(), origin);
}

}  // namespace moegen
