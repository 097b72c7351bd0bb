// SPDX-License-Identifier: Apache-2.0
// plan and emit: what they print, where they write. Needs neither NVRTC nor a GPU.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/process.hpp"

using namespace moegen::test;
namespace fs = std::filesystem;

namespace {

struct Folder : TemporaryFolder {
  std::string config = (*this / "small.json").string();
  Folder() { write_text(config, small_config()); }
};

std::string emitted(const std::string& config, const std::string& kernel, const std::string& arch = "sm_90a") {
  const Outcome outcome = run_moegen({"emit", config, "--kernel", kernel, "--arch", arch});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

}  // namespace

TEST_CASE("plan prints a line for each kernel, and says what this version lacks") {
  const Folder folder;
  const Outcome outcome = run_moegen({"plan", folder.config});
  CHECK(outcome.exit_code == 0);
  CHECK(("\n" + outcome.out).find("\ncreate_indices sm_90a: ") != std::string::npos);
  CHECK(outcome.out.find("\nfinalize sm_90a: ") != std::string::npos);
  CHECK(outcome.err == "");

  auto several = nlohmann::json::parse(small_config(), nullptr, true, true);
  several["expert_parallel"] = {{"ranks", 2}};
  const Outcome lacking = run({.args = {"plan", "-"}, .input = several.dump()});
  CHECK(lacking.exit_code == 0);
  CHECK(lacking.err.starts_with("moegen: left out, because they come with a later version: ep_dispatch, ep_combine"));
}

TEST_CASE("plan --explain gives origins") {
  const Folder folder;
  const Outcome outcome = run_moegen({"plan", folder.config, "--kernel", "finalize", "--explain"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  for (const std::string word : {"config", "derived", "default"}) CHECK(outcome.out.find(word) != std::string::npos);
}

TEST_CASE("plan --json holds every plan") {
  const Folder folder;
  const Outcome outcome =
      run_moegen({"plan", folder.config, "--kernel", "create_indices,finalize", "--arch", "all", "--json"});
  CHECK(outcome.exit_code == 0);
  const auto plans = nlohmann::json::parse(outcome.out)["plans"];
  CHECK(plans.size() == 16);
  CHECK(plans[0]["kernel"] == "create_indices");
  CHECK(plans[0]["arch"] == "sm_80");
  CHECK(plans[15]["kernel"] == "finalize");
  CHECK(plans[15]["arch"] == "sm_120a");
}

TEST_CASE("emit prints one source and refuses to print several") {
  const Folder folder;
  const std::string source = emitted(folder.config, "finalize");
  CHECK(source.size() > 1000);
  CHECK(source.find("#include") == std::string::npos);
  CHECK(source.find("extern \"C\"") != std::string::npos);

  const Outcome several = run_moegen({"emit", folder.config, "--kernel", "create_indices,finalize"});
  CHECK(several.exit_code == 2);
  CHECK(several.out == "");
  CHECK(several.err ==
        "moegen: emit: 2 sources (create_indices sm_90a, finalize sm_90a) do not fit standard output; allowed one "
        "(--kernel, --arch), or -o DIR for all\n");
}

TEST_CASE("emit reads standard input") {
  const Folder folder;
  const Outcome outcome = run({.args = {"emit", "-", "--kernel", "finalize"}, .input = small_config()});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == emitted(folder.config, "finalize"));
}

TEST_CASE("emit writes into a folder that it makes") {
  const Folder folder;
  const Outcome outcome = run_moegen({"emit", folder.config, "--kernel", "create_indices,finalize", "--arch", "sm_80",
                                      "--arch", "sm_90a", "-o", (folder / "made/sources").string()});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "");
  CHECK(files_below(folder / "made/sources") ==
        std::vector<std::string>{"small.create_indices.sm_80.cu", "small.create_indices.sm_90a.cu",
                                 "small.finalize.sm_80.cu", "small.finalize.sm_90a.cu"});
  CHECK(read_text(folder / "made/sources/small.finalize.sm_90a.cu") == emitted(folder.config, "finalize"));
}

TEST_CASE("emit writes one source to a file, whole or not at all") {
  const Folder folder;
  const fs::path file = folder / "k.cu";
  const std::vector<std::string> args = {"emit", folder.config, "--kernel", "finalize", "-o", file.string()};
  CHECK(run_moegen(args).exit_code == 0);
  CHECK(read_text(file) == emitted(folder.config, "finalize"));
  CHECK((fs::status(file).permissions() & fs::perms::owner_write) != fs::perms::none);

  const Outcome json = run_moegen({"emit", folder.config, "--kernel", "finalize", "-o", file.string(), "--json"});
  CHECK(nlohmann::json::parse(json.out)["sources"][0]["file"] == file.string());

  const Outcome refused = run_moegen({"emit", folder.config, "--kernel", "finalize", "-o", "/proc/nothing/k.cu"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err == "moegen: /proc/nothing/k.cu: cannot be written: No such file or directory\n");
  CHECK(files_below(folder.path()) == std::vector<std::string>{"k.cu", "small.json"});
}

TEST_CASE("emit follows a symbolic link and writes straight to a device") {
  const Folder folder;
  write_text(folder / "real.cu", "old");
  fs::create_symlink("real.cu", folder / "link.cu");
  CHECK(run_moegen({"emit", folder.config, "--kernel", "finalize", "-o", (folder / "link.cu").string()}).exit_code ==
        0);
  CHECK(fs::is_symlink(folder / "link.cu"));
  CHECK(read_text(folder / "real.cu") == emitted(folder.config, "finalize"));

  CHECK(run_moegen({"emit", folder.config, "--kernel", "finalize", "-o", "/dev/null"}).exit_code == 0);
  CHECK(fs::is_character_file("/dev/null"));
  const Outcome full = run_moegen({"emit", folder.config, "--kernel", "finalize", "-o", "/dev/full"});
  CHECK(full.exit_code == 1);
  CHECK(full.err == "moegen: /dev/full: cannot be written: No space left on device\n");
}

TEST_CASE("a config's name cannot lead a file out of the folder") {
  const TemporaryFolder folder;
  write_text(folder / "evil.json", small_config("../../evil name"));
  const Outcome outcome = run_moegen({"emit", (folder / "evil.json").string(), "-o", (folder / "out").string() + "/"});
  if (outcome.exit_code == 2) return;  // the config reader may refuse such a name
  CHECK(outcome.exit_code == 0);
  CHECK(files_below(folder / "out").front() == ".._.._evil_name.create_indices.sm_90a.cu");
}

TEST_CASE("emit --json carries the text, the entries and the arch") {
  const Folder folder;
  const Outcome outcome = run_moegen({"emit", folder.config, "--kernel", "create_indices,finalize", "--json"});
  CHECK(outcome.exit_code == 0);
  const auto sources = nlohmann::json::parse(outcome.out)["sources"];
  CHECK(sources.size() == 2);
  CHECK(sources[1]["kernel"] == "finalize");
  CHECK(sources[1]["arch"] == "sm_90a");
  CHECK(sources[1]["text"] == emitted(folder.config, "finalize"));
  for (const auto& entry : sources[1]["entries"]) {
    CHECK(sources[1]["text"].get<std::string>().find(entry.get<std::string>()) != std::string::npos);
  }
}

TEST_CASE("the same config gives the same bytes in another folder, locale and for another user") {
  const Folder folder;
  const std::string here = emitted(folder.config, "create_indices");
  Invocation elsewhere{.args = {"emit", folder.config, "--kernel", "create_indices"},
                       .env = {{"LC_ALL", "de_DE.UTF-8"}, {"HOME", std::nullopt}, {"USER", "somebody"}},
                       .working_directory = "/"};
  CHECK(run(elsewhere).out == here);
}
