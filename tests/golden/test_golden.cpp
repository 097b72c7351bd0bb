// SPDX-License-Identifier: Apache-2.0
// The plans of every shipped config and the sources of three, byte by byte; and that nothing but the plan shapes them.
// MOEGEN_UPDATE_GOLDEN=1 rewrites the files: read their diff as the effect of a change.
#include <array>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <moegen/config.hpp>
#include <moegen/source.hpp>

#include "support/shipped.hpp"

namespace {

using namespace moegen;

constexpr std::array<std::string_view, 3> kWholeSources = {"deepseek_v3", "gpt_oss_20b", "mixtral_8x7b"};

const std::filesystem::path& folder() {
  static const std::filesystem::path path = MOEGEN_SOURCE_DIR "/tests/golden";
  return path;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool updating() {
  const char* update = std::getenv("MOEGEN_UPDATE_GOLDEN");
  return update && std::string_view(update) == "1";
}

// The first line that differs, with its number.
std::string first_difference(const std::string& got, const std::string& want) {
  std::size_t line = 1, start = 0;
  for (std::size_t i = 0; i < got.size() && i < want.size() && got[i] == want[i]; ++i)
    if (got[i] == '\n') line += 1, start = i + 1;
  const auto text = [&](const std::string& all) { return all.substr(start, all.find('\n', start) - start); };
  return "line " + std::to_string(line) + "\n  got  " + text(got) + "\n  want " + text(want) +
         "\nif that is what the change should do: MOEGEN_UPDATE_GOLDEN=1 ctest -R golden";
}

void check_golden(const std::filesystem::path& path, const std::string& got) {
  if (updating()) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << got;
  }
  const std::string want = read(path);
  CAPTURE(path.filename());
  CHECK_MESSAGE(got == want, first_difference(got, want));
}

}  // namespace

TEST_CASE("the plan of every shipped config") {
  for (const auto& path : test::shipped_configs()) {
    const Config config = Config::from_file(path);
    for (const std::string& kernel : available_kernels_of(config)) {
      const Plan plan = make_plan(config, kernel, find_arch("sm_90a"));
      check_golden(folder() / "plans" / (path.stem().string() + "." + kernel + ".json"), plan.to_json());
    }
  }
}

TEST_CASE("the source of three configs") {
  for (std::string_view name : kWholeSources) {
    const Config config = Config::from_file(MOEGEN_SOURCE_DIR "/configs/models/" + std::string(name) + ".json");
    for (const std::string& kernel : available_kernels_of(config)) {
      const Source source = emit_source(make_plan(config, kernel, find_arch("sm_90a")));
      check_golden(folder() / "sources" / (std::string(name) + "." + kernel + ".cu"), source.text);
    }
  }
}

TEST_CASE("a source is the same in another folder and another locale, and includes nothing") {
  const std::filesystem::path here = std::filesystem::current_path();
  for (const auto& path : test::shipped_configs()) {
    const Config config = Config::from_file(path);
    for (const std::string& kernel : available_kernels_of(config)) {
      for (const Arch& arch : all_archs()) {
        const std::string first = emit_source(make_plan(config, kernel, arch)).text;
        std::filesystem::current_path("/");
        std::setlocale(LC_ALL, "de_DE.UTF-8");
        const std::string second = emit_source(make_plan(Config::from_file(path), kernel, arch)).text;
        std::setlocale(LC_ALL, "C");
        std::filesystem::current_path(here);
        CHECK(first == second);
        CHECK(first.find("#include") == std::string::npos);
      }
    }
  }
}
