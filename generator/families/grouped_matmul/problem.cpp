// SPDX-License-Identifier: Apache-2.0
#include "families/grouped_matmul/problem.hpp"

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/shapes.hpp>

#include "config_words.hpp"
#include "families/activation_fields.hpp"
#include "families/expert_expression.hpp"

namespace moegen::grouped_matmul {
namespace {

// Throws what this version cannot multiply.
void check_scheme(const Config& config) {
  switch (config->quantization.scheme) {
    case Scheme::none:
    case Scheme::tensor:
    case Scheme::rowwise:
    case Scheme::block128:
    case Scheme::mxfp8: return;
    default: break;
  }
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: /quantization/scheme: grouped_matmul does not multiply {} yet; allowed none, tensor, "
                  "rowwise, block128, mxfp8 (moegen import --weights bfloat16 or float8_e4m3fn writes such a config)",
                  config.origin(), to_word(config->quantization.scheme)));
}

// Throws if the config insists on what cannot be done here.
void refuse_forced(const Config& config, Choice choice, std::string_view field, std::string_view why) {
  if (choice != Choice::yes || why.empty()) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: /experts/{}: is true, but {}; allowed false or \"auto\"", config.origin(), field, why));
}

// What keeps the activation out of the epilogue; "" if nothing does.
std::string_view unfused_because(const ConfigFields& fields) {
  const bool apart = fields.activation.gated && fields.activation.gate_layout == GateLayout::halves;
  if (fields.quantization.scheme == Scheme::block128 && apart && fields.intermediate % 64 != 0)
    return "intermediate is no multiple of 64, so a tile's rows of up would lie in two blocks of scales";
  return "";
}

// What keeps the quantiser out of it; "" if nothing does. A tile must hold all that one group of columns of c needs:
// 128 of block128, 32 of mxfp8, which every tile holds.
std::string_view unquantised_because(const ConfigFields& fields, const MatmulProblem& problem, const Arch& arch) {
  if (!quantises_rows(fields.quantization.scheme)) return "c is stored in its own dtype";
  if (!problem.fuse_activation) return "the activation is not fused: its kernel quantises";
  if (fields.quantization.scheme == Scheme::rowwise) return "no tile sees a whole row, which a rowwise scale needs";
  if (fields.quantization.scheme == Scheme::mxfp8) return "";
  if (fields.quantization.scheme != Scheme::block128)
    return "only block128 and mxfp8 rows are quantised in the epilogue";
  if (arch.name != "sm_90a") return "tiles without tensor copies do not hold a group of 128 columns";
  if (problem.gated && !problem.halves) return "128 interleaved columns lie in two blocks of scales";
  if (problem.gated && fields.intermediate % 128 != 0)
    return "intermediate is no multiple of 128, so 128 rows of up lie in two blocks of scales";
  return "";
}

void add_choice(PlanBuilder& plan, std::string_view field, bool value, Choice choice, std::string reason) {
  if (choice == Choice::automatic)
    plan.derived(field, value, std::move(reason));
  else
    plan.field(field, value, fmt::format("/experts/{}", field));
}

void decide_activation(const Config& config, MatmulProblem& problem, PlanBuilder& plan) {
  const ConfigFields& fields = config.fields();
  const Choice choice = fields.experts.fuse_activation;
  const std::string_view why = unfused_because(fields);
  refuse_forced(config, choice, "fuse_activation", why);
  problem.fuse_activation = why.empty() && choice != Choice::no;
  add_choice(plan, "fuse_activation", problem.fuse_activation, choice,
             why.empty() ? "gate and up are never written and read again" : std::string(why));
  problem.gated = problem.fuse_activation && fields.activation.gated;
  problem.limit_per_expert = problem.fuse_activation && fields.activation.limit_per_expert;
  if (problem.gated) problem.output_columns = fields.intermediate;
}

// Rows are quantised where they are produced: by this kernel if it applies the activation, else by the activation's.
void refuse_unquantised(const Config& config, const MatmulProblem& problem, const Arch& arch, std::string_view why) {
  if (config->experts.fuse_quantize != Choice::yes || why.empty() || !problem.fuse_activation) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: /experts/fuse_quantize: is true, but grouped_matmul.up applies the activation and, on "
                          "{}, cannot quantise: {}; allowed false or \"auto\", or experts.fuse_activation false (then "
                          "the activation kernel quantises)",
                          config.origin(), arch.name, why));
}

void decide_quantiser(const Config& config, const Arch& arch, MatmulProblem& problem, PlanBuilder& plan) {
  const Choice choice = config->experts.fuse_quantize;
  const std::string_view why = unquantised_because(config.fields(), problem, arch);
  refuse_unquantised(config, problem, arch, why);
  problem.fuse_quantize = why.empty() && choice != Choice::no;
  if (why.empty())
    add_choice(plan, "fuse_quantize", problem.fuse_quantize, choice, "c is what the down projection reads");
  else
    plan.derived("fuse_quantize", false, std::string(why));
  if (problem.fuse_quantize) problem.output = Dtype::float8_e4m3fn;
}

void decide_fusion(const Config& config, const Arch& arch, MatmulProblem& problem, PlanBuilder& plan) {
  if (problem.role == Role::up) {
    decide_activation(config, problem, plan);
    decide_quantiser(config, arch, problem, plan);
    return;
  }
  plan.derived("fuse_activation", false, "the activation follows the up projection");
  plan.derived("fuse_quantize", false, "c is stored in its own dtype");
}

void add_shape(PlanBuilder& plan, const MatmulProblem& problem, const ConfigFields& fields) {
  const bool up = problem.role == Role::up;
  const std::string_view hidden = fields.expert_hidden == fields.hidden ? "/hidden" : "/expert_hidden";
  plan.field("depth", problem.depth, up ? hidden : "/intermediate");
  plan.derived("columns", problem.columns,
               up ? (fields.activation.gated ? "gate and up, intermediate each" : "intermediate") : "expert_hidden");
  plan.derived("output_columns", problem.output_columns,
               problem.gated ? "one of gate and up" : "every column is stored");
  plan.derived("num_matrices", problem.num_experts, "of b: local experts and shared slots");
}

void add_dtypes(PlanBuilder& plan, const MatmulProblem& problem) {
  plan.dtype("element_dtype", problem.element, "/dtypes/weight");
  if (problem.fuse_quantize)
    plan.derived("output_dtype", std::string(to_string(problem.output)), "the element of the down projection");
  else
    plan.dtype("output_dtype", problem.output, problem.role == Role::up ? "/dtypes/activation" : "/finalize/down");
  if (problem.scheme != Scheme::none) plan.dtype("scale_dtype", problem.scale, "/quantization/scale");
  if (problem.bias) plan.dtype("bias_dtype", problem.bias_dtype, "/dtypes/activation");
}

void add_scheme(PlanBuilder& plan, const MatmulProblem& problem) {
  plan.field("rowwise", problem.scheme == Scheme::rowwise, "/quantization/scheme");
  plan.field("tensor_scales", problem.scheme == Scheme::tensor, "/quantization/scheme");
  plan.field("block_scales", problem.block_scales(), "/quantization/scheme");
  plan.field("mx_scales", problem.mx_scales(), "/quantization/scheme");
  plan.field("column_scales", problem.column_scales, "/quantization/scale_layout");
  if (problem.scheme == Scheme::none)
    plan.derived("promote", false, "16-bit products are summed in float32 by the tensor cores");
  else if (problem.block_scales())
    plan.derived("promote", true, "every 128 of K have their own scales");
  else if (problem.mx_scales())
    plan.derived("promote", true, "every 32 of K have their own scales");
  else
    plan.field("promote", problem.promote, "/dtypes/accumulate");
}

void add_epilogue(PlanBuilder& plan, const MatmulProblem& problem, const ConfigFields& fields) {
  plan.field("bias", problem.bias, "/experts/bias");
  plan.derived("gated", problem.gated, "gate and up are multiplied in one tile");
  plan.field("halves", problem.halves, "/activation/gate_layout");
  if (problem.role == Role::up && !problem.fuse_activation && fields.experts.up_epilogue)
    plan.derived("epilogue", false, "experts.up_epilogue follows the activation, in its kernel");
  else
    plan.field("epilogue", problem.epilogue,
               problem.role == Role::up ? "/experts/up_epilogue" : "/experts/down_epilogue");
  if (problem.role == Role::up)
    plan.field("gather_a", problem.gather_a, "/experts/gather_a");
  else
    plan.derived("gather_a", false, "the up projection's rows are already in the experts' order");
  plan.derived("num_slots", std::int64_t{problem.num_slots}, "top_k and the router's shared slots");
}

MatmulProblem read_shape(const ConfigFields& fields, Role role) {
  MatmulProblem problem;
  problem.role = role;
  const bool up = role == Role::up;
  problem.depth = up ? fields.expert_hidden : fields.intermediate;
  problem.columns = up ? fields.intermediate * (fields.activation.gated ? 2 : 1) : fields.expert_hidden;
  problem.output_columns = problem.columns;
  problem.num_experts = num_groups(fields);
  problem.num_slots = fields.num_slots();
  problem.output = up ? fields.dtypes.activation : fields.finalize.down;
  return problem;
}

// up_epilogue follows the activation: it is the activation kernel's where that is a kernel of its own.
const std::optional<ExpressionConfig>& epilogue_of(const ConfigFields& fields, const MatmulProblem& problem) {
  static const std::optional<ExpressionConfig> kNone;
  if (problem.role == Role::down) return fields.experts.down_epilogue;
  return problem.fuse_activation ? fields.experts.up_epilogue : kNone;
}

}  // namespace

MatmulProblem read_problem(const Config& config, std::string_view kernel, const Arch& arch, PlanBuilder& plan) {
  check_scheme(config);
  const ConfigFields& fields = config.fields();
  MatmulProblem problem = read_shape(fields, kernel.ends_with(".up") ? Role::up : Role::down);
  problem.scheme = fields.quantization.scheme;
  problem.element = fields.dtypes.weight;
  problem.scale = fields.quantization.scale;
  problem.bias_dtype = fields.dtypes.activation;
  problem.bias = fields.experts.bias;
  problem.column_scales = fields.quantization.scale_layout == ScaleLayout::column;
  problem.promote = problem.block_scales() || problem.mx_scales() ||
                    (problem.scheme != Scheme::none && fields.dtypes.accumulate == Accumulate::float32);
  problem.halves = fields.activation.gate_layout == GateLayout::halves;
  if (problem.role == Role::up && fields.experts.weights_on_input)
    refuse_forced(config, fields.experts.gather_a, "gather_a", "with weights_on_input permute weights the rows");
  problem.gather_a = problem.role == Role::up && fields.experts.gather_a == Choice::yes;
  decide_fusion(config, arch, problem, plan);
  const std::optional<ExpressionConfig>& epilogue = epilogue_of(fields, problem);
  problem.epilogue = epilogue.has_value();
  add_dtypes(plan, problem);
  add_shape(plan, problem, fields);
  add_scheme(plan, problem);
  add_epilogue(plan, problem, fields);
  if (problem.fuse_activation) add_activation(plan, fields);
  if (problem.fuse_quantize) plan.field("floor", fields.quantization.floor, "/quantization/floor");
  if (epilogue) {
    plan.expression(*epilogue);
    add_experts(plan, fields);
  }
  return problem;
}

}  // namespace moegen::grouped_matmul
