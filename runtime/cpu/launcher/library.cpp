// SPDX-License-Identifier: Apache-2.0
#include "cpu/launcher/library.hpp"

#include <filesystem>
#include <memory>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "cpu/target.hpp"
#include "shared_library.hpp"

namespace moegen::cpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libmoegen_cpu.so";
constexpr std::string_view kHowToGetIt =
    "build moegen with -DMOEGEN_BUILD_CPU_TARGET=ON (needs llvm-19-dev, libclang-19-dev and libclang-cpp19-dev) and "
    "keep "
    "libmoegen_cpu.so beside the program or in ../lib";

using Factory = const Target* (*)(int version);

/// The target of the library in `file`; it stays loaded.
const Target* open_target(const std::string& file, std::string& why) {
  const auto library = SharedLibrary::open(file, why);
  if (!library) return nullptr;
  const auto factory = reinterpret_cast<Factory>(library->find("moegen_cpu_target"));
  const Target* target = factory ? factory(kTargetVersion) : nullptr;
  if (!target) {
    why = fmt::format("{} is of another version of moegen", file);
    return nullptr;
  }
  return target;
}

struct Loaded {
  const Target* target = nullptr;
  std::string why;
};

Loaded load_first() {
  std::vector<std::string> tried;
  for (const std::string& file : target_candidates()) {
    std::string why;
    if (const Target* target = open_target(file, why)) return {target, ""};
    tried.push_back(why);
  }
  return {nullptr, fmt::format("no {} can be used ({}); {}", kFileName, fmt::join(tried, "; "), kHowToGetIt)};
}

}  // namespace

std::vector<std::string> target_candidates() {
  std::vector<std::string> files;
  const auto add = [&](const fs::path& folder) { files.push_back((folder / kFileName).lexically_normal().string()); };
  if (const fs::path own = folder_of_this_code(); !own.empty()) {
    add(own);
    add(own / "../lib");
    add(own / "../" MOEGEN_LIBDIR);
  }
  if (const std::string_view built = MOEGEN_CPU_LIBRARY_DIR; !built.empty()) add(built);
  files.emplace_back(kFileName);
  return files;
}

const Target* load_target(std::string* why) {
  static const Loaded loaded = load_first();
  if (!loaded.target && why) *why = loaded.why;
  return loaded.target;
}

}  // namespace moegen::cpu
