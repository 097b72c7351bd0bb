// SPDX-License-Identifier: Apache-2.0
// The configs that moegen ships.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

namespace moegen::test {

/// configs/models/*.json, sorted.
inline std::vector<std::filesystem::path> shipped_configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MOEGEN_SOURCE_DIR "/configs/models"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace moegen::test
