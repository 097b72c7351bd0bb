// SPDX-License-Identifier: Apache-2.0
// The activation family: what lies between the two matmuls where the first one's epilogue did not do it.
#include <moegen/family.hpp>

#include <moegen/args/activation.h>
#include "expression_places.hpp"
#include "families/activation_fields.hpp"
#include "families/alignment.hpp"
#include "families/expert_expression.hpp"
#include "families/row_shape.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using activation::Args;

static_assert(int{activation::kMaxInputs} == kMaxExpressionInputs, "the argument struct holds what a config may name");

constexpr int kLaunchAbi = 1;
constexpr std::string_view kEpilogue = "/experts/up_epilogue";

enum Constant { kByExpert = RowConstants::kFirstOwn, kLimits, kNumInputs };

bool by_expert(const ConfigFields& fields) {
  const auto& epilogue = fields.experts.up_epilogue;
  return fields.activation.limit_per_expert || (epilogue && reads_expert(*epilogue, kEpilogue));
}

RowFormat format_of(const ConfigFields& fields) {
  const Scheme scheme = quantises_where_produced(fields) ? fields.quantization.scheme : Scheme::none;
  return {fields.intermediate, scheme, fields.dtypes.activation, fields.activation.gated};
}

void add_epilogue(PlanBuilder& plan, const ConfigFields& fields) {
  const auto& epilogue = fields.experts.up_epilogue;
  plan.field("epilogue", epilogue.has_value(), kEpilogue);
  plan.derived("by_expert", by_expert(fields),
               by_expert(fields) ? "a limit or the epilogue depends on the expert of a row" : "rows are all alike");
  if (!epilogue) return;
  plan.expression(*epilogue);
  if (by_expert(fields)) add_experts(plan, fields);
}

std::vector<std::string> kernels(const Config&) { return {"activation"}; }

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  const ConfigFields& fields = config.fields();
  const RowFormat format = format_of(fields);
  RowShape shape = choose_row_shape(format, by_expert(fields), 1, arch);
  if (fields.experts.up_epilogue) shape.resident = 1;  // who knows what an expression needs
  add_rows(builder, fields, format, shape, "/intermediate");
  add_activation(builder, fields);
  builder.field("interleaved", fields.activation.gate_layout == GateLayout::interleaved, "/activation/gate_layout");
  add_epilogue(builder, fields);
  builder.entry(rows_entry("moegen_activation", shape, arch));
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::vector<std::string_view> templates(const Plan& plan) {
  if (plan.expressions.empty()) return {"activation/kernel.cuh"};
  return {"core/experts.cuh", "core/math.cuh", "activation/kernel.cuh"};
}

std::string_view entry_template(const EntryPlan&) { return "activation::run<Params, Custom>"; }

std::string fragments(const Plan& plan) {
  std::string out = "/// What the config adds to the activation.\nstruct Custom {\n";
  if (!plan.expressions.empty())
    out += spell_expert_epilogue(plan.expressions.front(), kEpilogue, "activation", "width");
  return out + "};\n";
}

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  set_row_constants(values, plan);
  values[kByExpert] = plan.boolean("by_expert") ? 1 : 0;
  values[kLimits] = plan.boolean("limit_per_expert") ? 1 : 0;
  values[kNumInputs] = plan.expressions.empty() ? 0 : static_cast<std::int64_t>(plan.expressions[0].inputs.size());
  return values;
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  return {0, row_blocks(values, device, static_cast<const Args*>(raw)->num_rows), 1};
}

const char* check_experts(const LaunchConstants& values, const Args& args) noexcept {
  if (values[kByExpert] == 0) return nullptr;
  if (!args.expert_start_indices) return "expert_start_indices is null; it takes uint32 [num_groups + 1]";
  if (!args.expert_ids) return "expert_ids is null; it takes int32 [num_groups]";
  if (misaligned(args.expert_start_indices, 4)) return "expert_start_indices is not aligned to 4 bytes";
  if (misaligned(args.expert_ids, 4)) return "expert_ids is not aligned to 4 bytes";
  if (args.num_groups < 1 || args.num_groups > kMaxRows) return "num_groups is out of range; allowed 1 .. 2^31 - 1";
  if (values[kLimits] != 0 && !args.limits) return "limits is null; it takes float32 [num_groups of the config]";
  if (misaligned(args.limits, 4)) return "limits is not aligned to 4 bytes";
  return nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_rows < 0) return "num_rows is negative; it must be 0 or more";
  if (args.num_rows > kMaxRows) return "num_rows is too large; allowed 0 .. 2^31 - 1";
  if (args.num_rows == 0) return nullptr;
  if (!args.up) return "up is null; it takes dtypes.activation [num_rows, columns of the up projection]";
  if (misaligned(args.row_count, 4)) return "row_count is not aligned to 4 bytes";
  if (const char* wrong = check_experts(values, args)) return wrong;
  for (std::int64_t i = 0; i < values[kNumInputs]; ++i)
    if (!args.inputs[i]) return "an input of experts.up_epilogue is null; inputs[i] is its i-th named input";
  return check_row_pointers(values,
                            {args.rows, args.scales, args.up, args.global_scale, args.num_rows, args.scales_stride});
}

}  // namespace

extern const Family kActivationFamily;
const Family kActivationFamily = {
    .name = "activation",
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
