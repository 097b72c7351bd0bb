// SPDX-License-Identifier: Apache-2.0
// Kernel texts of tests: all of templates/core, and files of this tree, as an emitted source has them.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <moegen/source.hpp>

namespace moegen::test {

/// `text` without the lines that an emitted source has not.
inline std::string without_includes(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string out, line;
  while (std::getline(lines, line))
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) out += line + "\n";
  return out;
}

/// Every file of templates/core, included before including ones.
inline std::string core_text() {
  constexpr const char* kFiles[] = {
      "types.cuh",     "atomic.cuh",   "bits.cuh",      "thread.cuh",    "shared.cuh",      "shared_address.cuh",
      "warp.cuh",      "cluster.cuh",  "grid.cuh",      "memory.cuh",    "convert.cuh",     "narrow.cuh",
      "barrier.cuh",   "mbarrier.cuh", "bulk_copy.cuh", "tensor_map.h",  "tensor_copy.cuh", "copy_async.cuh",
      "matrix.cuh",    "mma.cuh",      "wgmma.cuh",     "registers.cuh", "timer.cuh",       "math.cuh",
      "approx.cuh",    "lanes.cuh",    "elements.cuh",  "experts.cuh",   "activation.cuh",  "quantize.cuh",
      "row_codes.cuh", "rows.cuh"};
  std::string text;
  for (const char* file : kFiles) text += without_includes(Templates::embedded().text(std::string("core/") + file));
  return text;
}

/// A file of this tree: from the folder that the test runs in, where the tree was built elsewhere.
inline std::string file_text(const std::string& path) {
  const std::filesystem::path here = std::filesystem::exists(path) ? path : std::string(MOEGEN_SOURCE_DIR "/") + path;
  std::ifstream file(here, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + here.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace moegen::test
