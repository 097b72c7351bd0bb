// SPDX-License-Identifier: Apache-2.0
// cache ls|stats|where|verify|gc|explain on a cache that build has filled. Needs NVRTC, no GPU.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/with_nvrtc.hpp"

using namespace moegen::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct FilledFolder : BuildFolder {
  FilledFolder() { build(); }

  /// Two kernels that compile quickly: what the cache does with an entry is the same for all.
  nlohmann::json build(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"build", config, "--kernel", "activation,finalize"};
    args.insert(args.end(), more.begin(), more.end());
    return json(args);
  }

  /// Flips one byte in the middle of one entry and returns its path.
  fs::path damage() const {
    const auto entries = json({"cache", "ls"})["entries"];
    const fs::path file = entries[0]["path"].get<std::string>();
    std::string bytes = read_text(file);
    bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
    write_text(file, bytes);
    return file;
  }
};

}  // namespace

TEST_CASE("where says which folder and why") {
  const TemporaryFolder folder;
  CHECK(run_moegen({"cache", "where"}, folder / "c").out == (folder / "c").string() + "\n");
  const Outcome home = run({.args = {"cache", "where", "--json"}, .env = {{"HOME", folder.path().string()}}});
  CHECK(json::parse(home.out) == json{{"directory", (folder / ".cache/moegen").string()}, {"variable", "HOME"}});
  CHECK_FALSE(fs::exists(folder / ".cache"));
  for (const std::string command : {"where", "ls", "stats", "verify", "gc"}) {
    const Outcome none = run({.args = {"cache", command}, .env = {{"HOME", std::nullopt}}});
    CAPTURE(command);
    CHECK(none.exit_code == 1);
    CHECK(none.out == "");
    CHECK(none.err == "moegen: there is no cache folder: kernels stay in memory; set MOEGEN_CACHE_DIR or HOME\n");
  }
}

TEST_CASE("a cache that does not exist yet is empty, and looking does not make it") {
  const TemporaryFolder folder;
  CHECK(json::parse(run_moegen({"cache", "stats", "--json"}, folder / "c").out) ==
        json{{"entries", 0}, {"bytes", 0}, {"hits", 0}, {"compiled", 0}, {"corrupt", 0}});
  CHECK(json::parse(run_moegen({"cache", "ls", "--json"}, folder / "c").out) == json{{"entries", json::array()}});
  CHECK(run_moegen({"cache", "verify"}, folder / "c").exit_code == 0);
  CHECK_FALSE(fs::exists(folder / "c"));
}

TEST_CASE("a cache folder that is none is refused by every command that looks into it") {
  const TemporaryFolder folder;
  write_text(folder / "c", "no folder");
  for (const std::string command : {"ls", "stats", "verify", "gc"}) {
    const Outcome none = run_moegen({"cache", command}, folder / "c");
    CAPTURE(command);
    CHECK(none.exit_code == 1);
    CHECK(none.out == "");
    CHECK(none.err == "moegen: cache folder '" + (folder / "c").string() +
                          "' is not used: cannot open it: Not a directory; set MOEGEN_CACHE_DIR to a folder of your "
                          "own\n");
  }
  CHECK(run_moegen({"cache", "where"}, folder / "c").out == (folder / "c").string() + "\n");
}

TEST_CASE("a cache that can only be read is read, and not collected") {
  if (::geteuid() != 0) return;
  const FilledFolder folder;
  const unsigned nobody = 65534;
  for (const auto& item : fs::recursive_directory_iterator(folder.path()))
    CHECK(::lchown(item.path().c_str(), nobody, nobody) == 0);
  CHECK(::lchown(folder.path().c_str(), nobody, nobody) == 0);
  fs::permissions(folder.cache, fs::perms::owner_read | fs::perms::owner_exec);
  const fs::path program = copy_program(folder.path() / "installed");
  const auto run_as_nobody = [&](const std::string& command) {
    return run({.args = {"cache", command},
                .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}},
                .user = nobody,
                .program = program});
  };
  CHECK(run_as_nobody("verify").out == "2 of 2 files are sound\n");
  const Outcome collected = run_as_nobody("gc");
  CHECK(collected.exit_code == 1);
  CHECK(collected.err == "moegen: cache folder '" + folder.cache.string() + "' cannot be written: Permission denied\n");
}

TEST_CASE("stats count entries, hits and compiles") {
  const FilledFolder folder;
  const json before = folder.json({"cache", "stats"});
  const int entries = before["entries"].get<int>();
  CHECK(entries >= 2);
  CHECK(before["compiled"] == entries);
  CHECK(before["bytes"].get<int>() > 2000);
  folder.build();
  const json after = folder.json({"cache", "stats"});
  CHECK(after["compiled"] == entries);
  CHECK(after["hits"].get<int>() == before["hits"].get<int>() + entries);
}

TEST_CASE("ls shows what is there") {
  const FilledFolder folder;
  const json entries = folder.json({"cache", "ls"})["entries"];
  REQUIRE(entries.size() >= 2);
  for (const auto& entry : entries) {
    CHECK(fs::exists(entry["path"].get<std::string>()));
    CHECK(entry["arch"] == "sm_90a");
    CHECK(entry["target"] == "cuda");
    CHECK(entry["compiler"].get<std::string>().starts_with("nvrtc-"));
    CHECK(entry["bad"].is_null());
  }
  const std::string text = folder.run({"cache", "ls"}).out;
  CHECK(text.find("activation  sm_90a  cuda    nvrtc-") != std::string::npos);
}

TEST_CASE("verify finds a flipped byte, and the next build repairs it") {
  const FilledFolder folder;
  CHECK(folder.run({"cache", "verify"}).exit_code == 0);
  const fs::path damaged = folder.damage();
  const Outcome outcome = folder.run({"cache", "verify", "--json"});
  CHECK(outcome.exit_code == 1);
  const json report = json::parse(outcome.out);
  CHECK(report["entries"].get<int>() >= 2);
  REQUIRE(report["bad"].size() == 1);
  CHECK(report["bad"][0]["path"] == damaged.string());
  CHECK(folder.run({"cache", "ls"}).out.find(damaged.string() + ": ") != std::string::npos);

  const json rebuilt = folder.build();
  CHECK(rebuilt.dump().find("\"compiled\"") != std::string::npos);
  CHECK(folder.json({"cache", "stats"})["corrupt"] == 1);
}

TEST_CASE("gc keeps to a size") {
  const FilledFolder folder;
  CHECK(folder.json({"cache", "gc"})["freed_bytes"] == 0);
  const json nothing = folder.json({"cache", "gc", "--max-size", "0"});
  CHECK(nothing["freed_bytes"].get<int>() > 2000);
  CHECK(nothing["entries"] == 0);
  CHECK(nothing["bytes"] == 0);
  CHECK(folder.run({"cache", "gc", "--max-size", "1K"}).out == "freed 0 bytes; 0 entries with 0 bytes remain\n");
}

TEST_CASE("explain shows where a key is found") {
  const FilledFolder folder;
  const json built = folder.build()["kernels"];
  const json explained = folder.json({"cache", "explain", folder.config, "--kernel", "activation,finalize"})["kernels"];
  REQUIRE(explained.size() == built.size());
  for (std::size_t i = 0; i < built.size(); ++i) {
    CHECK(explained[i]["kernel"] == built[i]["kernel"]);
    CHECK(explained[i]["key"] == built[i]["keys"][0]);
    CHECK(fs::exists(explained[i]["found"].get<std::string>()));
    CHECK(explained[i]["differs"].empty());
    CHECK(explained[i]["fields"].size() >= 4);
  }
}

TEST_CASE("explain says which field of the nearest entry differs") {
  const FilledFolder folder;
  const json arch = folder.json({"cache", "explain", folder.config, "--kernel", "finalize", "--arch", "sm_80"});
  const json& miss = arch["kernels"][0];
  CHECK(miss["found"].is_null());
  CHECK(fs::exists(miss["nearest"].get<std::string>()));
  REQUIRE(miss["differs"].size() == 3);
  CHECK(miss["differs"][0] == json{{"name", "arch"}, {"wanted", "sm_80"}, {"stored", "sm_90a"}});
  CHECK(miss["differs"][1]["name"] == "flag");
  CHECK(miss["differs"][2]["name"] == "source");

  std::string other = small_config();
  other.replace(other.find("1024"), 4, "2048");
  write_text(folder / "other.json", other);
  const json source = folder.json({"cache", "explain", (folder / "other.json").string(), "--kernel", "finalize"});
  REQUIRE(source["kernels"][0]["differs"].size() == 1);
  CHECK(source["kernels"][0]["differs"][0]["name"] == "source");

  const std::string text = folder.run({"cache", "explain", folder.config, "--arch", "sm_80"}).out;
  CHECK(text.find("not found; nearest is ") != std::string::npos);
  CHECK(text.find("arch: wanted 'sm_80', stored 'sm_90a'") != std::string::npos);
}

TEST_CASE("explain looks into packs, and compares with nothing where there is nothing") {
  const FilledFolder folder;
  const std::string pack = (folder / "x.pack").string();
  folder.build({"-o", pack});
  const Outcome packed = run({.args = {"cache", "explain", folder.config, "--kernel", "finalize", "--json"},
                              .env = {{"MOEGEN_PACKS", pack}, {"HOME", std::nullopt}}});
  CHECK(json::parse(packed.out)["kernels"][0]["found"] == pack);
  const Outcome empty = run({.args = {"cache", "explain", folder.config}, .env = {{"HOME", std::nullopt}}});
  CHECK(empty.exit_code == 0);
  CHECK(empty.out.find("not found; the cache has no entry for this kernel to compare with") != std::string::npos);
}
