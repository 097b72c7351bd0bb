// SPDX-License-Identifier: Apache-2.0
// Templates with a bug seeded into them, for an Engine's template_dir.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

namespace moegen::test {

/// The templates of this tree: of the folder the tests run in, where they were built elsewhere.
inline std::filesystem::path templates() {
  return std::filesystem::exists("templates/core/types.cuh") ? "templates" : MOEGEN_SOURCE_DIR "/templates";
}

/// A copy of the templates in which `edit.right` in `edit.file` is `edit.wrong`, gone at the end.
class EditedTemplates {
 public:
  template <class Edit>
  explicit EditedTemplates(const Edit& edit)
      : path_(std::filesystem::temp_directory_path() / ("moegen-edited-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(templates(), path_, std::filesystem::copy_options::recursive);
    std::string text = read(path_ / edit.file);
    const std::size_t at = text.find(edit.right);
    REQUIRE_MESSAGE(at != std::string::npos, edit.name);  // the template changed: seed the bug anew
    text.replace(at, edit.right.size(), edit.wrong);
    std::ofstream(path_ / edit.file, std::ios::binary) << text;
  }
  ~EditedTemplates() { std::filesystem::remove_all(path_); }
  EditedTemplates(const EditedTemplates&) = delete;
  EditedTemplates& operator=(const EditedTemplates&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path path_;
};

}  // namespace moegen::test
