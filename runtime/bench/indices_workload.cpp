// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <moegen/args/create_indices.h>
#include <moegen/shapes.hpp>

#include "bench/replay_timer.hpp"
#include "bench/workload.hpp"
#include "verify/indices_case.hpp"
#include "verify/indices_problem.hpp"

namespace moegen::bench {
namespace {

constexpr std::size_t kIdSets = 8;

struct Memory {
  std::vector<verify::Memory> ids;
  cuda::DeviceBuffer order, starts, restore, experts, stats, scales, workspace;
};

verify::Memory uniform_ids(const ConfigFields& fields, std::int64_t num_pairs, std::uint64_t seed) {
  return verify::upload_ids(Target::cuda, fields,
                            verify::make_ids(fields, {num_pairs, verify::IdPattern::uniform, seed}));
}

cuda::DeviceBuffer words(std::int64_t count) { return cuda::DeviceBuffer(4 * static_cast<std::size_t>(count)); }

}  // namespace

Workload indices_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const ConfigFields& fields = config.fields();
  const std::int64_t pairs = num_tokens * fields.num_slots(), groups = num_groups(fields);
  const auto memory = std::make_shared<Memory>();
  for (std::size_t set = 0; set < kIdSets; ++set) memory->ids.push_back(uniform_ids(fields, pairs, seed + set));
  memory->order = words(order_capacity(fields, pairs));
  memory->starts = words(groups + 1);
  memory->restore = words(pairs);
  memory->experts = words(groups);
  memory->stats = words(2);
  memory->scales = words(groups);
  create_indices::Args args{};
  args.token_expert_order = memory->order.data<std::uint32_t>();
  args.expert_start_indices = memory->starts.data<std::uint32_t>();
  args.restore_token_order = memory->restore.data<std::uint32_t>();
  args.expert_ids = memory->experts.data<std::int32_t>();
  args.expert_usage_stats = memory->stats.data<std::uint32_t>();
  if (fields.indices.scales_offset) args.scales_offset = memory->scales.data<std::uint32_t>();
  args.num_pairs = pairs;
  memory->workspace = cuda::DeviceBuffer(kernel.workspace_bytes(&args, sizeof(args)));
  if (memory->workspace.size() > 0) memory->workspace.fill(0);
  args.workspace = memory->workspace.data();
  Workload workload;
  workload.sets = kIdSets;
  workload.bytes = pairs * (bits(fields.indices.ids) / 8 + 4) + 4 * order_capacity(fields, pairs);
  workload.memory = memory;
  const auto args_of = [args, held = memory.get()](std::size_t set) {
    create_indices::Args own = args;
    own.topk_ids = held->ids[set].data();
    return own;
  };
  bind(workload, kernel, args_of);
  return workload;
}

}  // namespace moegen::bench
