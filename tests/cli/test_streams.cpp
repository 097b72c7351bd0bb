// SPDX-License-Identifier: Apache-2.0
// Standard streams that are closed, full, gone or a terminal, and signals. Needs neither NVRTC nor a GPU.
#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "cli/process.hpp"

using namespace moegen::test;

TEST_CASE("a reader that went away is no error") {
  const Outcome outcome = run({.args = {"list"}, .out = Stream::reader_gone});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
}

TEST_CASE("a full or closed standard output is") {
  const Outcome full = run({.args = {"list"}, .out = Stream::full_disk});
  CHECK(full.exit_code == 1);
  CHECK(full.err == "moegen: standard output: cannot be written: No space left on device\n");
  const Outcome closed = run({.args = {"list"}, .out = Stream::closed});
  CHECK(closed.exit_code == 1);
  CHECK(closed.err == "moegen: standard output: cannot be written: Bad file descriptor\n");
}

TEST_CASE("standard error may be closed, full or gone") {
  for (const Stream err : {Stream::closed, Stream::full_disk, Stream::reader_gone}) {
    CHECK(run({.args = {"biuld"}, .err = err}).exit_code == 2);
    CHECK(run({.args = {"--version"}, .err = err}).exit_code == 0);
  }
}

TEST_CASE("a file written while standard output is closed does not receive it") {
  const TemporaryFolder folder;
  const std::string file = (folder / "k.cu").string();
  const Outcome outcome = run({.args = {"emit", "-", "--kernel", "finalize", "-o", file, "--json"},
                               .input = small_config(),
                               .out = Stream::closed});
  CHECK(outcome.exit_code == 1);
  CHECK(read_text(file).starts_with("//"));
}

TEST_CASE("output to a terminal has the same text") {
  if (!has_terminals()) {
    MESSAGE("not run: this machine has no pseudo-terminals (devpts)");
    return;
  }
  const Outcome terminal = run({.args = {"list"}, .out = Stream::terminal});
  std::string text = terminal.out;
  std::erase(text, '\r');
  CHECK(text == run_moegen({"list"}).out);
}

TEST_CASE("a signal while standard input is awaited ends the process at once") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Process process({.args = {"plan", "-"}, .hold_input_open = true});
    process.read_until([](const auto&, const auto&) { return false; }, 0.2);
    process.kill(signal);
    const Outcome outcome = process.wait(10);
    CHECK(outcome.exit_code == 128 + signal);
    CHECK(outcome.signal == 0);
    CHECK(outcome.seconds < 5);
    CHECK(outcome.out == "");
  }
}
