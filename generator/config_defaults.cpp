// SPDX-License-Identifier: Apache-2.0
#include "config_rules.hpp"

namespace moegen {
namespace {

// gpt-oss and MiniMax-M3, the two models that use swiglu_oai, both set these.
constexpr double kSwigluOaiAlpha = 1.702;
constexpr double kSwigluOaiLimit = 7;

void resolve_activation(ActivationConfig& activation, const GivenFields& given) {
  if (!given.contains("/activation/gated")) activation.gated = activation.kind != ActivationKind::relu2;
  if (activation.kind != ActivationKind::swiglu_oai) return;
  if (!activation.alpha) activation.alpha = kSwigluOaiAlpha;
  if (!activation.limit && !activation.limit_per_expert) activation.limit = kSwigluOaiLimit;
}

// The first ranks take one expert more where the count does not divide.
void resolve_partition(ExpertParallelConfig& parallel, int num_experts) {
  if (!parallel.partition.empty()) return;
  for (int rank = 0; rank < parallel.ranks; ++rank)
    parallel.partition.push_back(num_experts / parallel.ranks + (rank < num_experts % parallel.ranks ? 1 : 0));
}

bool is_mx(Scheme scheme) { return scheme == Scheme::mxfp8 || scheme == Scheme::mxfp4; }

}  // namespace

void resolve_defaults(ConfigFields& fields, const GivenFields& given) {
  if (fields.expert_hidden == 0) fields.expert_hidden = fields.hidden;
  if (fields.indices.num_local_experts == 0) fields.indices.num_local_experts = fields.num_experts;
  if (!given.contains("/quantization/scale") && is_mx(fields.quantization.scheme))
    fields.quantization.scale = Dtype::float8_e8m0fnu;
  if (!given.contains("/finalize/output")) fields.finalize.output = fields.dtypes.output;
  if (!given.contains("/finalize/weights_applied")) fields.finalize.weights_applied = fields.experts.weights_on_input;
  if (fields.shared_experts.count != 0 && fields.shared_experts.intermediate == 0)
    fields.shared_experts.intermediate = fields.intermediate;
  resolve_activation(fields.activation, given);
  resolve_partition(fields.expert_parallel, fields.num_experts);
}

}  // namespace moegen
