// SPDX-License-Identifier: Apache-2.0
// doctor reports whatever it finds, and fails only where it is asked to.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/process.hpp"

using namespace moegen::test;
using nlohmann::json;

namespace {

json doctor(const std::map<std::string, std::optional<std::string>>& env) {
  const Outcome outcome = run({.args = {"doctor", "--json"}, .env = env});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("the report has every subject") {
  const TemporaryFolder folder;
  const json facts = doctor({{"MOEGEN_CACHE_DIR", (folder / "cache").string()}});
  for (const std::string subject :
       {"version", "driver", "devices", "nvrtc", "cpu_target", "cache", "packs", "environment", "llvm", "nccl"}) {
    CHECK_MESSAGE(facts.contains(subject), subject);
  }
  CHECK(facts["cache"]["directory"] == (folder / "cache").string());
  CHECK(facts["cache"]["variable"] == "MOEGEN_CACHE_DIR");
  CHECK(facts["cache"]["exists"] == false);
  CHECK(facts["cache"]["usable"] == true);
  CHECK(facts["cache"]["free_bytes"].get<std::uint64_t>() > 0);
  CHECK(facts["cache"]["file_system"].is_string());
  CHECK_FALSE(std::filesystem::exists(folder / "cache"));

  const Outcome text = run({.args = {"doctor"}, .env = {{"MOEGEN_CACHE_DIR", (folder / "cache").string()}}});
  for (const std::string word : {"driver", "NVRTC", "CPU target", "cache", "MOEGEN_CACHE_DIR", "LLVM", "NCCL"}) {
    CHECK_MESSAGE(text.out.find(word) != std::string::npos, word);
  }
}

TEST_CASE("no home is reported, not fatal") {
  const json facts = doctor({{"HOME", std::nullopt}});
  CHECK(facts["cache"]["directory"].is_null());
  CHECK(facts["cache"]["problem"] == "no cache folder: kernels stay in memory; set MOEGEN_CACHE_DIR or HOME");
}

TEST_CASE("a misspelt variable is pointed out") {
  const json facts = doctor({{"MOEGEN_CACHEDIR", "/x"}});
  const std::string problem = facts["environment"]["problem"];
  CHECK(problem.find("MOEGEN_CACHEDIR") != std::string::npos);
  CHECK(problem.find("did you mean 'MOEGEN_CACHE_DIR'?") != std::string::npos);
}

TEST_CASE("a variable with a wrong value is reported, not fatal") {
  const json facts = doctor({{"MOEGEN_JIT", "maybe"}});
  CHECK(facts["environment"]["problem"].get<std::string>().find("MOEGEN_JIT") != std::string::npos);
}

TEST_CASE("a pack that is none is reported, not fatal") {
  const TemporaryFolder folder;
  write_text(folder / "bad.pack", "no pack");
  const json facts = doctor({{"MOEGEN_PACKS", (folder / "bad.pack").string()}});
  CHECK(facts["packs"][0]["problem"].get<std::string>().find("bad.pack") != std::string::npos);
}

TEST_CASE("--require turns what is missing into exit code 1") {
  const json facts = doctor({});
  const Outcome nvrtc = run_moegen({"doctor", "--require", "nvrtc"});
  CHECK(nvrtc.exit_code == (facts["nvrtc"]["found"] == true ? 0 : 1));
  const Outcome gpu = run_moegen({"doctor", "--require", "gpu"});
  const bool has_gpu = !facts["devices"].empty();
  CHECK(gpu.exit_code == (has_gpu ? 0 : 1));
  if (!has_gpu) CHECK(gpu.err.starts_with("moegen: doctor: gpu is required: "));
  CHECK(gpu.out.find("driver") != std::string::npos);
}

TEST_CASE("without a GPU, what needs one says how to get it and exits 3") {
  if (!doctor({})["devices"].empty()) return;
  const std::map<std::string, std::string> ways_out = {{"verify", "'moegen verify --target cpu' needs none, and "},
                                                       {"bench", ""}};
  for (const auto& [command, way_out] : ways_out) {
    const Outcome outcome = run({.args = {command, "-", "--kernel", "finalize"}, .input = small_config()});
    CAPTURE(command);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.out == "");
    std::string message = "moegen: ";
    message += command;
    message += " needs a CUDA device and found none; ";
    message += way_out;
    message += "'moegen doctor' says what is missing\n";
    CHECK(outcome.err == message);
  }
}
