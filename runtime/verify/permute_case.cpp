// SPDX-License-Identifier: Apache-2.0
#include "verify/permute_case.hpp"

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "verify/memory.hpp"
#include "verify/permute_problem.hpp"

namespace moegen::verify {

std::string PermuteCase::name() const {
  return fmt::format("{} tokens {} ids {}", num_tokens, to_string(pattern), to_string(ids));
}

std::int64_t host_bytes(const Config& config, const PermuteCase& c) {
  const std::int64_t rows = order_capacity(config.fields(), c.num_tokens * config->num_slots());
  return (rows + c.num_tokens) * config->expert_hidden * bits(config->dtypes.activation) / 8;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const PermuteCase& c) {
  const std::int64_t pairs = c.num_tokens * config->num_slots();
  const PermuteProblem problem(
      kernel, config, reference::create_indices(config.fields(), make_ids(config.fields(), {pairs, c.ids, c.seed})),
      {.seed = c.seed + 1, .pattern = c.pattern});
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
