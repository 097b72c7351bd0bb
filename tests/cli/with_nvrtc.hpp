// SPDX-License-Identifier: Apache-2.0
// What tests of commands that compile have in common.
#pragma once

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/process.hpp"
#include "support/skip.hpp"

namespace moegen::test {

/// A folder with a config and room for a cache. Skips the test program where there is no NVRTC.
struct BuildFolder : TemporaryFolder {
  std::string config = (*this / "small.json").string();
  std::filesystem::path cache = *this / "cache";

  BuildFolder() {
    if (run_moegen({"doctor", "--require", "nvrtc"}).exit_code != 0) skip("there is no NVRTC");
    write_text(config, small_config());
  }

  Outcome run(std::vector<std::string> args) const { return run_moegen(std::move(args), cache); }

  /// `args` with --json, which must succeed.
  nlohmann::json json(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Outcome outcome = run(args);
    CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
    return nlohmann::json::parse(outcome.out);
  }
};

}  // namespace moegen::test
