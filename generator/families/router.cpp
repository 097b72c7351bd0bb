// SPDX-License-Identifier: Apache-2.0
// The router family: its parameters, how a token's experts are spread over lanes, and its arguments' rules.
#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>

#include <moegen/args/router.h>
#include "expression_places.hpp"
#include "families/alignment.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using router::Args;

static_assert(int{router::kMaxInputs} == kMaxExpressionInputs, "the argument struct holds what a config may name");

constexpr int kLaunchAbi = 1;
constexpr std::int64_t kWarpSize = 32;
constexpr std::int64_t kMaxTokens = (std::int64_t{1} << 31) - 1;

// Bits of LaunchConstants[kNeeds]: which optional arguments this kernel reads.
enum Need : std::int64_t { kBias = 1, kHash = 2 };

enum Constant {
  kNumExperts,
  kTokensPerBlock,
  kBlocksPerSm,
  kNeeds,
  kNumInputs,
  kLogitsBytes,
  kBiasBytes,
  kTokenIdBytes,
  kWeightBytes,
};

std::int64_t power_of_two_from(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// ---- what is scored ----

bool is_late(const RouterConfig& router) { return router.order == RouterOrder::select_then_score; }

// Groups count only where some are dropped.
bool has_groups(const RouterConfig& router) { return router.num_groups > 1 && !router.hash; }

// True if the choice needs no score: it comes later, is the logit itself, or has the logit's order. The softmax has,
// but for a bias or a sum of two.
bool is_by_logit(const RouterConfig& router) {
  if (is_late(router)) return true;
  if (router.scoring == Scoring::none) return !router.scores;
  const bool sums = has_groups(router) && router.group_score == GroupScore::top2_sum;
  return router.scoring == Scoring::softmax && !router.bias && !sums;
}

// True if the sum over a whole row of logits is needed.
bool has_row_sum(const RouterConfig& router) {
  if (router.scoring != Scoring::softmax || is_late(router)) return false;
  return !router.normalize || (!router.hash && !is_by_logit(router));
}

// Softmax over the chosen ones is a normalisation.
bool normalizes(const RouterConfig& router) {
  return router.normalize || (is_late(router) && router.scoring == Scoring::softmax);
}

// True if keys have as many zero bits as ids need: logits of 16 bits leave 13 (float16) or 16 of float32's 23.
bool packs_exactly(const RouterConfig& router) {
  return is_by_logit(router) && !router.bias && router.logits != Dtype::float32;
}

// ---- how a token lies in a team of lanes ----

struct Shape {
  std::int64_t lanes = kWarpSize;
  std::int64_t group_lanes = 1, lane_groups = 1;
  std::int64_t group_share = 0;  // experts of groups that a lane holds
  std::int64_t zero_share = 0;   // zero experts that a lane holds
  std::int64_t vector = 1;       // elements of a load
  bool full = false;             // every lane holds that many
  std::int64_t per_lane() const { return group_share + zero_share; }
};

// The fewest lanes that leave each at least 4 experts, but one for each slot and each group: then a load is 16 bytes of
// float32, and a warp has several tokens.
std::int64_t choose_lanes(std::int64_t experts, std::int64_t slots, std::int64_t groups) {
  const std::int64_t least = std::max(power_of_two_from(slots), std::min(kWarpSize, power_of_two_from(groups)));
  return std::clamp(power_of_two_from(ceil_div(experts, 4)), least, kWarpSize);
}

// A share rounded up to whole pieces of 4 or 2 elements where that idles at most a quarter of the lanes.
std::int64_t round_share(std::int64_t share) {
  for (std::int64_t piece : {4, 2}) {
    const std::int64_t rounded = ceil_div(share, piece) * piece;
    if (3 * (rounded - share) <= share) return rounded;
  }
  return share;
}

// Elements of the widest load, up to 16 bytes, that divides every lane's first element and share.
std::int64_t choose_vector(const Shape& shape, std::int64_t group_size, std::int64_t num_experts, Dtype dtype) {
  std::int64_t vector = 128 / bits(dtype);
  const auto fits = [&](std::int64_t count) { return count % vector == 0; };
  while (vector > 1 && !(fits(shape.group_share) && fits(group_size) &&
                         (shape.zero_share == 0 || (fits(shape.zero_share) && fits(num_experts)))))
    vector /= 2;
  return vector;
}

void share_out(Shape& shape, std::int64_t num_experts, std::int64_t groups) {
  const std::int64_t group_size = num_experts / groups;
  if (groups > shape.lanes) {
    shape.lane_groups = ceil_div(groups, shape.lanes);
    shape.group_share = shape.lane_groups * group_size;
    shape.full = groups == shape.lanes * shape.lane_groups;
    return;
  }
  shape.group_lanes = shape.lanes / power_of_two_from(groups);
  shape.group_share = round_share(ceil_div(group_size, shape.group_lanes));
  shape.full = num_experts == shape.lanes * shape.group_share;
}

Shape make_shape(const ConfigFields& fields) {
  const std::int64_t groups = has_groups(fields.router) ? fields.router.num_groups : 1;
  Shape shape;
  shape.lanes = choose_lanes(fields.num_experts + fields.num_zero_experts, fields.num_slots(), groups);
  // Without groups zero experts are experts like all others.
  const std::int64_t grouped = fields.num_experts + (groups == 1 ? fields.num_zero_experts : 0);
  share_out(shape, grouped, groups);
  if (groups > 1) shape.zero_share = ceil_div(fields.num_zero_experts, shape.lanes);
  shape.full = shape.full && shape.zero_share * shape.lanes == fields.num_experts + fields.num_zero_experts - grouped;
  shape.vector = choose_vector(shape, grouped / groups, grouped, fields.router.logits);
  return shape;
}

// ---- the plan ----

void add_dtypes(PlanBuilder& plan, const ConfigFields& fields) {
  plan.dtype("logits_dtype", fields.router.logits, "/router/logits");
  plan.dtype("weight_dtype", fields.router.weights, "/router/weights");
  if (fields.router.bias) plan.dtype("bias_dtype", *fields.router.bias, "/router/bias");
  if (fields.router.hash) plan.dtype("token_id_dtype", fields.router.hash->token_id, "/router/hash/token_id");
}

void add_scoring(PlanBuilder& plan, const RouterConfig& router) {
  plan.field("softmax", router.scoring == Scoring::softmax, "/router/scoring");
  plan.field("sigmoid", router.scoring == Scoring::sigmoid, "/router/scoring");
  plan.field("sqrt_softplus", router.scoring == Scoring::sqrt_softplus, "/router/scoring");
  plan.field("expression", router.scores.has_value(), "/router/scores");
  if (router.scores) plan.expression(*router.scores);
  plan.field("bias", router.bias.has_value(), "/router/bias");
  plan.field("hash", router.hash.has_value(), "/router/hash");
  if (router.hash) plan.field("vocab", router.hash->vocab, "/router/hash/vocab");
  plan.derived("by_logit", is_by_logit(router), "scores come later, are the logits, or have their order");
  plan.derived("row_sum", has_row_sum(router), "softmax weights that are not normalised, or a choice by softmax");
  if (normalizes(router) == router.normalize)
    plan.field("normalize", router.normalize, "/router/normalize");
  else
    plan.derived("normalize", true, "a softmax over the chosen ones is a normalisation");
}

void add_layer(PlanBuilder& plan, const ConfigFields& fields) {
  const RouterConfig& router = fields.router;
  const bool folded = !has_groups(router);
  plan.field("top_k", std::int64_t{fields.top_k}, "/top_k");
  if (folded && fields.num_zero_experts > 0)
    plan.derived("num_experts", std::int64_t{fields.num_experts} + fields.num_zero_experts,
                 "without groups zero experts are experts like all others");
  else
    plan.field("num_experts", std::int64_t{fields.num_experts}, "/num_experts");
  plan.field("num_zero_experts", folded ? std::int64_t{0} : std::int64_t{fields.num_zero_experts}, "/num_zero_experts");
  plan.field("num_groups", folded ? std::int64_t{1} : std::int64_t{router.num_groups}, "/router/num_groups");
  plan.field("top_groups", folded ? std::int64_t{1} : std::int64_t{router.top_groups}, "/router/top_groups");
  plan.field("top2_sum", router.group_score == GroupScore::top2_sum, "/router/group_score");
  plan.field("num_shared_slots", std::int64_t{fields.num_shared_slots()}, "/router/shared_slots");
  const auto weight = static_cast<float>(router.shared_slots ? router.shared_slots->weight : 1.0);
  plan.derived("shared_weight_bits", std::int64_t{std::bit_cast<std::uint32_t>(weight)},
               fmt::format("{} as float32, the weight of a shared slot", weight));
}

void add_shape(PlanBuilder& plan, const ConfigFields& fields, const Shape& shape) {
  const std::int64_t groups = has_groups(fields.router) ? fields.router.num_groups : 1;
  const std::int64_t experts = fields.num_experts + (groups == 1 ? fields.num_zero_experts : 0);
  plan.derived("lanes", shape.lanes, "lanes of a token: one a slot and a group, 4 experts each or more");
  plan.derived("group_size", experts / groups, "experts of a group");
  plan.derived("group_lanes", shape.group_lanes, "lanes that share a group");
  plan.derived("lane_groups", shape.lane_groups, "groups that a lane has to itself");
  plan.derived("group_share", shape.group_share, "experts of groups in a lane");
  plan.derived("zero_share", shape.zero_share, "zero experts in a lane");
  plan.derived("per_lane", shape.per_lane(), "experts in a lane");
  plan.derived("full_lanes", shape.full, "every lane has that many");
  plan.derived("vector", shape.vector, "logits of a load, up to 16 bytes");
}

// Longest sorted list of a lane: a lane that holds more of the chosen ones than that makes its list anew.
constexpr std::int64_t kMostListed = 8;

void add_selection(PlanBuilder& plan, const ConfigFields& fields, const Shape& shape) {
  const std::int64_t most = std::min<std::int64_t>(fields.top_k, shape.per_lane());
  const std::int64_t listed = std::min(kMostListed, power_of_two_from(most));
  const bool exact = packs_exactly(fields.router);
  const std::int64_t numbers = exact ? fields.num_experts + fields.num_zero_experts : shape.per_lane();
  plan.derived("exact_packing", exact, "keys of 16 bits leave room for an id");
  plan.derived("index_mask", power_of_two_from(numbers) - 1,
               exact ? "bits of an expert's id below its key" : "bits of an element's number below its key");
  plan.derived("list_size", listed, "keys of a lane that are kept sorted");
  plan.derived("refills", listed < most, "a lane may hold more of the chosen ones than it keeps sorted");
}

// Four warps, one for each scheduler of a multiprocessor, so that few tokens spread over many.
constexpr std::int64_t kNumWarps = 4;

std::int64_t tokens_per_block(const Shape& shape) { return kNumWarps * kWarpSize / shape.lanes; }

// The kernel's Taken, 8 bytes, for each slot of the block's tokens.
std::int64_t shared_bytes(const ConfigFields& fields, const Shape& shape) {
  return fields.router.hash ? 0 : 8 * tokens_per_block(shape) * fields.top_k;
}

void add_launch(PlanBuilder& plan, const Shape& shape) {
  plan.derived("num_warps", kNumWarps, "one for each scheduler of a multiprocessor");
  plan.host("tokens_per_block", tokens_per_block(shape), "of one step");
  plan.host("blocks_per_sm", std::int64_t{32}, "more tokens than that are stepped through");
}

std::vector<std::string> kernels(const Config&) { return {"router"}; }

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  const ConfigFields& fields = config.fields();
  const Shape shape = make_shape(fields);
  PlanBuilder builder(config, kernel, arch);
  add_dtypes(builder, fields);
  add_scoring(builder, fields.router);
  add_layer(builder, fields);
  add_shape(builder, fields, shape);
  add_selection(builder, fields, shape);
  add_launch(builder, shape);
  EntryPlan entry;
  entry.name = "moegen_router";
  entry.variant = "teams";
  entry.threads = static_cast<int>(kNumWarps * kWarpSize);
  entry.dynamic_shared_bytes = static_cast<int>(shared_bytes(fields, shape));
  entry.dependent_launch = arch.dependent_launch;
  builder.entry(entry);
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::vector<std::string_view> templates(const Plan&) { return {"router/kernel.cuh"}; }

std::string_view entry_template(const EntryPlan&) { return "router::run<Params, Custom>"; }

// Where one named input of `scores` is read.
std::string spell_input(const ExpressionInput& input, std::size_t index) {
  const std::string where = input.shape == "scalar"    ? "0"
                            : input.shape == "tokens"  ? "token"
                            : input.shape == "experts" ? "expert"
                                                       : "static_cast<uint64_t>(token) * kRow + expert";
  return fmt::format("to_float(static_cast<const {}*>(args.inputs[{}])[{}])",
                     input.dtype == Dtype::float32 ? "float" : to_string(input.dtype), index, where);
}

std::string spell_name(const ExpressionConfig& expression, std::string_view name) {
  if (name == "logit") return "logit";
  if (name == "expert") return "static_cast<float>(expert)";
  if (name == "token") return "static_cast<float>(token)";
  for (std::size_t i = 0; i < expression.inputs.size(); ++i)
    if (expression.inputs[i].name == name) return spell_input(expression.inputs[i], i);
  throw Error(ErrorCode::internal, fmt::format("router.scores: unchecked name '{}'", name));
}

std::string spell_scores(const ExpressionConfig& expression) {
  const Expression parsed = parse_at(expression_place("/router/scores"), expression);
  return parsed.emit([&](std::string_view name) { return spell_name(expression, name); });
}

std::string fragments(const Plan& plan) {
  std::string out = "/// What the config adds to a logit.\nstruct Custom {\n";
  if (!plan.expressions.empty())
    out += fmt::format(
        "  static MOEGEN_DEVICE float scores(const router::Args& args, float logit, uint32_t expert, uint32_t token) "
        "{{\n"
        "    [[maybe_unused]] constexpr uint64_t kRow = Params::num_experts + Params::num_zero_experts;\n"
        "    return {};\n  }}\n",
        spell_scores(plan.expressions.front()));
  return out + "};\n";
}

LaunchConstants constants(const Plan& plan) {
  const auto bytes_of = [&](std::string_view dtype) { return bits(*find_dtype(plan.text(dtype))) / 8; };
  const bool bias = plan.boolean("bias"), hash = plan.boolean("hash");
  LaunchConstants values{};
  values[kNumExperts] = plan.integer("num_experts") + plan.integer("num_zero_experts");
  values[kTokensPerBlock] = plan.integer("tokens_per_block");
  values[kBlocksPerSm] = plan.integer("blocks_per_sm");
  values[kNeeds] = 0;
  if (hash)
    values[kNeeds] = kHash;
  else if (bias)
    values[kNeeds] = kBias;
  values[kNumInputs] = plan.expressions.empty() ? 0 : static_cast<std::int64_t>(plan.expressions[0].inputs.size());
  values[kLogitsBytes] = bytes_of("logits_dtype");
  values[kBiasBytes] = bias ? bytes_of("bias_dtype") : 1;
  values[kTokenIdBytes] = hash ? bytes_of("token_id_dtype") : 1;
  values[kWeightBytes] = bytes_of("weight_dtype");
  return values;
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  const std::int64_t blocks = ceil_div(static_cast<const Args*>(raw)->num_tokens, values[kTokensPerBlock]);
  return {0, static_cast<std::uint32_t>(std::min(blocks, device.num_sms * values[kBlocksPerSm])), 1};
}

const char* check_outputs(const LaunchConstants& values, const Args& args) noexcept {
  if (!args.expert_indices) return "expert_indices is null; it takes int32 [num_tokens, top_k + shared slots]";
  if (misaligned(args.expert_indices, 4)) return "expert_indices is not aligned to 4 bytes";
  if (!args.expert_weights) return "expert_weights is null; it takes router.weights [num_tokens, top_k + shared slots]";
  if (misaligned(args.expert_weights, values[kWeightBytes])) return "expert_weights is not aligned to its element";
  return nullptr;
}

const char* check_hash(const LaunchConstants& values, const Args& args) noexcept {
  if (!args.token_ids) return "token_ids is null; with hash routing it takes router.hash.token_id [num_tokens]";
  if (misaligned(args.token_ids, values[kTokenIdBytes])) return "token_ids is not aligned to its element";
  if (!args.table) return "table is null; with hash routing it takes int32 [vocab, top_k]";
  if (misaligned(args.table, 4)) return "table is not aligned to 4 bytes";
  return nullptr;
}

const char* check_inputs(const LaunchConstants& values, const Args& args) noexcept {
  if (!args.logits) return "logits is null; it takes router.logits [num_tokens, experts]";
  if (misaligned(args.logits, values[kLogitsBytes])) return "logits is not aligned to its element";
  if (args.row_stride < values[kNumExperts])
    return "row_stride is below num_experts + num_zero_experts; it is the distance of two rows of logits, in elements";
  if ((values[kNeeds] & kBias) && !args.bias) return "bias is null; it takes router.bias [experts]";
  if (misaligned(args.bias, values[kBiasBytes])) return "bias is not aligned to its element";
  for (std::int64_t i = 0; i < values[kNumInputs]; ++i)
    if (!args.inputs[i]) return "an input of router.scores is null; inputs[i] is its i-th named input";
  return (values[kNeeds] & kHash) ? check_hash(values, args) : nullptr;
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_tokens < 0) return "num_tokens is negative; allowed 0 .. 2^31 - 1";
  if (args.num_tokens > kMaxTokens) return "num_tokens is too large; allowed 0 .. 2^31 - 1";
  if (args.num_tokens == 0) return nullptr;
  if (const char* wrong = check_outputs(values, args)) return wrong;
  return check_inputs(values, args);
}

}  // namespace

extern const Family kRouterFamily;
const Family kRouterFamily = {
    .name = "router",
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
