// SPDX-License-Identifier: Apache-2.0
// One case of router: rows of a certain kind, run on a target, every rule checked, and some tokens run alone.
#pragma once

#include <optional>
#include <string>

#include "verify/router_problem.hpp"

namespace moegen::verify {

struct RouterCase : RouterOptions {
  std::string name() const;
};

/// Runs `kernel` (router of `config`) on its target. Returns the first rule that is broken, or nothing.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const RouterCase& router_case);

}  // namespace moegen::verify
