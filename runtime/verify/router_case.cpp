// SPDX-License-Identifier: Apache-2.0
#include "verify/router_case.hpp"

#include <set>

#include <fmt/format.h>

namespace moegen::verify {
namespace {

// The first, a middle and the last token.
std::set<std::int64_t> some_tokens(std::int64_t count) {
  if (count == 0) return {};
  return {0, count / 2, count - 1};
}

std::optional<std::string> run_alone(const Kernel& kernel, const RouterProblem& problem, std::int64_t num_tokens) {
  for (const std::int64_t token : some_tokens(num_tokens)) {
    const auto args = problem.alone(token);
    if (!args) return std::nullopt;
    run_to_end(kernel, *args);
    if (auto wrong = problem.differs_alone(token)) return wrong;
  }
  return std::nullopt;
}

}  // namespace

std::string RouterCase::name() const {
  return fmt::format("{} tokens {}, bias {}, {} between rows", num_tokens, to_string(logits), to_string(bias), padding);
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const RouterCase& c) {
  const RouterProblem problem(kernel.target(), config, c);
  problem.reset();
  run_to_end(kernel, problem.args());
  auto wrong = problem.compare();
  if (!wrong) wrong = run_alone(kernel, problem, c.num_tokens);
  if (wrong) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
