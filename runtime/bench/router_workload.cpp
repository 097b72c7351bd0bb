// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/replay_timer.hpp"
#include "bench/workload.hpp"
#include "verify/router_problem.hpp"

namespace moegen::bench {
namespace {

std::int64_t bytes_moved(const ConfigFields& fields, std::int64_t tokens) {
  const std::int64_t experts = fields.num_experts + fields.num_zero_experts;
  return tokens * (experts * bits(fields.router.logits) / 8 +
                   fields.num_slots() * (4 + std::int64_t{bits(fields.router.weights)} / 8));
}

}  // namespace

// Rows are dense and normal, as random logits are.
Workload router_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  using Problems = std::vector<verify::RouterProblem>;
  const auto problems = std::make_shared<Problems>();
  Workload workload;
  workload.bytes = bytes_moved(config.fields(), num_tokens);
  workload.sets = num_sets(static_cast<std::size_t>(workload.bytes));
  problems->reserve(workload.sets);
  for (std::size_t set = 0; set < workload.sets; ++set)
    problems->emplace_back(Target::cuda, config, verify::RouterOptions{.num_tokens = num_tokens, .seed = seed + set});
  workload.memory = problems;
  bind(workload, kernel, [held = problems.get()](std::size_t set) { return (*held)[set].args(); });
  return workload;
}

}  // namespace moegen::bench
