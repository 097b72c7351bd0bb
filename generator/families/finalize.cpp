// SPDX-License-Identifier: Apache-2.0
// The finalize family: its parameters, how a token's columns are cut into blocks, and its arguments' rules.
#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>

#include <moegen/args/finalize.h>
#include "expression_places.hpp"
#include "families/alignment.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using finalize::Args;

static_assert(int{finalize::kMaxInputs} == kMaxExpressionInputs, "the argument struct holds what a config may name");

constexpr int kLaunchAbi = 1;
constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;  // CUDA C++ Programming Guide: x-dimension of a grid

// Bits of LaunchConstants[kNeeds]: which optional arguments this kernel reads.
enum Need : std::int64_t {
  kWeights = 1,
  kX = 2,
  kTopkIds = 4,
  kResidual = 8,
  kShared = 16,
  kSharedGate = 32,
  kBias = 64,
};

enum Constant { kBlocksPerToken, kNeeds, kNumInputs, kWeightBytes, kIdBytes };

// Every dtype whose rows the kernel reads or writes in 16-byte pieces.
std::vector<Dtype> row_dtypes(const ConfigFields& fields) {
  std::vector<Dtype> dtypes = {fields.finalize.down, fields.finalize.output};
  if (fields.finalize.residual || fields.num_zero_experts > 0) dtypes.push_back(fields.dtypes.activation);
  return dtypes;
}

// Columns of a thread: 16 bytes of the narrowest dtype in use, so that every access is whole 16-byte pieces.
std::int64_t choose_vector(const ConfigFields& fields) {
  int narrowest = 32;
  for (Dtype dtype : row_dtypes(fields)) narrowest = std::min(narrowest, bits(dtype));
  return 128 / narrowest;
}

std::int64_t idle_threads(std::int64_t vectors, std::int64_t threads) {
  return (vectors + threads - 1) / threads * threads - vectors;
}

// 256 threads take whole 4 KiB pieces of a row, which was the fastest at 16 and 128 tokens on an H200
// (docs/kernels.md), unless more than an eighth of them would be idle; else the largest block that leaves the fewest
// idle.
std::int64_t choose_threads(std::int64_t vectors) {
  constexpr std::int64_t kMost = 256;
  if (8 * idle_threads(vectors, kMost) <= vectors + idle_threads(vectors, kMost)) return kMost;
  std::int64_t best = 64;
  for (std::int64_t threads = 96; threads <= kMost; threads += 32)
    if (idle_threads(vectors, threads) <= idle_threads(vectors, best)) best = threads;
  return best;
}

void add_dtypes(PlanBuilder& plan, const ConfigFields& fields) {
  plan.dtype("down_dtype", fields.finalize.down, "/finalize/down");
  plan.dtype("weight_dtype", fields.router.weights, "/router/weights");
  plan.dtype("output_dtype", fields.finalize.output, "/finalize/output");
  plan.dtype("activation_dtype", fields.dtypes.activation, "/dtypes/activation");
  plan.dtype("id_dtype", fields.indices.ids, "/indices/ids");
}

void add_layer(PlanBuilder& plan, const ConfigFields& fields) {
  plan.field("hidden", fields.expert_hidden, fields.expert_hidden == fields.hidden ? "/hidden" : "/expert_hidden");
  plan.derived("num_slots", std::int64_t{fields.num_slots()}, "top_k and the router's shared slots");
  plan.field("num_experts", std::int64_t{fields.num_experts}, "/num_experts");
  plan.field("num_zero_experts", std::int64_t{fields.num_zero_experts}, "/num_zero_experts");
  plan.field("num_shared_slots", std::int64_t{fields.num_shared_slots()}, "/router/shared_slots");
  plan.field("first_expert", std::int64_t{fields.indices.first_expert}, "/indices/first_expert");
  plan.field("num_local_experts", std::int64_t{fields.indices.num_local_experts}, "/indices/num_local_experts");
}

bool has_shared_gate(const ConfigFields& fields) {
  return fields.finalize.shared && fields.shared_experts.gate == SharedGate::sigmoid;
}

void add_options(PlanBuilder& plan, const ConfigFields& fields) {
  const bool on_input = fields.experts.weights_on_input && !fields.finalize.weights_applied;
  if (on_input)
    plan.derived("weights_applied", true, "experts.weights_on_input: the rows already carry their weight");
  else
    plan.field("weights_applied", fields.finalize.weights_applied, "/finalize/weights_applied");
  plan.field("bias", fields.finalize.bias, "/finalize/bias");
  plan.field("shared", fields.finalize.shared, "/finalize/shared");
  plan.field("shared_gate", has_shared_gate(fields), "/shared_experts/gate");
  plan.field("residual", fields.finalize.residual, "/finalize/residual");
  plan.field("epilogue", fields.finalize.epilogue.has_value(), "/finalize/epilogue");
  if (fields.finalize.epilogue) plan.expression(*fields.finalize.epilogue);
}

// Rows a thread keeps in flight: 8 cover HBM latency at full occupancy, and more would cost registers
// (docs/kernels.md).
constexpr std::int64_t kSlotsInFlight = 8;

void add_shape(PlanBuilder& plan, const ConfigFields& fields) {
  const std::int64_t vector = choose_vector(fields);
  const std::int64_t vectors = fields.expert_hidden / vector;
  const std::int64_t threads = choose_threads(vectors);
  plan.derived("vector", vector, "columns of a thread: 16 bytes of the narrowest dtype");
  plan.derived("threads", threads, "whole 4 KiB pieces of a row, or fewest idle threads in a token's last block");
  plan.derived("blocks_per_token", (vectors + threads - 1) / threads, "blocks that cover the columns of a token");
  plan.derived("slots_in_flight", std::min<std::int64_t>(kSlotsInFlight, fields.num_slots()),
               "rows asked for before the first is added");
}

std::vector<std::string> kernels(const Config&) { return {"finalize"}; }

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  add_dtypes(builder, config.fields());
  add_layer(builder, config.fields());
  add_options(builder, config.fields());
  add_shape(builder, config.fields());
  EntryPlan entry;
  entry.name = "moegen_finalize";
  entry.variant = "rows";
  entry.threads = static_cast<int>(choose_threads(config->expert_hidden / choose_vector(config.fields())));
  entry.dependent_launch = arch.dependent_launch;
  builder.entry(entry);
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::string_view entry_template(const EntryPlan&) { return "finalize::run<Params, Custom>"; }

// Where one named input of the epilogue is read.
std::string spell_input(const ExpressionInput& input, std::size_t index) {
  const std::string where = input.shape == "scalar"    ? "0"
                            : input.shape == "tokens"  ? "token"
                            : input.shape == "columns" ? "column"
                                                       : "token * Params::hidden + column";
  return fmt::format("to_float(static_cast<const {}*>(args.inputs[{}])[{}])",
                     input.dtype == Dtype::float32 ? "float" : to_string(input.dtype), index, where);
}

std::string spell_name(const ExpressionConfig& expression, std::string_view name) {
  if (name == "value") return "value";
  if (name == "token") return "static_cast<float>(token)";
  if (name == "col") return "static_cast<float>(column)";
  for (std::size_t i = 0; i < expression.inputs.size(); ++i)
    if (expression.inputs[i].name == name) return spell_input(expression.inputs[i], i);
  throw Error(ErrorCode::internal, fmt::format("finalize.epilogue: unchecked name '{}'", name));
}

std::string spell_epilogue(const ExpressionConfig& expression) {
  const Expression parsed = parse_at(expression_place("/finalize/epilogue"), expression);
  return parsed.emit([&](std::string_view name) { return spell_name(expression, name); });
}

// The members of Custom that the kernel calls; the others are never instantiated.
std::string fragments(const Plan& plan) {
  std::string out = "/// What the config adds to the sum of the experts.\nstruct Custom {\n";
  if (plan.boolean("shared_gate"))
    out += "  static MOEGEN_DEVICE float gate(float logit) { return math::sigmoid(logit); }\n";
  if (!plan.expressions.empty())
    out += fmt::format(
        "  static MOEGEN_DEVICE float epilogue(const finalize::Args& args, float value, uint64_t token, uint32_t "
        "column) "
        "{{\n    return {};\n  }}\n",
        spell_epilogue(plan.expressions.front()));
  return out + "};\n";
}

bool uses_math(const Plan& plan) { return plan.boolean("shared_gate") || !plan.expressions.empty(); }

std::vector<std::string_view> templates(const Plan& plan) {
  if (uses_math(plan)) return {"core/math.cuh", "finalize/kernel.cuh"};
  return {"finalize/kernel.cuh"};
}

std::int64_t needs(const Plan& plan) {
  const bool zero_experts = plan.integer("num_zero_experts") > 0;
  std::int64_t bits = 0;
  if (!plan.boolean("weights_applied")) bits |= kWeights;
  if (zero_experts) bits |= kX;
  if (zero_experts || plan.boolean("bias")) bits |= kTopkIds;
  if (plan.boolean("residual")) bits |= kResidual;
  if (plan.boolean("shared")) bits |= kShared;
  if (plan.boolean("shared_gate")) bits |= kSharedGate;
  if (plan.boolean("bias")) bits |= kBias;
  return bits;
}

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  values[kBlocksPerToken] = plan.integer("blocks_per_token");
  values[kNeeds] = needs(plan);
  values[kNumInputs] = plan.expressions.empty() ? 0 : static_cast<std::int64_t>(plan.expressions[0].inputs.size());
  values[kWeightBytes] = bits(*find_dtype(plan.text("weight_dtype"))) / 8;
  values[kIdBytes] = bits(*find_dtype(plan.text("id_dtype"))) / 8;
  return values;
}

Launch launch(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  return {0, static_cast<std::uint32_t>(args.num_tokens * values[kBlocksPerToken]), 1};
}

const char* check_rows(std::int64_t need, const Args& args) noexcept {
  if (!args.output) return "output is null; it takes finalize.output [num_tokens, hidden]";
  if (!args.down) return "down is null; it takes finalize.down [rows, hidden]";
  if ((need & kX) && !args.x) return "x is null; with zero experts it takes dtypes.activation [num_tokens, hidden]";
  if ((need & kResidual) && !args.residual) return "residual is null; it takes dtypes.activation [num_tokens, hidden]";
  if ((need & kShared) && !args.shared) return "shared is null; it takes finalize.down [num_tokens, hidden]";
  if ((need & kBias) && !args.bias) return "bias is null; it takes finalize.down [num_groups, hidden]";
  const std::array<const void*, 6> rows = {args.output, args.down, args.x, args.residual, args.shared, args.bias};
  for (const void* pointer : rows)
    if (misaligned(pointer, 16)) return "a tensor of rows is not aligned to 16 bytes";
  return nullptr;
}

const char* check_scalars(const LaunchConstants& values, const Args& args) noexcept {
  const std::int64_t need = values[kNeeds];
  if (!args.restore) return "restore is null; it takes uint32 [num_tokens * slots]";
  if (misaligned(args.restore, 4)) return "restore is not aligned to 4 bytes";
  if ((need & kWeights) && !args.weights) return "weights is null; it takes router.weights [num_tokens, slots]";
  if (misaligned(args.weights, values[kWeightBytes])) return "weights is not aligned to its element";
  if ((need & kTopkIds) && !args.topk_ids) return "topk_ids is null; it takes indices.ids [num_tokens, slots]";
  if (misaligned(args.topk_ids, values[kIdBytes])) return "topk_ids is not aligned to its element";
  if ((need & kSharedGate) && !args.shared_gate) return "shared_gate is null; it takes float32 [num_tokens]";
  if (misaligned(args.shared_gate, 4)) return "shared_gate is not aligned to 4 bytes";
  for (std::int64_t i = 0; i < values[kNumInputs]; ++i)
    if (!args.inputs[i]) return "an input of finalize.epilogue is null; inputs[i] is its i-th named input";
  return nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_tokens < 0) return "num_tokens is negative; it must be 0 or more";
  if (args.num_tokens == 0) return nullptr;
  if (args.num_tokens > kMaxGrid / values[kBlocksPerToken])
    return "num_tokens is too large; num_tokens * blocks_per_token must stay below 2^31";
  if (const char* wrong = check_rows(values[kNeeds], args)) return wrong;
  return check_scalars(values, args);
}

}  // namespace

extern const Family kFinalizeFamily;
const Family kFinalizeFamily = {
    .name = "finalize",
    .tag = Args::kFamily,
    .kernels = kernels,
    .plan = plan,
    .templates = templates,
    .entry_template = entry_template,
    .fragments = fragments,
    .constants = constants,
    .launch = launch,
    .check = check,
    .workspace_bytes = nullptr,
};

}  // namespace moegen
