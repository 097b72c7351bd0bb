// SPDX-License-Identifier: Apache-2.0
// Words, options, help, and the exit codes of a command line that is wrong. Needs neither NVRTC nor a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/process.hpp"

using namespace moegen::test;

namespace {

/// Everything that prints help, without --help.
const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"list"},
                                                         {"plan"},
                                                         {"emit"},
                                                         {"build"},
                                                         {"verify"},
                                                         {"bench"},
                                                         {"inspect"},
                                                         {"import"},
                                                         {"cache"},
                                                         {"cache", "ls"},
                                                         {"cache", "stats"},
                                                         {"cache", "where"},
                                                         {"cache", "verify"},
                                                         {"cache", "gc"},
                                                         {"cache", "explain"},
                                                         {"doctor"},
                                                         {"run"},
                                                         {"tune"}};

void check_message(const std::vector<std::string>& args, int exit_code, const std::string& message) {
  const Outcome outcome = run_moegen(args);
  CAPTURE(args);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out == "");
  CHECK(outcome.err == std::string("moegen: ") + message + "\n");
}

}  // namespace

TEST_CASE("--version prints one line") {
  const Outcome outcome = run_moegen({"--version"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "moegen " MOEGEN_VERSION "\n");
  CHECK(outcome.err == "");
}

TEST_CASE("the help of every command fits a screen") {
  for (std::vector<std::string> args : kCommands) {
    args.emplace_back("--help");
    CAPTURE(args);
    const Outcome outcome = run_moegen(args);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out.size() > 80);
    std::istringstream lines(outcome.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) CHECK_MESSAGE(line.size() <= 100, line);
    CHECK(count <= 24);
  }
}

TEST_CASE("help is also a word") {
  CHECK(run_moegen({"help"}).out == run_moegen({"--help"}).out);
  CHECK(run_moegen({"help", "build"}).out == run_moegen({"build", "--help"}).out);
  CHECK(run_moegen({"help", "cache", "gc"}).out == run_moegen({"cache", "gc", "--help"}).out);
  CHECK(run_moegen({"build", "x.json", "--help"}).out == run_moegen({"build", "-h"}).out);
}

TEST_CASE("a command line without a command is refused") {
  check_message({}, 2, "COMMAND is missing; see 'moegen --help'");
  check_message({"cache"}, 2, "cache: COMMAND is missing; see 'moegen cache --help'");
}

TEST_CASE("an unknown command is refused with a suggestion") {
  check_message({"biuld"}, 2,
                "unknown command 'biuld'; allowed list, plan, emit, build, verify, run, bench, inspect, import, "
                "cache, doctor, tune; did you mean 'build'?");
  check_message({"cache", "stat"}, 2,
                "cache: unknown command 'stat'; allowed ls, stats, where, verify, gc, explain; did you mean 'stats'?");
  check_message({"--verbose"}, 2,
                "unknown option '--verbose'; allowed list, plan, emit, build, verify, run, bench, inspect, import, "
                "cache, doctor, tune");
}

TEST_CASE("an unknown option is refused with a suggestion") {
  check_message({"list", "--jsno"}, 2, "list: unknown option '--jsno'; allowed --json, --help; did you mean '--json'?");
  check_message({"list", "--jsno=1"}, 2,
                "list: unknown option '--jsno'; allowed --json, --help; did you mean '--json'?");
  check_message({"doctor", "-x"}, 2, "doctor: unknown option '-x'; allowed --require, --json, --help");
}

TEST_CASE("arguments that are missing, too many or wrong are named") {
  check_message({"build"}, 2, "build: CONFIG is missing; see 'moegen build --help'");
  check_message({"build", "a.json", "--kernel"}, 2, "build: --kernel needs a value");
  check_message({"build", "a.json", "--json=yes"}, 2, "build: --json takes no value");
  check_message({"build", "a.json", "-o", ""}, 2, "build: --out: is empty; allowed any text");
  for (const std::string command : {"emit", "build", "import"})
    check_message({command, "a.json", "-o", "-"}, 2,
                  command + ": --out: is '-', which would be a file of that name; allowed a path, also ./-");
  check_message({"build", "a.json", "-o", "x", "--out", "y"}, 2, "build: --out is given 2 times; allowed once");
  check_message({"build", "a.json", "-j", "0"}, 2, "build: --jobs: 0 is too small; allowed 1 or more");
  check_message({"build", "a.json", "-j", "two"}, 2, "build: --jobs: 'two' is not a whole number; allowed 1 or more");
  check_message({"verify", "a.json", "b.json"}, 2, "verify: unexpected argument 'b.json'; allowed CONFIG");
  check_message({"doctor", "now"}, 2, "doctor: unexpected argument 'now'; allowed none");
  check_message({"doctor", "--require", "gpus"}, 2,
                "doctor: --require: 'gpus' is not known; allowed nvrtc, gpu, cpu; did you mean 'gpu'?");
  check_message(
      {"cache", "gc", "--max-size", "1X"}, 2,
      "cache gc: --max-size: '1X' is not a size; allowed a whole number of bytes with an optional K, M, G or T");
  check_message(
      {"cache", "gc", "--max-size", "99999999999T"}, 2,
      "cache gc: --max-size: '99999999999T' is not a size; allowed a whole number of bytes with an optional K, "
      "M, G or T");
}

TEST_CASE("options of the CPU target are refused without it") {
  for (const std::string option :
       {"--check", "--schedule=fair", "--seeds=2", "--async=late", "--arch=sm_90", "--sms=4"}) {
    const std::string name = option.substr(0, option.find('='));
    for (const std::string command : {"run", "verify"})
      check_message({command, "x.json", option}, 2,
                    fmt::format("{}: {} is for --target cpu; allowed without it", command, name));
  }
  check_message({"verify", "x.json", "--target", "cpu", "--schedule", "fair", "--seeds", "2"}, 2,
                "verify: --seeds 2 with --schedule fair, which has no seed; allowed with chaos");
  check_message({"run", "x.json", "--target", "cpu", "--sms", "257"}, 2, "run: --sms is 257; allowed 1 to 256");
  check_message({"build", "x.json", "--check"}, 2, "build: --check is for --target cpu; allowed without it");
  check_message({"bench", "x.json", "--target", "cpu"}, 3,
                "bench: the CPU target models what kernels do, not how long they take; allowed --target cuda, and "
                "'moegen verify' and 'moegen run' have --target cpu");
}

TEST_CASE("words of later versions say so") {
  check_message({"tune"}, 3,
                "'tune' searches for the best plans and comes with a later version of moegen; 'moegen plan --explain' "
                "shows the plans of now");
}

TEST_CASE("a config that cannot be read is exit code 2, with its name and the reason") {
  const TemporaryFolder folder;
  const Outcome missing = run_moegen({"plan", (folder / "absent.json").string()});
  CHECK(missing.exit_code == 2);
  CHECK(missing.out == "");
  CHECK(missing.err.find("absent.json") != std::string::npos);

  write_text(folder / "bad.json", R"({"moegen": 1, "name": "x", "hiden": 3})");
  for (const std::string command : {"list", "plan", "emit", "build", "inspect"}) {
    const Outcome bad = run_moegen({command, (folder / "bad.json").string()});
    CAPTURE(command);
    CHECK(bad.exit_code == 2);
    CHECK(bad.out == "");
    CHECK(bad.err.find("bad.json: ") != std::string::npos);
    CHECK(bad.err.find("did you mean 'hidden'?") != std::string::npos);
  }
}

TEST_CASE("kernels and archs are checked before anything is made") {
  const TemporaryFolder folder;
  const std::string config = (folder / "small.json").string();
  write_text(config, small_config());

  const Outcome later = run_moegen({"build", config, "--kernel", "ep_combine"});
  CHECK(later.exit_code == 3);
  CHECK(later.out == "");
  CHECK(later.err.starts_with("moegen: kernel 'ep_combine' comes with a later version of moegen; this one has "));
  CHECK(later.err.find("create_indices, permute, ") != std::string::npos);

  const Outcome unknown = run_moegen({"plan", config, "--kernel", "finalise"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("--kernel: 'finalise' is not known; allowed ") != std::string::npos);
  CHECK(unknown.err.find("; did you mean 'finalize'?\n") != std::string::npos);

  const Outcome arch = run_moegen({"emit", config, "--arch", "sm90a"});
  CHECK(arch.exit_code == 2);
  CHECK(arch.err ==
        "moegen: arch 'sm90a' is not known; allowed sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100a, sm_103a, sm_120a; did "
        "you mean 'sm_90a'?\n");
}

TEST_CASE("a wrong environment variable is named") {
  Invocation invocation{.args = {"cache", "where"}, .env = {{"MOEGEN_JIT", "maybe"}}};
  const Outcome outcome = run(invocation);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("MOEGEN_JIT") != std::string::npos);
  CHECK(outcome.err.find("'maybe'") != std::string::npos);
}

TEST_CASE("list shows families and archs, and the kernels of configs") {
  const Outcome overview = run_moegen({"list", "--json"});
  CHECK(overview.exit_code == 0);
  const auto json = nlohmann::json::parse(overview.out);
  const auto has = [&](const char* family, bool available) {
    const nlohmann::json row = {{"family", family}, {"available", available}};
    return std::count(json["families"].begin(), json["families"].end(), row) == 1;
  };
  CHECK(has("create_indices", true));
  CHECK(has("ep_combine", false));
  CHECK(json["families"].size() == 9);
  CHECK(json["archs"].size() == 8);
  CHECK(json["archs"][4]["arch"] == "sm_90a");
  CHECK(json["archs"][4]["compute_capability"] == "9.0");

  const Outcome kernels = run({.args = {"list", "-", "--json"}, .input = small_config()});
  CHECK(kernels.exit_code == 0);
  const auto list = nlohmann::json::parse(kernels.out)["kernels"];
  CHECK(list.size() >= 2);
  CHECK(std::any_of(list.begin(), list.end(), [](const auto& row) {
    return row == nlohmann::json{{"config", "small"}, {"kernel", "finalize"}, {"available", true}};
  }));
  CHECK(std::any_of(list.begin(), list.end(), [](const auto& row) { return row["kernel"] == "router"; }));
}

TEST_CASE("standard input can be read once") {
  const Outcome outcome = run({.args = {"plan", "-", "-"}, .input = small_config()});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "moegen: CONFIG: '-' is given more than once; standard input can be read once\n");
}
