// SPDX-License-Identifier: Apache-2.0
// verify, run and build with --target cpu, on a machine without a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/process.hpp"
#include "support/skip.hpp"

using namespace moegen::test;
using nlohmann::json;

namespace {

struct CpuFolder : TemporaryFolder {
  std::string config = (*this / "small.json").string();
  std::filesystem::path cache = *this / "cache";

  CpuFolder() {
    if (!MOEGEN_HAS_CPU_TARGET) skip("this build has no CPU target");
    REQUIRE(run_moegen({"doctor", "--require", "cpu"}).exit_code == 0);
    write_text(config, small_config());
  }

  Outcome run(std::vector<std::string> args) const { return run_moegen(std::move(args), cache); }

  json json_of(std::vector<std::string> args, int exit_code = 0) const {
    args.emplace_back("--json");
    const Outcome outcome = run(args);
    CHECK_MESSAGE(outcome.exit_code == exit_code, outcome.err);
    return json::parse(outcome.out);
  }
};

}  // namespace

TEST_CASE_FIXTURE(CpuFolder, "run executes and checks the chain, and says what it narrowed") {
  const json report = json_of({"run", config, "--target", "cpu", "--num-tokens", "33"});
  CHECK(report["device"] == "CPU target, as sm_90a");
  CHECK(report["num_tokens"] == 33);
  CHECK(report["failed"] == false);
  REQUIRE(report["rows"].size() >= 3);
  std::vector<std::string> kernels;
  for (const json& row : report["rows"]) kernels.push_back(row["kernel"]);
  const auto place = [&](const char* kernel) { return std::find(kernels.begin(), kernels.end(), kernel); };
  CHECK(place("create_indices") < place("permute"));
  CHECK(place("permute") < place("finalize"));
  CHECK(place("permute") < place("grouped_matmul.up"));
  CHECK(place("grouped_matmul.up") < place("grouped_matmul.down"));
  CHECK(place("grouped_matmul.down") < place("finalize"));
  CHECK(kernels.back() == "layer");
  CHECK(report["rows"].back()["checked"].get<std::string>().starts_with("33 of 33 tokens x "));
  for (const json& row : report["rows"]) {
    CHECK(row["wrong"] == "");
    CHECK(row["us"].get<double>() > 0);
  }
  CHECK(report["scaled"][0].get<std::string>().starts_with("hidden "));
}

TEST_CASE_FIXTURE(CpuFolder, "verify runs every case under every seed, with checks") {
  // However slow the machine is.
  const json report =
      json_of({"verify", config, "--target", "cpu", "--seeds", "2", "--check", "--quick", "--budget", "900"});
  CHECK(report["failed"] == 0);
  CHECK(report["cases"].get<int>() > 20);
  REQUIRE(report["kernels"].size() >= 2);
  for (const json& kernel : report["kernels"]) CHECK(kernel["left_out"] == 0);
}

TEST_CASE_FIXTURE(CpuFolder, "run takes every seed") {
  const json report = json_of({"run", config, "--target", "cpu", "--seeds", "3", "--check"});
  CHECK(report["failed"] == false);
}

// What does not ask for the CPU target must not pay for LLVM.
TEST_CASE("the command line starts without LLVM") {
  const Outcome outcome = moegen::test::run({.args = {"--version"}, .env = {{"LD_DEBUG", "libs"}}});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("libfmt") != std::string::npos);
  CHECK(outcome.err.find("LLVM") == std::string::npos);
  CHECK(outcome.err.find("clang") == std::string::npos);
}

TEST_CASE_FIXTURE(CpuFolder, "the budget leaves cases out and counts them") {
  // Exit code 1 where the machine is so slow that a kernel had no case at all.
  const json report = json::parse(
      run({"verify", config, "--target", "cpu", "--seeds", "20", "--check", "--budget", "1", "--json"}).out);
  CHECK(report["failed"] == 0);
  std::size_t left_out = 0;
  for (const json& kernel : report["kernels"]) left_out += kernel["left_out"].get<std::size_t>();
  CHECK(left_out > 0);
}

TEST_CASE_FIXTURE(CpuFolder, "objects are built once and found again, apart from cubins") {
  const json first = json_of({"build", config, "--target", "cpu"});
  REQUIRE(first["kernels"].size() >= 2);
  for (const json& kernel : first["kernels"]) {
    CHECK(kernel["target"] == "cpu");
    CHECK(kernel["status"] == "compiled");
    CHECK(kernel["bytes"].get<int>() > 0);
    CHECK(kernel["registers"].is_null());
    CHECK(kernel["spill_bytes"].is_null());
    CHECK(kernel["shared_bytes"].is_number());
  }
  const json again = json_of({"build", config, "--target", "cpu"});
  for (const json& kernel : again["kernels"]) CHECK(kernel["status"] == "cached");
  const json checked = json_of({"build", config, "--target", "cpu", "--check"});
  for (const json& kernel : checked["kernels"]) CHECK(kernel["status"] == "compiled");
  const json entries = json_of({"cache", "ls"});
  CHECK(entries["entries"].size() == 2 * first["kernels"].size());
  for (const json& entry : entries["entries"]) CHECK(entry["target"] == "cpu");
}

TEST_CASE_FIXTURE(CpuFolder, "the cache's commands know objects of the CPU target") {
  const json built = json_of({"build", config, "--kernel", "finalize", "--target", "cpu"});
  CHECK(run({"cache", "ls"}).out.find("finalize  sm_90a  cpu     clang-19.") != std::string::npos);

  const json found = json_of({"cache", "explain", config, "--kernel", "finalize", "--target", "cpu"})["kernels"][0];
  CHECK(found["key"] == built["kernels"][0]["keys"][0]);
  const std::string path = found["found"];
  const json checked =
      json_of({"cache", "explain", config, "--kernel", "finalize", "--target", "cpu", "--check"})["kernels"][0];
  CHECK(checked["found"].is_null());
  CHECK(checked["nearest"] == path);
  CHECK(checked["differs"] == json::array({{{"name", "flag"}, {"wanted", "--check"}, {"stored", "--no-check"}}}));
  // Cubins are compared with cubins.
  const json cubin = json_of({"cache", "explain", config, "--kernel", "finalize"})["kernels"][0];
  CHECK(cubin["found"].is_null());
  CHECK(cubin["nearest"].is_null());
  CHECK(run({"cache", "explain", config, "--check"}).exit_code == 2);

  const Outcome inspected = run({"inspect", path});
  CHECK(inspected.exit_code == 2);
  CHECK(inspected.err.find(path + ": finalize sm_90a is an object of the cpu target, for a host's processor; allowed a "
                                  "cubin, of the cuda target") != std::string::npos);
}

TEST_CASE_FIXTURE(CpuFolder, "strict mode names the command that builds the object") {
  const Outcome outcome = moegen::test::run({.args = {"run", config, "--target", "cpu"},
                                             .env = {{"MOEGEN_CACHE_DIR", cache.string()}, {"MOEGEN_JIT", "off"}}});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("--arch sm_90a --target cpu`") != std::string::npos);
}

TEST_CASE_FIXTURE(CpuFolder, "strict mode names the checks, too") {
  const Outcome outcome = moegen::test::run({.args = {"run", config, "--target", "cpu", "--check"},
                                             .env = {{"MOEGEN_CACHE_DIR", cache.string()}, {"MOEGEN_JIT", "off"}}});
  CHECK(outcome.err.find("--target cpu --check`") != std::string::npos);
}

TEST_CASE_FIXTURE(CpuFolder, "a text that uses a name that nothing defines, and one with an error, are named") {
  const std::filesystem::path templates = *this / "templates";
  std::filesystem::copy(std::filesystem::path(MOEGEN_SOURCE_DIR) / "templates", templates,
                        std::filesystem::copy_options::recursive);
  const std::filesystem::path kernel = templates / "finalize" / "kernel.cuh";
  const std::string text = read_text(kernel), place = "  wait_for_dependencies();\n";
  REQUIRE(text.find(place) != std::string::npos);
  const auto run_with = [&](const std::string& line) {
    std::string edited = text;
    edited.replace(edited.find(place), 0, line);
    write_text(kernel, "extern \"C\" __device__ int ghost(int);\n" + edited);
    return moegen::test::run(
        {.args = {"run", config, "--target", "cpu"},
         .env = {{"MOEGEN_CACHE_DIR", cache.string()}, {"MOEGEN_TEMPLATE_DIR", templates.string()}}});
  };
  const Outcome undefined = run_with("  ghost(1);\n");
  CHECK(undefined.exit_code == 1);
  CHECK(undefined.err.find("ghost") != std::string::npos);
  const Outcome wrong = run_with("  no_such_function();\n");
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.err.find("finalize.cu for the CPU target: finalize.cu:") != std::string::npos);
  CHECK(wrong.err.find("undeclared identifier 'no_such_function'") != std::string::npos);
}

TEST_CASE_FIXTURE(CpuFolder, "a kernel that is wrong is reported with its line") {
  // A template folder of one's own, with a barrier taken out.
  const std::filesystem::path templates = *this / "templates";
  std::filesystem::copy(std::filesystem::path(MOEGEN_SOURCE_DIR) / "templates", templates,
                        std::filesystem::copy_options::recursive);
  const std::filesystem::path kernel = templates / "create_indices" / "kernel.cuh";
  std::string text = read_text(kernel);
  const std::string barrier = "  block_sync();\n  place_pairs<P>";
  const std::size_t at = text.find(barrier);
  REQUIRE(at != std::string::npos);
  text.erase(at, barrier.find("  place"));
  write_text(kernel, text);
  const Outcome outcome =
      moegen::test::run({.args = {"run", config, "--target", "cpu", "--check", "--num-tokens", "300"},
                         .env = {{"MOEGEN_CACHE_DIR", cache.string()}, {"MOEGEN_TEMPLATE_DIR", templates.string()}}});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("race in shared memory") != std::string::npos);
  CHECK(outcome.out.find("create_indices.cu:") != std::string::npos);
}
