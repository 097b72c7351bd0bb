// SPDX-License-Identifier: Apache-2.0
// tests/reject: one bad config and its exact message for every message that reading a config can give.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

using namespace moegen;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = MOEGEN_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<fs::path> cases() {
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(kSource / "tests/reject"))
    if (entry.path().extension() == ".json") paths.insert(entry.path());
  return paths;
}

std::string expected_of(fs::path path) { return read(path.replace_extension(".txt")); }

// The string literals of a C++ text, neighbours joined as the compiler joins them.
class Literals {
 public:
  explicit Literals(std::string_view code) : code_(code) {}

  std::vector<std::string> all() {
    while (at_ < code_.size()) step();
    return std::move(found_);
  }

 private:
  void step() {
    const char c = code_[at_];
    if (code_.substr(at_).starts_with("//"))
      skip_line();
    else if (c == '\'')
      skip_character();
    else if (c == '"')
      take();
    else {
      joined_ = joined_ && (c == ' ' || c == '\n');
      ++at_;
    }
  }

  void skip_line() { at_ = std::min(code_.find('\n', at_), code_.size()); }
  void skip_character() { at_ = code_.find('\'', at_ + (code_[at_ + 1] == '\\' ? 3 : 1)) + 1; }

  void take() {
    if (!joined_) found_.emplace_back();
    for (++at_; code_[at_] != '"'; ++at_) {
      if (code_[at_] == '\\') ++at_;
      found_.back() += code_[at_];
    }
    ++at_;
    joined_ = true;
  }

  std::string_view code_;
  std::size_t at_ = 0;
  bool joined_ = false;
  std::vector<std::string> found_;
};

// Messages have the form "fact; what is allowed", so their literals are told by the semicolon.
std::vector<std::string> messages_of(const std::string& file) {
  const std::string code = read(kSource / "generator" / file);
  REQUIRE(code.size() > 500);
  std::vector<std::string> messages;
  for (const std::string& literal : Literals(code).all())
    if (literal.find("; ") != std::string::npos) messages.push_back(literal);
  return messages;
}

// True if `text` holds the pieces of `message` between its {} in their order.
bool shows(std::string_view text, std::string_view message) {
  while (!message.empty()) {
    const std::size_t brace = std::min(message.find("{}"), message.size());
    const std::size_t found = text.find(message.substr(0, brace));
    if (found == text.npos) return false;
    text.remove_prefix(found + brace);
    message.remove_prefix(std::min(brace + 2, message.size()));
  }
  return true;
}

}  // namespace

TEST_CASE("every bad config is refused with its exact message") {
  const auto paths = cases();
  REQUIRE(paths.size() > 100);
  for (const fs::path& path : paths) {
    CAPTURE(path.filename().string());
    try {
      Config::from_json(read(path), path.filename().string());
      FAIL_CHECK("was read");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::config);
      CHECK(std::string(error.what()) + "\n" == expected_of(path));
    }
  }
}

TEST_CASE("every expected message belongs to a bad config, and no two are the same") {
  std::set<std::string> texts;
  for (const auto& entry : fs::directory_iterator(kSource / "tests/reject")) {
    CAPTURE(entry.path().string());
    fs::path config = entry.path();
    CHECK(fs::exists(config.replace_extension(".json")));
    if (entry.path().extension() != ".txt") continue;
    const std::string text = read(entry.path());
    CHECK(texts.insert(text.substr(text.find(".json") + 5)).second);
  }
  CHECK(texts.size() == cases().size());
}

TEST_CASE("every message in the code has a bad config") {
  std::vector<std::string> expected;
  for (const fs::path& path : cases()) expected.push_back(expected_of(path));
  std::size_t count = 0;
  for (const char* file :
       {"config_reader.cpp", "config_reader_expression.cpp", "config_rules.cpp", "json_reader.cpp"}) {
    for (const std::string& message : messages_of(file)) {
      CAPTURE(message);
      CHECK(
          std::any_of(expected.begin(), expected.end(), [&](const std::string& text) { return shows(text, message); }));
      ++count;
    }
  }
  CHECK(count > 50);
}

TEST_CASE("the coverage check itself can fail") {
  CHECK(shows("x.json: /a: is 3; allowed 4", "is {}; allowed {}"));
  CHECK_FALSE(shows("x.json: /a: is 3; allowed 4", "is {}; only {}"));
  CHECK(Literals("f('\"', \"a; \"\n  \"b\"); // \"c\"\ng(\"d\")").all() == std::vector<std::string>{"a; b", "d"});
}
