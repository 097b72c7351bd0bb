// SPDX-License-Identifier: Apache-2.0
// The create_indices family: its parameters, and the team of blocks that a launch takes.
#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>
#include <moegen/shapes.hpp>

#include <moegen/args/create_indices.h>
#include "families/alignment.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using create_indices::Args;

constexpr int kLaunchAbi = 1;
constexpr int kWarpSize = 32;
constexpr std::int64_t kMaxPairs = (std::int64_t{1} << 31) - 1;

// Words at the head of a grid team's workspace; the kernel's kWorkspaceHead.
constexpr std::int64_t kWorkspaceHeadWords = 16;

enum Constant {
  kGroups,
  kFewEntry,      // -1: none
  kClusterEntry,  // kGrid: none
  kBlockPairs,
  kMostPairsPerBlock,
  kGridPairsPerBlock,
  kGridMaxBlocks,
  kIdBytes,
  kScalesOffset,
};

// The first entry of the plan, which is always there. A single block may be launched as a grid or as a cluster.
constexpr int kGrid = 0;

// Threads of the entry for few pairs, which has one pair a thread, and writes the tables of most models in one step.
constexpr int kFewThreads = 256;

// Pairs that a block takes before another joins: one step of each of 32 warps (docs/kernels.md).
constexpr std::int64_t kPairsPerBlock = 1024;

// What every launch of the kernel has in common.
struct BlockShape {
  int warps;
  std::int64_t staged_rows;
  std::int64_t shared_bytes;
};

// The kernel's Shared<P>: a row of counters for each warp, a row of totals for each block of a cluster, the table of
// bases, two more tables with padding, the partial sums of the scan; staged pairs with their rows, and their table.
std::int64_t shared_bytes(std::int64_t warps, std::int64_t staged, std::int64_t groups, bool padded, const Arch& arch) {
  const std::int64_t rows = warps + arch.max_cluster + 1 + (padded ? 2 : 0);
  return 4 * (rows * groups + 5 * kWarpSize + (staged > 0 ? groups + 2 * staged : 0));
}

// The most warps whose private counters fit: more warps hide more latency, and 32 are a whole block. Then the most
// pairs that a block can stage beside them.
BlockShape choose_block(std::int64_t groups, bool padded, const Arch& arch) {
  for (int warps : {32, 16, 8, 4})
    for (std::int64_t staged : {4 * kPairsPerBlock, 2 * kPairsPerBlock, kPairsPerBlock, std::int64_t{0}}) {
      const std::int64_t bytes = shared_bytes(warps, staged, groups, padded, arch);
      if (bytes <= arch.max_shared_bytes) return {warps, staged, bytes};
    }
  throw Error(ErrorCode::internal, fmt::format("create_indices: no block holds {} groups on {}", groups, arch.name));
}

void add_fields(PlanBuilder& plan, const ConfigFields& fields) {
  plan.dtype("id_dtype", fields.indices.ids, "/indices/ids");
  plan.field("num_experts", std::int64_t{fields.num_experts}, "/num_experts");
  plan.field("first_expert", std::int64_t{fields.indices.first_expert}, "/indices/first_expert");
  plan.field("num_local_experts", std::int64_t{fields.indices.num_local_experts}, "/indices/num_local_experts");
  plan.field("num_shared_slots", std::int64_t{fields.num_shared_slots()}, "/router/shared_slots");
  plan.derived("first_shared_id", std::int64_t{fields.num_experts} + fields.num_zero_experts,
               "shared slots follow the routed and the zero experts");
  plan.field("all_experts", fields.indices.experts == IndexedExperts::all, "/indices/experts");
  plan.field("pad_rows_to", std::int64_t{fields.indices.pad_rows_to}, "/indices/pad_rows_to");
  plan.field("scales_offset", fields.indices.scales_offset, "/indices/scales_offset");
}

std::string warps_reason(int warps, const Arch& arch) {
  if (warps == 32) return "a whole block: one private counter array a warp fits in shared memory";
  return fmt::format("as many private counter arrays as fit in the {} bytes of {}", arch.max_shared_bytes, arch.name);
}

BlockShape add_shape(PlanBuilder& plan, const ConfigFields& fields, const Arch& arch) {
  const std::int64_t groups = num_groups(fields);
  const bool padded = fields.indices.pad_rows_to > 1;
  const BlockShape shape = choose_block(groups, padded, arch);
  const std::int64_t threads = std::int64_t{shape.warps} * kWarpSize;
  plan.derived("num_groups", groups, "local experts and shared slots");
  plan.derived("group_bits", static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(groups))),
               "bits that tell the groups and the absence of one apart");
  plan.derived("num_warps", std::int64_t{shape.warps}, warps_reason(shape.warps, arch));
  plan.derived("num_threads", threads, "32 a warp");
  plan.derived("max_cluster", std::int64_t{arch.max_cluster}, "the arch's largest cluster");
  plan.derived("groups_per_thread", (groups + threads - 1) / threads, "the scan over groups covers all of them");
  plan.derived("staged_rows", shape.staged_rows, "pairs that a block gathers by group before it writes them");
  plan.derived("shared_bytes", shape.shared_bytes, "counters of each warp, the tables of a block, staged pairs");
  return shape;
}

// True if the entry for few pairs does what the config asks for.
bool has_few(const ConfigFields& fields) {
  return fields.indices.pad_rows_to == 1 && fields.indices.experts == IndexedExperts::active &&
         !fields.indices.scales_offset;
}

// Where one team of blocks takes over from another; measured on an H200 with 256 experts (docs/kernels.md).
void add_teams(PlanBuilder& plan, const Arch& arch) {
  plan.derived("few_threads", std::int64_t{kFewThreads}, "pairs and threads of the entry for few pairs");
  plan.host("clusters", arch.clusters,
            arch.clusters ? "blocks exchange counts in distributed shared memory" : "no clusters on this arch");
  plan.host("pairs_per_block", kPairsPerBlock, "one step of every warp: then a cluster's barrier repays itself");
  plan.host("most_pairs_per_block", std::int64_t{6144}, "then a grid's barrier costs less than a longer scatter");
  plan.host("grid_pairs_per_block", std::int64_t{4096}, "each block repays its read of all other blocks' counts");
  plan.host("grid_max_blocks", std::int64_t{64}, "every block reads the counts of all");
}

// All blocks of a team must be resident: a cluster is by nature, a grid by cooperative launch, which may not share the
// chip with the tail of its predecessor.
EntryPlan make_few_entry(const Arch& arch) {
  EntryPlan entry;
  entry.name = "moegen_create_indices_few";
  entry.variant = "few";
  entry.threads = kFewThreads;
  entry.dynamic_shared_bytes = 8 * kFewThreads / kWarpSize;  // the kernel's Exchange of each warp
  entry.dependent_launch = arch.dependent_launch;
  return entry;
}

EntryPlan make_entry(std::string_view team, const Arch& arch, const BlockShape& shape) {
  EntryPlan entry;
  entry.name = "moegen_create_indices";
  entry.variant = team;
  entry.threads = shape.warps * kWarpSize;
  entry.dynamic_shared_bytes = static_cast<int>(shape.shared_bytes);
  entry.cooperative = team == "grid";
  entry.cluster = team == "cluster" ? arch.max_cluster : 1;
  entry.dependent_launch = team == "cluster" && arch.dependent_launch;
  return entry;
}

std::vector<std::string> kernels(const Config&) { return {"create_indices"}; }

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  add_fields(builder, config.fields());
  const BlockShape shape = add_shape(builder, config.fields(), arch);
  add_teams(builder, arch);
  builder.entry(make_entry("grid", arch, shape));
  if (arch.clusters) builder.entry(make_entry("cluster", arch, shape));
  if (has_few(config.fields())) builder.entry(make_few_entry(arch));
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::vector<std::string_view> templates(const Plan& plan) {
  std::vector<std::string_view> paths;
  for (const EntryPlan& entry : plan.entries) {
    const std::string_view path = entry.variant == "few" ? "create_indices/few.cuh" : "create_indices/kernel.cuh";
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  }
  return paths;
}

std::string_view entry_template(const EntryPlan& entry) {
  return entry.variant == "few" ? "create_indices::run_few<Params>" : "create_indices::run<Params>";
}

std::int64_t index_of(const Plan& plan, std::string_view variant, std::int64_t otherwise) {
  for (std::size_t i = 0; i < plan.entries.size(); ++i)
    if (plan.entries[i].variant == variant) return static_cast<std::int64_t>(i);
  return otherwise;
}

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  values[kGroups] = plan.integer("num_groups");
  values[kFewEntry] = index_of(plan, "few", -1);
  values[kClusterEntry] = index_of(plan, "cluster", kGrid);
  values[kBlockPairs] = plan.integer("pairs_per_block");
  values[kMostPairsPerBlock] = plan.integer("most_pairs_per_block");
  values[kGridPairsPerBlock] = plan.integer("grid_pairs_per_block");
  values[kGridMaxBlocks] = plan.integer("grid_max_blocks");
  values[kIdBytes] = bits(*find_dtype(plan.text("id_dtype"))) / 8;
  values[kScalesOffset] = plan.boolean("scales_offset") ? 1 : 0;
  return values;
}

// The smallest power of two of blocks that take at most `pairs_per_block` each, up to the largest cluster.
std::uint32_t cluster_blocks(std::int64_t num_pairs, std::int64_t pairs_per_block, const LaunchDevice& device) {
  std::uint32_t blocks = 1;
  while (blocks < device.max_cluster && blocks * pairs_per_block < num_pairs) blocks *= 2;
  return blocks;
}

std::uint32_t grid_blocks(std::int64_t num_pairs, const LaunchConstants& values, const LaunchDevice& device) {
  const std::int64_t wanted = (num_pairs + values[kGridPairsPerBlock] - 1) / values[kGridPairsPerBlock];
  const std::int64_t most = std::min<std::int64_t>(values[kGridMaxBlocks], device.num_sms);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 1, most));
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  const std::int64_t num_pairs = static_cast<const Args*>(raw)->num_pairs;
  if (num_pairs <= kFewThreads && values[kFewEntry] >= 0) return {static_cast<int>(values[kFewEntry]), 1, 1};
  if (num_pairs > device.max_cluster * values[kMostPairsPerBlock])
    return {kGrid, grid_blocks(num_pairs, values, device), 1};
  const std::uint32_t blocks = cluster_blocks(num_pairs, values[kBlockPairs], device);
  return {static_cast<int>(values[kClusterEntry]), blocks, blocks};
}

std::int64_t workspace_bytes(const LaunchConstants& values, const LaunchDevice& device, const void* args) noexcept {
  const Launch chosen = launch(values, device, args);
  if (chosen.entry != kGrid || chosen.grid == 1) return 0;
  return 4 * (kWorkspaceHeadWords + chosen.grid * values[kGroups]);
}

const char* check_outputs(const LaunchConstants& values, const Args& args) noexcept {
  if (!args.expert_start_indices) return "expert_start_indices is null; it takes uint32 [num_groups + 1]";
  if (!args.expert_ids) return "expert_ids is null; it takes int32 [num_groups]";
  if (!args.expert_usage_stats) return "expert_usage_stats is null; it takes uint32 [2]";
  if (values[kScalesOffset] != 0 && !args.scales_offset) return "scales_offset is null; it takes uint32 [num_groups]";
  if (values[kScalesOffset] == 0 && args.scales_offset)
    return "scales_offset is given, but the config has indices.scales_offset = false; it must be null";
  const std::array<const void*, 6> words = {args.token_expert_order,  args.expert_start_indices,
                                            args.restore_token_order, args.expert_ids,
                                            args.expert_usage_stats,  args.scales_offset};
  for (const void* pointer : words)
    if (misaligned(pointer, 4)) return "an output is not aligned to 4 bytes";
  return nullptr;
}

const char* check_workspace(const LaunchConstants& values, const LaunchDevice& device, const Args& args) noexcept {
  if (workspace_bytes(values, device, &args) == 0) return nullptr;
  if (!args.workspace) return "workspace is null; it takes workspace_bytes(args) bytes, zeroed once";
  if (misaligned(args.workspace, 16)) return "workspace is not aligned to 16 bytes";
  return nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_pairs < 0) return "num_pairs is negative; allowed 0 .. 2^31 - 1";
  if (args.num_pairs > kMaxPairs) return "num_pairs is too large; allowed 0 .. 2^31 - 1";
  if (const char* wrong = check_outputs(values, args)) return wrong;
  if (const char* wrong = check_workspace(values, device, args)) return wrong;
  if (args.num_pairs == 0) return nullptr;
  if (!args.topk_ids) return "topk_ids is null; it takes indices.ids [num_pairs]";
  if (misaligned(args.topk_ids, values[kIdBytes])) return "topk_ids is not aligned to its element";
  if (!args.token_expert_order) return "token_expert_order is null; it takes uint32 [order_capacity(num_pairs)]";
  if (!args.restore_token_order) return "restore_token_order is null; it takes uint32 [num_pairs]";
  return nullptr;
}

}  // namespace

extern const Family kCreateIndicesFamily;
const Family kCreateIndicesFamily = {
    .name = "create_indices",
    .tag = Args::kFamily,
    .kernels = kernels,
    .plan = plan,
    .templates = templates,
    .entry_template = entry_template,
    .fragments = nullptr,
    .constants = constants,
    .launch = launch,
    .check = check,
    .workspace_bytes = workspace_bytes,
    .entries_apart = true,
};

}  // namespace moegen
