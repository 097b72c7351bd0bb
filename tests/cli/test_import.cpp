// SPDX-License-Identifier: Apache-2.0
// import as a command; tests/unit has what it makes of each model. Needs neither NVRTC nor a GPU.
#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "cli/process.hpp"

using namespace moegen::test;
using nlohmann::json;

namespace {

const std::string kModel = MOEGEN_SOURCE_DIR "/examples/hf/qwen3_30b_a3b.json";

json parsed(const std::string& config) { return json::parse(config, nullptr, true, true); }

}  // namespace

TEST_CASE("import prints a config that the other commands take") {
  const Outcome imported = run_moegen({"import", kModel});
  CHECK(imported.exit_code == 0);
  const json config = parsed(imported.out);
  CHECK(config["moegen"] == 1);
  CHECK(config["hidden"] == 2048);
  CHECK(config["num_experts"] == 128);
  CHECK(config["top_k"] == 8);
  const Outcome plan = run({.args = {"plan", "-", "--kernel", "finalize"}, .input = imported.out});
  CHECK(plan.exit_code == 0);
  CHECK(plan.out.starts_with("finalize sm_90a: "));
}

TEST_CASE("import writes a file and reads standard input") {
  const TemporaryFolder folder;
  const std::string out = (folder / "q.json").string();
  const Outcome written = run({.args = {"import", "-", "--name", "q", "-o", out}, .input = read_text(kModel)});
  CHECK(written.exit_code == 0);
  CHECK(written.out == "");
  CHECK(parsed(read_text(out))["name"] == "q");
  CHECK(run_moegen({"plan", out}).exit_code == 0);
}

TEST_CASE("import slices for expert and tensor parallelism") {
  const json experts = parsed(run_moegen({"import", kModel, "--expert-parallel", "8", "--rank", "3"}).out);
  const json whole = parsed(run_moegen({"import", kModel}).out);
  const json width = parsed(run_moegen({"import", kModel, "--tensor-parallel", "2"}).out);
  CHECK(experts != whole);
  CHECK(width["intermediate"].get<int>() * 2 == whole["intermediate"].get<int>());
}

TEST_CASE("import --explain and --json give the source of each value") {
  const Outcome explained = run_moegen({"import", kModel, "--explain"});
  CHECK(explained.exit_code == 0);
  CHECK(explained.out.starts_with("field "));
  CHECK(explained.out.find("/hidden ") != std::string::npos);
  CHECK(explained.out.find("hidden_size") != std::string::npos);

  const json report = json::parse(run_moegen({"import", kModel, "--json"}).out);
  CHECK(report["model_type"] == "qwen3_moe");
  CHECK(report["config"]["hidden"] == 2048);
  CHECK(report["values"].size() >= 5);
  CHECK(report["layers"].size() >= 1);
}

TEST_CASE("a model that cannot be imported is refused with its file and field") {
  const TemporaryFolder folder;
  const Outcome missing = run_moegen({"import", (folder / "absent.json").string()});
  CHECK(missing.exit_code == 2);
  CHECK(missing.err == "moegen: " + (folder / "absent.json").string() +
                           ": cannot be opened: No such file or directory; give the path of a JSON file, or '-' for "
                           "standard input\n");
  const Outcome endless = run_moegen({"import", "/dev/zero"});
  CHECK(endless.exit_code == 2);
  CHECK(endless.err ==
        "moegen: /dev/zero: is larger than 4 MiB; give the path of a JSON file, or '-' for standard input\n");

  write_text(folder / "odd.json", R"({"model_type": "qwen4_moe", "hidden_size": 64})");
  const Outcome odd = run_moegen({"import", (folder / "odd.json").string(), "-o", (folder / "out.json").string()});
  CHECK(odd.exit_code == 2);
  CHECK(odd.out == "");
  CHECK(odd.err.find("odd.json: ") != std::string::npos);
  CHECK(odd.err.find("qwen4_moe") != std::string::npos);
  CHECK(files_below(folder.path()) == std::vector<std::string>{"odd.json"});

  CHECK(run_moegen({"import", kModel, "--weights", "int4"}).exit_code == 2);
  CHECK(run_moegen({"import", kModel, "--layer", "9999"}).exit_code == 2);
  CHECK(run_moegen({"import", kModel, "--expert-parallel", "7000000000"}).exit_code == 2);
}
