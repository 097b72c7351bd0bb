// SPDX-License-Identifier: Apache-2.0
// EngineOptions::from_environment: every variable, and the exact words for each that is wrong.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

using namespace moegen;

namespace {

/// Sets variables for one test and clears all of moegen's before and after.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> variables) {
    clear();
    for (const auto& [name, value] : variables) {
      setenv(name, value.c_str(), 1);
      names_.emplace_back(name);
    }
  }
  ~Environment() { clear(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void clear() {
    for (const char* name : {"MOEGEN_CACHE_DIR", "MOEGEN_PACKS", "MOEGEN_JIT", "MOEGEN_LOG", "MOEGEN_TEMPLATE_DIR"})
      unsetenv(name);
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  std::vector<std::string> names_;
};

std::string refusal() {
  try {
    EngineOptions::from_environment();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  return "nothing was thrown";
}

/// A file that exists while the test runs.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name) : path_(std::filesystem::temp_directory_path() / name) {
    std::ofstream(path_) << "x";
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("an empty environment gives the defaults") {
  const Environment environment{{"MOEGEN_JIT", ""}, {"MOEGEN_PACKS", ""}};
  const EngineOptions options = EngineOptions::from_environment();
  CHECK(options.cache_dir.empty());
  CHECK(options.packs.empty());
  CHECK(options.jit);
  CHECK(options.log_level == LogLevel::warning);
  CHECK_FALSE(options.template_dir.has_value());
}

TEST_CASE("every variable is read") {
  const TemporaryFile first("moegen_options_a.pack"), second("moegen_options_b.pack");
  const std::string folder = std::filesystem::temp_directory_path().string();
  const Environment environment{{"MOEGEN_CACHE_DIR", "/somewhere/else"},
                                {"MOEGEN_PACKS", first.path() + ":" + second.path()},
                                {"MOEGEN_JIT", "off"},
                                {"MOEGEN_LOG", "debug"},
                                {"MOEGEN_TEMPLATE_DIR", folder},
                                {"MOEGEN_REQUIRE_GPU", "0"}};
  const EngineOptions options = EngineOptions::from_environment();
  CHECK(options.cache_dir == "/somewhere/else");
  REQUIRE(options.packs.size() == 2);
  CHECK(options.packs[1] == second.path());
  CHECK_FALSE(options.jit);
  CHECK(options.log_level == LogLevel::debug);
  CHECK(options.template_dir == folder);
}

TEST_CASE("every level has its word") {
  const std::vector<std::pair<std::string, LogLevel>> levels = {
      {"off", LogLevel::off}, {"warning", LogLevel::warning}, {"info", LogLevel::info}, {"debug", LogLevel::debug}};
  for (const auto& [word, level] : levels) {
    const Environment environment{{"MOEGEN_LOG", word}};
    CHECK(EngineOptions::from_environment().log_level == level);
  }
  const Environment environment{{"MOEGEN_JIT", "on"}};
  CHECK(EngineOptions::from_environment().jit);
}

TEST_CASE("a word that is not allowed is refused with the nearest one") {
  {
    const Environment environment{{"MOEGEN_JIT", "offf"}};
    CHECK(refusal() == "environment: MOEGEN_JIT is 'offf'; allowed off, on; did you mean 'off'?");
  }
  {
    const Environment environment{{"MOEGEN_JIT", "0"}};
    CHECK(refusal() == "environment: MOEGEN_JIT is '0'; allowed off, on");
  }
  const Environment environment{{"MOEGEN_LOG", "warn1ng"}};
  CHECK(refusal() ==
        "environment: MOEGEN_LOG is 'warn1ng'; allowed off, warning, info, debug; did you mean 'warning'?");
}

TEST_CASE("a relative cache folder is refused") {
  const Environment environment{{"MOEGEN_CACHE_DIR", "cache"}};
  CHECK(refusal() == "environment: MOEGEN_CACHE_DIR is 'cache'; allowed an absolute path");
}

TEST_CASE("a pack that is not there is refused by name") {
  const TemporaryFile there("moegen_options_c.pack");
  const std::string value = there.path() + ":/not/there.pack";
  const Environment environment{{"MOEGEN_PACKS", value}};
  CHECK(refusal() == "environment: MOEGEN_PACKS is '" + value +
                         "' and names '/not/there.pack', which is no file; allowed pack files separated by ':'");
}

TEST_CASE("a template folder that is not there is refused") {
  const Environment environment{{"MOEGEN_TEMPLATE_DIR", "/not/there"}};
  CHECK(refusal() == "environment: MOEGEN_TEMPLATE_DIR is '/not/there', which is no folder; allowed a folder");
}

TEST_CASE("a variable that moegen does not have is refused, not ignored") {
  const Environment environment{{"MOEGEN_JTI", "off"}};
  CHECK(refusal() ==
        "environment: MOEGEN_JTI is no variable of moegen; allowed MOEGEN_CACHE_DIR, MOEGEN_JIT, MOEGEN_LOG, "
        "MOEGEN_PACKS, MOEGEN_REQUIRE_GPU, MOEGEN_TEMPLATE_DIR; did you mean 'MOEGEN_JIT'?");
}
