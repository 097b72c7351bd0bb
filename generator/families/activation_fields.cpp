// SPDX-License-Identifier: Apache-2.0
#include "families/activation_fields.hpp"

#include <optional>
#include <string>

#include "config_words.hpp"

namespace moegen {
namespace {

void add_number(PlanBuilder& plan, std::string_view name, const std::optional<double>& value,
                std::string_view pointer) {
  if (value) plan.field(name, *value, pointer);
}

}  // namespace

void add_activation(PlanBuilder& plan, const ConfigFields& fields) {
  const ActivationConfig& activation = fields.activation;
  plan.field("activation_kind", std::string(to_word(activation.kind)), "/activation/kind");
  plan.field("activation_gated", activation.gated, "/activation/gated");
  plan.derived("activation_limited", activation.limit.has_value() || activation.limit_per_expert,
               "a limit of the layer or of each expert");
  plan.field("limit_per_expert", activation.limit_per_expert, "/activation/limit_per_expert");
  add_number(plan, "limit", activation.limit, "/activation/limit");
  add_number(plan, "alpha", activation.alpha, "/activation/alpha");
  add_number(plan, "beta", activation.beta, "/activation/beta");
  add_number(plan, "linear_beta", activation.linear_beta, "/activation/linear_beta");
}

void add_quantiser(PlanBuilder& plan, const ConfigFields& fields) {
  plan.dtype("scale_dtype", fields.quantization.scale, "/quantization/scale");
  plan.field("floor", fields.quantization.floor, "/quantization/floor");
}

bool quantises_rows(Scheme scheme) noexcept { return scheme != Scheme::none && scheme != Scheme::int4; }

bool quantises_where_produced(const ConfigFields& fields) noexcept {
  return quantises_rows(fields.quantization.scheme) && fields.experts.fuse_quantize != Choice::no;
}

}  // namespace moegen
