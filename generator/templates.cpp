// SPDX-License-Identifier: Apache-2.0
// Where device templates come from: the ones built in, or a folder.
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/source.hpp>

#include "embedded_templates.hpp"

namespace moegen {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw Error(ErrorCode::config, fmt::format("template folder: cannot read '{}'", path.string()));
  return text;
}

[[noreturn]] void refuse(std::string_view folder, std::string_view fact) {
  throw Error(ErrorCode::config,
              fmt::format("template folder '{}' {}; it must be a copy of moegen's templates/", folder, fact));
}

bool is_template(const std::filesystem::path& path) { return path.extension() == ".cuh" || path.extension() == ".h"; }

}  // namespace

const Templates& Templates::embedded() {
  static const Templates templates = [] {
    Templates built;
    for (std::size_t i = 0; i < kNumEmbeddedTemplates; ++i)
      built.files_.emplace(kEmbeddedTemplates[i].path, kEmbeddedTemplates[i].text);
    return built;
  }();
  return templates;
}

Templates Templates::from_directory(const std::filesystem::path& directory) {
  std::error_code error, ignored;
  if (!std::filesystem::is_regular_file(directory / "core" / "types.cuh", error))
    refuse(directory.string(), "holds no core/types.cuh");
  Templates read;
  read.folder_ = directory.string();
  std::filesystem::recursive_directory_iterator item(directory, error);
  for (; !error && item != std::filesystem::recursive_directory_iterator(); item.increment(error))
    if (item->is_regular_file(ignored) && is_template(item->path()))
      read.files_.emplace(item->path().lexically_relative(directory).generic_string(), read_file(item->path()));
  if (error) refuse(read.folder_, "cannot be read: " + error.message());
  return read;
}

std::string_view Templates::text(std::string_view path) const {
  const auto found = files_.find(path);
  if (found == files_.end() && !folder_.empty()) refuse(folder_, fmt::format("holds no {}", path));
  if (found == files_.end()) throw Error(ErrorCode::internal, fmt::format("no template '{}'", path));
  return found->second;
}

}  // namespace moegen
