// SPDX-License-Identifier: Apache-2.0
// build: compile, find again, pack, and survive what a machine may do to it. Needs NVRTC, no GPU.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>

#include "cli/with_nvrtc.hpp"

using namespace moegen::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::set<std::string> statuses(const json& built) {
  std::set<std::string> found;
  for (const auto& row : built["kernels"]) found.insert(row["status"].get<std::string>());
  return found;
}

}  // namespace

TEST_CASE("a cold build compiles, a warm one finds") {
  const BuildFolder folder;
  const json cold = folder.json({"build", folder.config});
  REQUIRE(cold["kernels"].size() >= 2);
  CHECK(statuses(cold) == std::set<std::string>{"compiled"});
  const json warm = folder.json({"build", folder.config});
  CHECK(statuses(warm) == std::set<std::string>{"cached"});
  REQUIRE(warm["kernels"].size() == cold["kernels"].size());
  for (std::size_t i = 0; i < cold["kernels"].size(); ++i) {
    for (const char* field :
         {"kernel", "arch", "target", "bytes", "registers", "spill_bytes", "shared_bytes", "keys"}) {
      CHECK(cold["kernels"][i][field] == warm["kernels"][i][field]);
    }
  }
}

TEST_CASE("--json has exactly the documented fields") {
  const BuildFolder folder;
  const json built = folder.json({"build", folder.config, "--kernel", "finalize"});
  CHECK(built.size() == 1);
  REQUIRE(built["kernels"].size() == 1);
  const json& row = built["kernels"][0];
  std::set<std::string> fields;
  for (const auto& [name, value] : row.items()) fields.insert(name);
  CHECK(fields == std::set<std::string>{"kernel", "arch", "target", "status", "ms", "bytes", "registers", "spill_bytes",
                                        "shared_bytes", "keys"});
  CHECK(row["kernel"] == "finalize");
  CHECK(row["arch"] == "sm_90a");
  CHECK(row["target"] == "cuda");
  CHECK(row["ms"].get<double>() > 0);
  CHECK(row["bytes"].get<int>() > 1000);
  CHECK(row["registers"].get<int>() > 8);
  CHECK(row["spill_bytes"] == 0);
  REQUIRE(row["keys"].size() == 1);
  CHECK(row["keys"][0].get<std::string>().size() == 32);
}

TEST_CASE("the table goes to standard output, and nothing to standard error") {
  const BuildFolder folder;
  const Outcome outcome = folder.run({"build", folder.config});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("config  kernel               arch"));
  CHECK(outcome.out.find("\nsmall   create_indices       sm_90a") != std::string::npos);
  CHECK(outcome.out.find("compiled\n") != std::string::npos);
  CHECK(outcome.err == "");
}

TEST_CASE("several configs, kernels and archs, from files and standard input") {
  const BuildFolder folder;
  write_text(folder / "other.json", small_config("other"));
  const Outcome outcome = run({.args = {"build", folder.config, (folder / "other.json").string(), "-", "--kernel",
                                        "finalize", "--arch", "sm_90a", "--arch", "sm_80,sm_90a", "--json"},
                               .input = small_config("third"),
                               .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}}});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  const json kernels = json::parse(outcome.out)["kernels"];
  REQUIRE(kernels.size() == 6);
  CHECK(kernels[0]["arch"] == "sm_80");
  CHECK(kernels[1]["arch"] == "sm_90a");
  CHECK(kernels[5]["arch"] == "sm_90a");
}

TEST_CASE("every arch builds without spills") {
  const BuildFolder folder;
  const json built = folder.json({"build", folder.config, "--arch", "all"});
  CHECK(built["kernels"].size() >= 16);
  CHECK(built["kernels"].size() % 8 == 0);
  std::set<std::string> keys;
  std::size_t parts = 0;
  for (const auto& row : built["kernels"]) {
    CHECK(row["spill_bytes"] == 0);
    for (const auto& key : row["keys"]) keys.insert(key.get<std::string>());
    parts += row["keys"].size();
  }
  CHECK(keys.size() == parts);
}

TEST_CASE("entry points of a matmul are compiled and stored apart, and reported as one kernel") {
  const BuildFolder folder;
  const json kernel = folder.json({"build", folder.config, "--kernel", "grouped_matmul.down"})["kernels"];
  REQUIRE(kernel.size() == 1);
  REQUIRE(kernel[0]["keys"].size() == 2);
  const json stored = folder.json({"cache", "ls"})["entries"];
  REQUIRE(stored.size() == 2);
  const json explained = folder.json({"cache", "explain", folder.config, "--kernel", "grouped_matmul.down"})["kernels"];
  REQUIRE(explained.size() == 2);
  std::set<std::string> names;
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(explained[i]["key"] == kernel[0]["keys"][i]);
    CHECK(explained[i]["found"].is_string());
    REQUIRE(explained[i]["entries"].size() == 1);
    names.insert(explained[i]["entries"][0].get<std::string>());
  }
  CHECK(names == std::set<std::string>{"moegen_grouped_matmul_narrow", "moegen_grouped_matmul_wide"});

  // Without one of them, that one alone is compiled, and strict mode misses it.
  fs::remove(explained[1]["found"].get<std::string>());
  const Outcome strict = run({.args = {"build", folder.config, "--kernel", "grouped_matmul.down"},
                              .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}, {"MOEGEN_JIT", "off"}}});
  CHECK(strict.exit_code == 3);
  CHECK(strict.err.find("for sm_90a (wide): in no pack and not in the cache (key " +
                        kernel[0]["keys"][1].get<std::string>() + ")") != std::string::npos);
  CHECK(statuses(folder.json({"build", folder.config, "--kernel", "grouped_matmul.down"})) ==
        std::set<std::string>{"compiled"});
  CHECK(folder.json({"cache", "stats"})["compiled"] == 3);
}

TEST_CASE("a pack serves a machine with no cache and no compiler") {
  const BuildFolder folder;
  const std::string pack = (folder / "small.moegen-pack").string();
  const json built = folder.json({"build", folder.config, "-o", pack});
  CHECK(fs::file_size(pack) > 2000);
  const std::string first = read_text(pack);
  folder.json({"build", folder.config, "-j", "1", "-o", pack});
  CHECK(read_text(pack) == first);

  fs::create_directory(folder / "elsewhere");
  fs::rename(pack, folder / "elsewhere/moved.pack");
  const Outcome packed = run({.args = {"build", folder.config, "--json"},
                              .env = {{"MOEGEN_PACKS", (folder / "elsewhere/moved.pack").string()},
                                      {"MOEGEN_JIT", "off"},
                                      {"HOME", std::nullopt}}});
  CHECK_MESSAGE(packed.exit_code == 0, packed.err);
  const json from_pack = json::parse(packed.out);
  CHECK(statuses(from_pack) == std::set<std::string>{"pack"});
  CHECK(from_pack["kernels"][0]["keys"] == built["kernels"][0]["keys"]);
}

TEST_CASE("a pack that cannot be written leaves nothing") {
  const BuildFolder folder;
  const Outcome outcome = folder.run({"build", folder.config, "-o", (folder / "absent/x.pack").string()});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("absent/x.pack") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "absent"));

  const Outcome device = folder.run({"build", folder.config, "-o", "/dev/null"});
  CHECK(device.exit_code == 2);
  CHECK(device.err ==
        "moegen: build: --out: '/dev/null' is not a regular file; allowed a new file or one to replace\n");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("strict mode names the key and the command that builds it") {
  const BuildFolder folder;
  const Outcome outcome = run({.args = {"build", folder.config, "--kernel", "finalize"},
                               .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}, {"MOEGEN_JIT", "off"}}});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("moegen build") != std::string::npos);
}

TEST_CASE("no home, or one that cannot be written, builds from memory with at most one warning") {
  const BuildFolder folder;
  const std::vector<std::string> args = {"build", folder.config, "--kernel", "finalize"};
  const Outcome homeless = run({.args = args, .env = {{"HOME", std::nullopt}}});
  CHECK(homeless.exit_code == 0);
  CHECK(homeless.out.find("compiled\n") != std::string::npos);
  CHECK(std::count(homeless.err.begin(), homeless.err.end(), '\n') <= 1);

  if (::geteuid() != 0) return;
  fs::create_directory(folder.cache);
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(folder.cache.c_str(), 0555);
  const Outcome read_only = run({.args = args,
                                 .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}},
                                 .user = 65534,
                                 .program = copy_program(folder.path() / "installed")});
  CHECK(read_only.exit_code == 0);
  CHECK(read_only.out.find("compiled\n") != std::string::npos);
  CHECK(std::count(read_only.err.begin(), read_only.err.end(), '\n') == 1);
  CHECK(files_below(folder.cache).empty());
}

TEST_CASE("progress shows on a terminal only, and is erased") {
  if (!has_terminals()) {
    MESSAGE("not run: this machine has no pseudo-terminals (devpts)");
    return;
  }
  const BuildFolder folder;
  const std::vector<std::string> args = {"build", folder.config, "--kernel", "finalize"};
  const Invocation on_terminal{
      .args = args, .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}}, .err = Stream::terminal};
  const Outcome shown = run(on_terminal);
  CHECK(shown.err.find("[1/1] finalize sm_90a") != std::string::npos);
  CHECK(shown.err.ends_with("\r\033[K"));
  CHECK(shown.out.find('\033') == std::string::npos);

  Invocation dumb = on_terminal;
  dumb.env["TERM"] = "dumb";
  CHECK(run(dumb).err == "");
  CHECK(folder.run(args).err == "");
}

TEST_CASE("an interrupted build stops soon, prints nothing and leaves no loose ends") {
  if (!has_terminals()) {
    MESSAGE("not run: this machine has no pseudo-terminals (devpts)");
    return;
  }
  const BuildFolder folder;
  Process process({.args = {"build", folder.config, "--arch", "all", "-j", "1", "-o", (folder / "x.pack").string()},
                   .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}},
                   .err = Stream::terminal});
  CHECK(process.read_until([](const auto&, const auto& err) { return err.find("[3/") != std::string::npos; }));
  process.kill(SIGINT);
  const Outcome outcome = process.wait(30);
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.signal == 0);
  CHECK(outcome.seconds < 5);
  CHECK(outcome.out == "");
  CHECK_FALSE(fs::exists(folder / "x.pack"));
  for (const std::string& name : files_below(folder.path())) {
    CAPTURE(name);
    CHECK(name.find("tmp") == std::string::npos);
    CHECK(name.find("claim") == std::string::npos);
  }
  const json rest = folder.json({"build", folder.config, "--arch", "all"});
  CHECK(statuses(rest) == std::set<std::string>{"cached", "compiled"});
}

TEST_CASE("templates that do not compile are the user's affair, and the log is shown") {
  const BuildFolder folder;
  fs::copy(MOEGEN_SOURCE_DIR "/templates", folder / "templates", fs::copy_options::recursive);
  const fs::path kernel = folder / "templates/finalize/kernel.cuh";
  write_text(kernel, read_text(kernel) + "\nnonsense;\n");
  const Outcome outcome = run(
      {.args = {"build", folder.config, "--kernel", "finalize"},
       .env = {{"MOEGEN_CACHE_DIR", folder.cache.string()}, {"MOEGEN_TEMPLATE_DIR", (folder / "templates").string()}}});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("nonsense") != std::string::npos);
  CHECK(outcome.err.find("bug in moegen") == std::string::npos);
}
