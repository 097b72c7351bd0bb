// SPDX-License-Identifier: Apache-2.0
// What kernels that quantise rows or apply the activation write into their plans, under the names that
// templates/core/activation.cuh and quantize.cuh read.
#pragma once

#include <moegen/config.hpp>

#include "plan_builder.hpp"

namespace moegen {

/// activation_kind, activation_gated, activation_limited, limit_per_expert, and limit, alpha, beta, linear_beta where
/// the config has them.
void add_activation(PlanBuilder& plan, const ConfigFields& fields);

/// floor and scale_dtype.
void add_quantiser(PlanBuilder& plan, const ConfigFields& fields);

/// True if `scheme` quantises rows of tokens; int4 and none do not.
bool quantises_rows(Scheme scheme) noexcept;

/// True if rows are quantised by the kernel that produces them (permute, activation): unless fuse_quantize is false.
bool quantises_where_produced(const ConfigFields& fields) noexcept;

}  // namespace moegen
