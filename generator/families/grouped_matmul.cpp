// SPDX-License-Identifier: Apache-2.0
// The grouped_matmul family: its plan, which entry a launch takes, its tensor maps, and its arguments' rules.
#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>

#include <moegen/args/grouped_matmul.h>
#include "expression_places.hpp"
#include "families/alignment.hpp"
#include "families/grouped_matmul/problem.hpp"
#include "families/grouped_matmul/text.hpp"
#include "families/grouped_matmul/tiles.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using grouped_matmul::Args;
using grouped_matmul::MatmulProblem;
using grouped_matmul::TensorArgs;
using grouped_matmul::TilePlan;

static_assert(int{grouped_matmul::kMaxInputs} == kMaxExpressionInputs, "the argument struct holds what a config names");
static_assert(sizeof(TensorArgs) <= kMaxParameterBytes);

constexpr int kLaunchAbi = 1;

// Places of tiles in their order are counted in 32 bits.
constexpr std::int64_t kMostTiles = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMostRows = (std::int64_t{1} << 31) - 1;

// Bits of LaunchConstants[kNeeds]: which optional arguments this kernel reads.
enum Need : std::int64_t {
  kScales = 1,
  kBlockScales = 2,
  kBias = 4,
  kGated = 8,
  kHalves = 16,
  kTensorMaps = 32,
  kLimits = 64,
  kGather = 128,
  kColumnScales = 256,
  kQuantized = 512,
  kMxScales = 1024
};

// What each entry has of its own.
enum EntryConstant {
  kMaxTokens,
  kWeightRows,
  kTileColumns,
  kJoinedTiles,
  kCluster,
  kLeastRows,
  kBoxHeights,
  kStoreRows,
  kEntryConstants
};

enum Constant {
  kDepth,
  kColumns,
  kOutputColumns,
  kExperts,
  kElementBytes,
  kNeeds,
  kNumInputs,
  kScaleBytes,
  kOutputBytes,
  kNumEntries,
  kFirstEntry,  // kEntryConstants of each entry
};

// ---- plan ----

void add_tile_numbers(PlanBuilder& plan, const TilePlan& tiles, const MatmulProblem& problem) {
  const auto add = [&](std::string_view name, std::int64_t value, std::string reason) {
    plan.host(fmt::format("{}.{}", tiles.name, name), value, std::move(reason));
  };
  add("max_tokens", tiles.max_tokens, "rows of a in a tile");
  add("weight_rows", tiles.weight_rows, "rows of b in a tile");
  add("tile_columns", tiles.tile_columns(problem), "columns of c in a tile");
  add("joined_tiles", tiles.joined_tiles(problem), "tiles that a block takes in turn and quantises together");
  add("warpgroup_columns", tiles.warpgroup_columns(problem), "of those, columns that a warpgroup stages");
  add("warpgroups", tiles.warpgroups, "that multiply");
  add("stages", tiles.stages, "as many as fit in shared memory");
  add("cluster", tiles.cluster, "blocks that share their tokens");
  add("scale_warps", tiles.scale_warps, "warps that bring block scales");
  add("staging_rows", tiles.staging_rows, "rows of c that a warpgroup stages at once");
  add("staging_bytes", tiles.staging_bytes(problem), "of a warpgroup, 16 bytes between rows against bank conflicts");
  add("least_rows", tiles.least_rows, "rows of a group, on average, from which on these tiles are taken");
  add("raster", tiles.raster, "units of columns side by side: their tokens stay in L2");
  add("even_tiles", tiles.even_tiles, "groups of up to so many tiles are split evenly");
  add("token_step", tiles.token_step(), "rows that tiles are cut to: a warpgroup's, or 8 for each block of a cluster");
  add("box_heights", tiles.box_heights(), "heights of the token boxes that make up the smaller widths, or-ed");
  add("num_widths", static_cast<std::int64_t>(tiles.widths.size()), "loops");
  add("shared_bytes", tiles.shared_bytes(problem), "of a block");
  add("threads", tiles.threads(), "of a block");
  if (tiles.portable) return;
  add("loader_registers", tiles.loader_registers(), "the launch's pool allows no more");
  add("multiplier_registers", tiles.multiplier_registers(), "what the loaders leave");
  add("store_rows", tiles.store_rows, "rows of c in a box of tensor stores; 0: rows leave in pieces");
  add("staging_panels", tiles.staging_panels, "of 128 bytes of each row that a warpgroup stages at once");
  add("part_columns", tiles.part_columns(), "columns of one product with tokens on M");
  add("scale_chunks", tiles.scale_chunks(problem), "parts of the weights that each lie in one block of scales");
  add("scale_floats", tiles.scale_floats(problem), "of block scales in a stage");
  if (problem.gather_a)
    add("gather_warps", tiles.gather_warps,
        tiles.scale_warps > 0 ? "those that bring the scales bring the tokens"
                              : "all but the one that copies weights: they bring the tokens");
}

void add_tiles(PlanBuilder& plan, const TilePlan& tiles, const MatmulProblem& problem) {
  add_tile_numbers(plan, tiles, problem);
  plan.host(fmt::format("{}.widths", tiles.name), fmt::format("{}", fmt::join(tiles.widths, " ")),
            "of tokens: a narrow tile does not pay for a wide one");
  plan.host(fmt::format("{}.tokens_on_m", tiles.name), tiles.tokens_on_m, "which operand is M of the product");
  plan.host(fmt::format("{}.aligned", tiles.name), tiles.aligned(problem), "the stages divide the slices of K");
  plan.host(fmt::format("{}.dealt", tiles.name), tiles.dealt != 0, std::string(dealt_because(tiles, problem)));
  plan.host(fmt::format("{}.weights_once", tiles.name), tiles.weights_once != 0, "weights are the first to leave L2");
}

EntryPlan make_entry(const TilePlan& tiles, const MatmulProblem& problem, const Arch& arch) {
  EntryPlan entry;
  entry.name = tiles.portable ? "moegen_grouped_matmul" : fmt::format("moegen_grouped_matmul_{}", tiles.name);
  entry.variant = tiles.name;
  entry.threads = tiles.threads();
  entry.cluster = tiles.cluster;
  entry.dynamic_shared_bytes = static_cast<int>(tiles.shared_bytes(problem));
  entry.dependent_launch = arch.dependent_launch;
  return entry;
}

std::vector<std::string> kernels(const Config&) { return {"grouped_matmul.up", "grouped_matmul.down"}; }

void add_layout(PlanBuilder& plan, const MatmulProblem& problem) {
  plan.derived("depth_blocks", problem.depth_blocks(), "slices of 128 bytes of K");
  plan.derived("scales_per_token", std::int64_t{problem.scales_per_token()},
               problem.scales_per_token() == 1 ? "a tile's weights share a block of scales" : "gate's and up's");
  plan.derived("groups_per_lane", std::clamp<std::int64_t>((problem.num_experts + 31) / 32, 1, 8),
               "32 lanes look at all groups at once, up to 256");
}

bool is_portable(const Plan& plan) { return plan.entries.front().variant == "portable"; }

// fp8 products are exact in float16, which archs before sm_89 multiply.
bool must_widen(const MatmulProblem& problem, const Arch& arch) {
  return problem.element == Dtype::float8_e4m3fn && 10 * arch.major + arch.minor < 89;
}

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  const MatmulProblem problem = grouped_matmul::read_problem(config, kernel, arch, builder);
  add_layout(builder, problem);
  if (!grouped_matmul::takes_tensor_copies(problem, arch))
    builder.derived("widen", must_widen(problem, arch), "fp8 becomes float16 where tensor cores have no fp8");
  std::vector<grouped_matmul::Rejection> rejected;
  for (const TilePlan& tiles : grouped_matmul::choose_tiles(problem, arch, config->tune.space, rejected)) {
    add_tiles(builder, tiles, problem);
    builder.entry(make_entry(tiles, problem, arch));
  }
  Plan result = std::move(builder).finish<Args>(kLaunchAbi);
  for (grouped_matmul::Rejection& one : rejected)
    result.rejected.push_back({std::move(one.tiles), std::move(one.reason)});
  if (arch.name == "sm_90a" && is_portable(result))
    result.rejected.push_back(
        {"tensor copies and wgmma", "experts.gather_a is true and the scheme mxfp8; permute lays rows side by side"});
  if (is_portable(result)) return result;
  result.parameter = "TensorArgs";
  result.parameter_bytes = sizeof(TensorArgs);
  return result;
}

// ---- source ----

void add_epilogue_templates(const Plan& plan, std::vector<std::string_view>& files) {
  if (!plan.expressions.empty()) files.insert(files.end(), {"core/experts.cuh", "core/math.cuh"});
  if (plan.boolean("fuse_activation")) files.emplace_back("core/activation.cuh");
}

std::vector<std::string_view> portable_templates(const Plan& plan) {
  std::vector<std::string_view> files;
  add_epilogue_templates(plan, files);
  if (plan.boolean("block_scales")) files.emplace_back("grouped_matmul/portable_block128.cuh");
  if (plan.boolean("mx_scales")) files.emplace_back("grouped_matmul/portable_mxfp8.cuh");
  if (plan.boolean("fuse_quantize")) files.emplace_back("grouped_matmul/quantize.cuh");
  files.emplace_back("grouped_matmul/portable.cuh");
  return files;
}

bool any_entry(const Plan& plan, bool tokens_on_m) {
  return std::any_of(plan.entries.begin(), plan.entries.end(), [&](const EntryPlan& entry) {
    return plan.boolean(fmt::format("{}.tokens_on_m", entry.variant)) == tokens_on_m;
  });
}

std::vector<std::string_view> templates(const Plan& plan) {
  if (is_portable(plan)) return portable_templates(plan);
  std::vector<std::string_view> files;
  add_epilogue_templates(plan, files);
  if (plan.boolean("mx_scales"))
    files.emplace_back("grouped_matmul/sum_mxfp8.cuh");
  else if (plan.boolean("block_scales"))
    files.emplace_back("grouped_matmul/sum_block128.cuh");
  else
    files.emplace_back(plan.boolean("promote") ? "grouped_matmul/sum_promoted.cuh" : "grouped_matmul/sum_in_place.cuh");
  const bool quantize = plan.boolean("fuse_quantize");
  if (any_entry(plan, false))
    files.emplace_back(quantize ? "grouped_matmul/quantize_tokens_n.cuh" : "grouped_matmul/store_tokens_n.cuh");
  if (any_entry(plan, true))
    files.emplace_back(quantize ? "grouped_matmul/quantize_tokens_m.cuh" : "grouped_matmul/store_tokens_m.cuh");
  if (plan.boolean("gather_a"))
    files.emplace_back(plan.boolean("block_scales") ? "grouped_matmul/gather_block128.cuh"
                                                    : "grouped_matmul/gather_tokens.cuh");
  files.emplace_back("grouped_matmul/kernel.cuh");
  return files;
}

std::string_view entry_template(const EntryPlan& entry) {
  if (entry.variant == "portable") return "grouped_matmul::run<Params, Portable, Custom>";
  if (entry.variant == "tall") return "grouped_matmul::run<Params, Tall, Custom>";
  return entry.variant == "narrow" ? "grouped_matmul::run<Params, Narrow, Custom>"
                                   : "grouped_matmul::run<Params, Wide, Custom>";
}

// ---- launch ----

std::int64_t needs(const Plan& plan) {
  std::int64_t bits = 0;
  const bool block_scales = plan.boolean("block_scales"), mx_scales = plan.boolean("mx_scales");
  if (block_scales || mx_scales || plan.boolean("rowwise") || plan.boolean("tensor_scales")) bits |= kScales;
  if (mx_scales) bits |= kMxScales;
  if (block_scales) bits |= kBlockScales;
  if (!is_portable(plan)) bits |= kTensorMaps;
  if (plan.boolean("bias")) bits |= kBias;
  if (plan.boolean("gated")) bits |= kGated;
  if (plan.boolean("fuse_activation") && plan.boolean("limit_per_expert")) bits |= kLimits;
  if (plan.boolean("gather_a")) bits |= kGather;
  if (plan.boolean("column_scales")) bits |= kColumnScales;
  if (plan.boolean("fuse_quantize")) bits |= kQuantized;
  if (plan.boolean("halves")) bits |= kHalves;
  return bits;
}

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  values[kDepth] = plan.integer("depth");
  values[kColumns] = plan.integer("columns");
  values[kOutputColumns] = plan.integer("output_columns");
  values[kExperts] = plan.integer("num_matrices");
  values[kElementBytes] = bits(*find_dtype(plan.text("element_dtype"))) / 8;
  values[kNeeds] = needs(plan);
  values[kNumInputs] = plan.expressions.empty() ? 0 : static_cast<std::int64_t>(plan.expressions[0].inputs.size());
  values[kOutputBytes] = bits(*find_dtype(plan.text("output_dtype"))) / 8;
  values[kScaleBytes] = values[kNeeds] & kScales ? bits(*find_dtype(plan.text("scale_dtype"))) / 8 : 0;
  values[kNumEntries] = static_cast<std::int64_t>(plan.entries.size());
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    std::int64_t* entry = &values[kFirstEntry + i * kEntryConstants];
    const auto number = [&](std::string_view name) {
      return plan.integer(fmt::format("{}.{}", plan.entries[i].variant, name));
    };
    entry[kMaxTokens] = number("max_tokens");
    entry[kWeightRows] = number("weight_rows");
    entry[kTileColumns] = number("tile_columns");
    entry[kJoinedTiles] = number("joined_tiles");
    entry[kCluster] = number("cluster");
    entry[kLeastRows] = number("least_rows");
    entry[kBoxHeights] = number("box_heights");
    entry[kStoreRows] = values[kNeeds] & kTensorMaps ? number("store_rows") : 0;
  }
  return values;
}

const std::int64_t* entry_constants(const LaunchConstants& values, int entry) noexcept {
  return &values[kFirstEntry + static_cast<std::size_t>(entry) * kEntryConstants];
}

/// Groups that may have rows.
std::int64_t busy_groups(const Args& args) noexcept {
  const std::int64_t most = std::min(args.num_groups, args.num_rows);
  return args.num_active_experts > 0 ? std::min(most, args.num_active_experts) : most;
}

/// The last entry that wants as many rows a group as there are on average.
int choose_entry(const LaunchConstants& values, const Args& args) noexcept {
  const std::int64_t groups = busy_groups(args);
  int chosen = 0;
  for (int i = 1; i < values[kNumEntries]; ++i) {
    if (args.num_rows >= entry_constants(values, i)[kLeastRows] * groups) chosen = i;
  }
  return chosen;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }

/// An upper bound of the tiles that clusters take with an entry: each group may have one tile that is not full.
std::int64_t cluster_tiles(const LaunchConstants& values, const std::int64_t* entry, const Args& args) noexcept {
  const std::int64_t units = ceil_div(values[kOutputColumns], entry[kTileColumns] * entry[kCluster]);
  return (args.num_rows / entry[kMaxTokens] + std::min(args.num_groups, args.num_rows)) * units;
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_rows == 0 || args.num_groups == 0) return {0, 0, 1};
  const int chosen = choose_entry(values, args);
  const std::int64_t* entry = entry_constants(values, chosen);
  const std::int64_t clusters = std::max<std::int64_t>(1, device.num_sms / entry[kCluster]);
  const std::int64_t works = cluster_tiles(values, entry, args) / entry[kJoinedTiles];
  const std::int64_t grid = std::min(clusters, works) * entry[kCluster];
  return {chosen, static_cast<std::uint32_t>(grid), static_cast<std::uint32_t>(entry[kCluster])};
}

/// b as [E, N, K], or with gate and up in one tile as [E, C / 8, gate and up, 8, K].
BoxMap weight_map(const LaunchConstants& values, const std::int64_t* entry, const Args& args) {
  const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t row = unsigned_of(values[kDepth] * values[kElementBytes]);
  const std::uint64_t expert = row * unsigned_of(values[kColumns]), experts = unsigned_of(values[kExperts]);
  BoxMap map;
  map.element_bytes = static_cast<std::uint32_t>(values[kElementBytes]);
  map.base = args.b;
  const std::uint64_t depth = unsigned_of(values[kDepth]), columns = unsigned_of(values[kOutputColumns]);
  const std::uint32_t slice = 128 / map.element_bytes, rows = static_cast<std::uint32_t>(entry[kWeightRows]);
  if ((values[kNeeds] & kGated) == 0) {
    map = {map.element_bytes, 3, args.b, {depth, columns, experts}, {row, expert}, {slice, rows, 1}};
  } else if (values[kNeeds] & kHalves) {
    map = {map.element_bytes,
           5,
           args.b,
           {depth, 8, 2, columns / 8, experts},
           {row, columns * row, 8 * row, expert},
           {slice, 8, 2, rows / 16, 1}};
  } else {
    map = {map.element_bytes,          5, args.b, {depth, 8, 2, columns / 8, experts}, {2 * row, row, 16 * row, expert},
           {slice, 8, 2, rows / 16, 1}};
  }
  return map;
}

BoxMap token_map(const LaunchConstants& values, const Args& args, std::uint32_t rows) {
  BoxMap map;
  map.element_bytes = static_cast<std::uint32_t>(values[kElementBytes]);
  map.rank = 2;
  map.base = args.a;
  map.dims[0] = static_cast<std::uint64_t>(values[kDepth]);
  map.dims[1] = static_cast<std::uint64_t>(args.num_rows);
  map.strides[0] = map.dims[0] * map.element_bytes;
  map.box[0] = 128 / map.element_bytes;
  map.box[1] = rows;
  return map;
}

/// c as [R, bytes of C] in boxes of 128 bytes by `rows` rows.
BoxMap store_map(const LaunchConstants& values, const Args& args, std::uint32_t rows) {
  BoxMap map;
  map.rank = 2;
  map.base = args.c;
  map.dims[0] = map.strides[0] = static_cast<std::uint64_t>(values[kOutputColumns] * values[kOutputBytes]);
  map.dims[1] = static_cast<std::uint64_t>(args.num_rows);
  map.box[0] = 128;
  map.box[1] = rows;
  return map;
}

std::int64_t scales_stride(std::int64_t given, std::int64_t rows, std::int64_t scale_bytes) noexcept {
  if (given != 0 || scale_bytes == 0) return given;
  const std::int64_t step = 16 / scale_bytes;
  return ceil_div(rows, step) * step;
}

void encode_tokens(const LaunchConstants& values, const std::int64_t* entry, const MapEncoder& maps, const Args& args,
                   TensorArgs& out) {
  const auto share = static_cast<std::uint32_t>(entry[kMaxTokens] / entry[kCluster]);
  for (std::uint32_t i = 0; i + 1 < grouped_matmul::kMaxTokenBoxes; ++i)
    if (entry[kBoxHeights] & (8 << i)) maps.encode(token_map(values, args, 8u << i), out.tokens[i]);
  maps.encode(token_map(values, args, share), out.tokens[grouped_matmul::kMaxTokenBoxes - 1]);
}

const void* prepare(const LaunchConstants& values, const Launch& chosen, const MapEncoder& maps, const void* raw,
                    void* buffer) {
  const Args& args = *static_cast<const Args*>(raw);
  const std::int64_t* entry = entry_constants(values, chosen.entry);
  TensorArgs& out = *static_cast<TensorArgs*>(buffer);
  static_assert(offsetof(TensorArgs, args) == 0, "kernels without tensor copies take the first part");
  out.args = args;
  out.args.a_scales_stride = scales_stride(args.a_scales_stride, args.num_rows, values[kScaleBytes]);
  out.args.c_scales_stride = scales_stride(args.c_scales_stride, args.num_rows, values[kScaleBytes]);
  if ((values[kNeeds] & kTensorMaps) == 0) return &out;
  maps.encode(weight_map(values, entry, args), out.weights);
  if ((values[kNeeds] & kGather) == 0) encode_tokens(values, entry, maps, args, out);
  if (entry[kStoreRows] > 0)
    maps.encode(store_map(values, args, static_cast<std::uint32_t>(entry[kStoreRows])), out.stores);
  return &out;
}

// ---- checks ----

const char* check_sizes(const LaunchConstants& values, const Args& args) noexcept {
  if (args.num_rows < 0) return "num_rows is negative; allowed 0 .. 2^31 - 1";
  if (args.num_rows > kMostRows) return "num_rows is too large; allowed 0 .. 2^31 - 1";
  if (args.num_groups < 0) return "num_groups is negative; allowed 0 .. 2^31 - 1";
  if (args.num_groups > kMostRows) return "num_groups is too large; allowed 0 .. 2^31 - 1";
  if (args.max_num_tokens_per_expert < -1) return "max_num_tokens_per_expert is below -1; a hint, -1 if unknown";
  if (args.num_active_experts < -1) return "num_active_experts is below -1; a hint, -1 if unknown";
  for (int i = 0; i < values[kNumEntries]; ++i)
    if (cluster_tiles(values, entry_constants(values, i), args) > kMostTiles)
      return "num_rows and num_groups make more than 2^31 - 1 tiles; split the call";
  return nullptr;
}

const char* check_scales(const LaunchConstants& values, const Args& args) noexcept {
  const std::int64_t need = values[kNeeds];
  if ((need & kScales) == 0) return nullptr;
  if (!args.a_scales) return "a_scales is null; it takes the scales of a that quantization.scheme names";
  if (!args.b_scales) return "b_scales is null; it takes the scales of b that quantization.scheme names";
  if (misaligned(args.a_scales, values[kScaleBytes])) return "a_scales is not aligned to its element";
  if (misaligned(args.b_scales, values[kScaleBytes])) return "b_scales is not aligned to its element";
  if ((need & kMxScales) && (misaligned(args.a_scales, 16) || misaligned(args.b_scales, 16)))
    return "a_scales or b_scales of mxfp8 is not aligned to 16 bytes";
  return nullptr;
}

bool bad_stride(const LaunchConstants& values, std::int64_t stride, std::int64_t rows) noexcept {
  return stride != 0 && (stride < rows || stride * values[kScaleBytes] % 16 != 0);
}

const char* check_strides(const LaunchConstants& values, const Args& args) noexcept {
  if ((values[kNeeds] & kColumnScales) == 0) return nullptr;
  const bool gathers = (values[kNeeds] & kGather) != 0;
  if (gathers && args.a_scales_stride == 0)
    return "a_scales_stride is 0; with gathered rows it takes a's rows, rounded up";
  if (bad_stride(values, args.a_scales_stride, gathers ? 1 : args.num_rows))
    return "a_scales_stride is less than num_rows or no multiple of 16 bytes; 0 chooses it";
  if (bad_stride(values, args.c_scales_stride, args.num_rows))
    return "c_scales_stride is less than num_rows or no multiple of 16 bytes; 0 chooses it";
  return nullptr;
}

const char* check_options(const LaunchConstants& values, const Args& args) noexcept {
  if ((values[kNeeds] & kBias) && !args.bias) return "bias is null; it takes dtypes.activation [num_experts, columns]";
  if ((values[kNeeds] & kQuantized) && !args.c_scales)
    return values[kNeeds] & kMxScales
               ? "c_scales is null; it takes float8_e8m0fnu [num_rows, ceil(output_columns / 32)]"
               : "c_scales is null; it takes quantization.scale [num_rows, ceil(output_columns / 128)]";
  if ((values[kNeeds] & kQuantized) && misaligned(args.c_scales, values[kScaleBytes]))
    return "c_scales is not aligned to its element";
  if ((values[kNeeds] & kLimits) && !args.limits) return "limits is null; it takes float32 [num_experts]";
  if (misaligned(args.limits, 4)) return "limits is not aligned to 4 bytes";
  if ((values[kNeeds] & kGather) && !args.order) return "order is null; it takes uint32 [num_rows]";
  if (misaligned(args.order, 4)) return "order is not aligned to 4 bytes";
  if (misaligned(args.bias, 2)) return "bias is not aligned to its element";
  for (std::int64_t i = 0; i < values[kNumInputs]; ++i)
    if (!args.inputs[i]) return "an input of the epilogue is null; inputs[i] is its i-th named input";
  return nullptr;
}

const char* check_tensors(const Args& args) noexcept {
  if (!args.c) return "c is null; it takes the plan's output_dtype [num_rows, output_columns]";
  if (!args.a) return "a is null; it takes the plan's element_dtype [num_rows, depth]";
  if (!args.b) return "b is null; it takes the plan's element_dtype [num_experts, columns, depth]";
  for (const void* pointer : std::array<const void*, 3>{args.c, args.a, args.b})
    if (misaligned(pointer, 16)) return "a, b or c is not aligned to 16 bytes";
  if (!args.a_offsets) return "a_offsets is null; it takes uint32 [num_groups + 1]";
  if (!args.expert_ids) return "expert_ids is null; it takes int32 [num_groups]";
  if (misaligned(args.a_offsets, 4) || misaligned(args.expert_ids, 4))
    return "a_offsets or expert_ids is not aligned to 4 bytes";
  return nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (const char* wrong = check_sizes(values, args)) return wrong;
  if (args.num_rows == 0 || args.num_groups == 0) return nullptr;
  if (const char* wrong = check_tensors(args)) return wrong;
  if (const char* wrong = check_scales(values, args)) return wrong;
  if (const char* wrong = check_strides(values, args)) return wrong;
  return check_options(values, args);
}

}  // namespace

extern const Family kGroupedMatmulFamily;
const Family kGroupedMatmulFamily = {
    .name = "grouped_matmul",
    .tag = Args::kFamily,
    .kernels = kernels,
    .plan = plan,
    .templates = templates,
    .entry_template = entry_template,
    .fragments = grouped_matmul::spell_fragments,
    .constants = constants,
    .launch = launch,
    .check = check,
    .workspace_bytes = nullptr,
    .prepare = prepare,
    .entries_apart = true,
};

}  // namespace moegen
