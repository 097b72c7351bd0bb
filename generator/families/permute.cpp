// SPDX-License-Identifier: Apache-2.0
// The permute family: tokens to rows in expert order.
#include <algorithm>

#include <moegen/family.hpp>

#include <moegen/args/permute.h>
#include <moegen/shapes.hpp>

#include "families/activation_fields.hpp"
#include "families/alignment.hpp"
#include "families/row_shape.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using permute::Args;

constexpr int kLaunchAbi = 1;
constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;  // CUDA C++ Programming Guide: x-dimension of a grid

// Rows that one block looks at for padding, at least: enough that blocks without any cost little, few enough that those
// with many are no tail.
constexpr std::int64_t kLeastPads = 8;

// Pieces of 16 bytes that a thread copies of a wide row: two are in flight before it writes.
constexpr std::int64_t kPiecesOfCopy = 2;

enum Constant { kPadBlocks = RowConstants::kFirstOwn, kWeightBytes, kSlots, kQuantised };

RowFormat format_of(const ConfigFields& fields) {
  const Scheme scheme = quantises_where_produced(fields) ? fields.quantization.scheme : Scheme::none;
  return {fields.expert_hidden, scheme, fields.dtypes.activation};
}

// Whole steps of a block's teams.
std::int64_t pads_per_block(const RowShape& shape) {
  return (kLeastPads + shape.rows_per_block - 1) / shape.rows_per_block * shape.rows_per_block;
}

std::int64_t pad_blocks(const ConfigFields& fields, std::int64_t pads_per_block) {
  const std::int64_t most = fields.indices.pad_rows_to - 1;
  return num_groups(fields) * ((most + pads_per_block - 1) / pads_per_block);
}

// Scales of groups of columns, where their rows lie apart and each token is encoded once. Not with codes of four bits:
// mxfp4 measured 55.7 us with it and 53.2 without.
bool stages_scales(const ConfigFields& fields, const RowFormat& format) {
  const bool groups = format.scheme == Scheme::block128 || format.scheme == Scheme::mxfp8;
  return groups && fields.quantization.scale_layout == ScaleLayout::row && !fields.experts.weights_on_input;
}

// A word for each vector of a block's teams at most.
int scale_words(const RowShape& shape) { return static_cast<int>(shape.team * shape.vectors * shape.rows_per_block); }

void add_layer(PlanBuilder& plan, const ConfigFields& fields, const RowShape& shape) {
  plan.derived("num_slots", std::int64_t{fields.num_slots()}, "top_k and the router's shared slots");
  plan.field("weights_on_input", fields.experts.weights_on_input, "/experts/weights_on_input");
  if (fields.experts.weights_on_input) plan.dtype("weight_dtype", fields.router.weights, "/router/weights");
  plan.field("pad_rows_to", std::int64_t{fields.indices.pad_rows_to}, "/indices/pad_rows_to");
  plan.derived("pads_per_block", pads_per_block(shape), "rows that one block looks at for padding");
  plan.derived("pad_blocks", pad_blocks(fields, pads_per_block(shape)), "blocks for the padding rows of every group");
}

std::vector<std::string> kernels(const Config&) { return {"permute"}; }

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  const ConfigFields& fields = config.fields();
  const RowFormat format = format_of(fields);
  RowShape shape = choose_row_shape(format, false, format.scheme == Scheme::none ? kPiecesOfCopy : 1, arch);
  shape.resident = 1;  // the rows of a token's slots are in registers, too
  add_rows(builder, fields, format, shape, fields.expert_hidden == fields.hidden ? "/hidden" : "/expert_hidden");
  add_layer(builder, fields, shape);
  const bool staged = stages_scales(fields, format);
  builder.derived("staged_scales", staged,
                  staged ? "the scales of a token leave together" : "stored as they are found");
  EntryPlan entry = rows_entry("moegen_permute", shape, arch);
  if (staged) entry.dynamic_shared_bytes = std::max(entry.dynamic_shared_bytes, 4 * scale_words(shape));
  builder.entry(std::move(entry));
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::vector<std::string_view> templates(const Plan&) { return {"permute/kernel.cuh"}; }

std::string_view entry_template(const EntryPlan&) { return "permute::run<Params>"; }

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  set_row_constants(values, plan);
  values[kPadBlocks] = plan.integer("pad_blocks");
  values[kWeightBytes] = plan.boolean("weights_on_input") ? bits(*find_dtype(plan.text("weight_dtype"))) / 8 : 0;
  values[kSlots] = plan.integer("num_slots");
  values[kQuantised] = plan.boolean("quantised") ? 1 : 0;
  return values;
}

// Every token has its block: their number is known, so no loop goes over them.
std::int64_t token_blocks(const LaunchConstants& values, std::int64_t num_tokens) noexcept {
  const std::int64_t per_block = values[RowConstants::kRowsPerBlock];
  return (num_tokens + per_block - 1) / per_block * values[RowConstants::kBlocksPerRow];
}

// Blocks among which the slots of a token are dealt: as many as a device with few tokens has room for. Where each would
// quantise the token again, that pays for a token or two only.
std::int64_t parts_of_token(const LaunchConstants& values, const LaunchDevice& device, std::int64_t blocks) noexcept {
  if (values[kQuantised] != 0) return blocks * 32 <= device.num_sms ? values[kSlots] : 1;
  const std::int64_t room = values[RowConstants::kResidentBlocks] * device.num_sms;
  return std::clamp<std::int64_t>(room / blocks, 1, values[kSlots]);
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  const std::int64_t num_tokens = static_cast<const Args*>(raw)->num_tokens;
  if (num_tokens == 0) return {};
  const std::int64_t blocks = token_blocks(values, num_tokens);
  return {0, static_cast<std::uint32_t>(blocks * parts_of_token(values, device, blocks) + values[kPadBlocks]), 1};
}

const char* check_pairs(const LaunchConstants& values, const Args& args) noexcept {
  if (!args.restore) return "restore is null; it takes uint32 [num_tokens * slots]";
  if (misaligned(args.restore, 4)) return "restore is not aligned to 4 bytes";
  if (values[kPadBlocks] != 0 && !args.order) return "order is null; with padded rows it takes uint32 [order_capacity]";
  if (misaligned(args.order, 4)) return "order is not aligned to 4 bytes";
  if (values[kPadBlocks] != 0 && !args.expert_start_indices)
    return "expert_start_indices is null; with padded rows it takes uint32 [num_groups + 1]";
  if (misaligned(args.expert_start_indices, 4)) return "expert_start_indices is not aligned to 4 bytes";
  if (values[kWeightBytes] == 0) return nullptr;
  if (!args.weights)
    return "weights is null; with experts.weights_on_input it takes router.weights [num_tokens, slots]";
  if (misaligned(args.weights, values[kWeightBytes])) return "weights is not aligned to its element";
  return nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_tokens < 0) return "num_tokens is negative; it must be 0 or more";
  if (args.num_tokens == 0) return nullptr;
  if (args.num_tokens > kMaxRows / values[kSlots])
    return "num_tokens is too large; num_tokens * slots must stay below 2^31";
  if (token_blocks(values, args.num_tokens) > kMaxGrid - values[kPadBlocks])
    return "num_tokens is too large; num_tokens * blocks_per_row must stay below 2^31";
  if (args.num_rows < 0) return "num_rows is negative; it is an upper bound of the rows";
  if (!args.x) return "x is null; it takes dtypes.activation [num_tokens, expert_hidden]";
  if (const char* wrong = check_pairs(values, args)) return wrong;
  return check_row_pointers(values,
                            {args.rows, args.scales, args.x, args.global_scale, args.num_rows, args.scales_stride});
}

}  // namespace

extern const Family kPermuteFamily;
const Family kPermuteFamily = {
    .name = "permute",
    .tag = Args::kFamily,
    .kernels = kernels,
    .plan = plan,
    .templates = templates,
    .entry_template = entry_template,
    .fragments = nullptr,
    .constants = constants,
    .launch = launch,
    .check = check,
    .workspace_bytes = nullptr,
};

}  // namespace moegen
