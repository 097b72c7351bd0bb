// SPDX-License-Identifier: Apache-2.0
// parse_json and read_text; tests/reject has the exact text of their located errors.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

#include "json_reader.hpp"
#include "text_file.hpp"

using namespace moegen;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A folder of its own, gone with the test.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / ("moegen_json_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string refusal(const fs::path& path) {
  try {
    read_text(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

constexpr const char* kWants = "; give the path of a JSON file, or '-' for standard input";

}  // namespace

TEST_CASE("comments, a byte order mark and every kind of value are read") {
  const json tree =
      parse_json("\xEF\xBB\xBF// one\n{\"a\": [1, -2, 2.5, true, null, \"x\"], /* two */ \"b\": {\"c\": []}}", "t");
  CHECK(tree == json{{"a", {1, -2, 2.5, true, nullptr, "x"}}, {"b", {{"c", json::array()}}}});
}

TEST_CASE("a key may stand in several objects and lists may nest to the limit") {
  CHECK(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "t")[1]["a"]["a"] == 2);
  const std::string deep = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  CHECK(parse_json(deep, "t").is_array());
  CHECK_THROWS_AS(parse_json("[" + deep + "]", "t"), Error);
}

TEST_CASE("a very deep text is refused without being followed") {
  std::string text;
  text.resize(10'000'000, '[');
  CHECK_THROWS_AS(parse_json(text, "t"), Error);
}

TEST_CASE("whatever place a text is cut at gives an error with a line and a column, or a config") {
  const std::string text = "{\n  \"moegen\": 1, // c\n  \"a\": [1.5e3, \"x\\n\", {\"b\": null}]\n}";
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    try {
      parse_json(text.substr(0, size), "t");
      FAIL_CHECK("was read");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).starts_with("t:"));
    }
  }
  CHECK(parse_json(text, "t").size() == 2);
}

TEST_CASE("pointers escape what JSON pointers escape, and stay on one line") {
  CHECK(child_pointer("/a", "b/c~d") == "/a/b~1c~0d");
  CHECK(child_pointer("", "x\ny") == "/x?y");
  CHECK(printable(std::string(100, 'x')) == std::string(80, 'x') + "...");
  CHECK(printable(std::string(79, 'x') + "\xC3\xA9z") == std::string(79, 'x') + "...");
}

TEST_CASE("a config comes from a file and keeps its name") {
  const Scratch scratch;
  const fs::path path = scratch.write("c.json", R"({"moegen": 1, "name": "x", "hidden": 256, "intermediate": 128,
      "num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"}})");
  CHECK(Config::from_file(path).origin() == path.string());
}

TEST_CASE("what is no readable file is refused with the reason") {
  const Scratch scratch;
  const std::string folder = scratch.path().string();
  CHECK(refusal(folder) == folder + ": is a folder" + kWants);
  CHECK(refusal(folder + "/none.json") == folder + "/none.json: cannot be opened: No such file or directory" + kWants);
  CHECK(refusal("/dev/zero") == std::string("/dev/zero: is larger than 4 MiB") + kWants);
  CHECK_THROWS_AS(Config::from_file(scratch.write("empty.json", "")), Error);
}

TEST_CASE("a file that may not be read is refused" * doctest::skip(geteuid() == 0)) {
  const Scratch scratch;
  const fs::path path = scratch.write("secret.json", "{}");
  fs::permissions(path, fs::perms::none);
  CHECK(refusal(path) == path.string() + ": cannot be opened: Permission denied" + kWants);
}
