// SPDX-License-Identifier: Apache-2.0
// The device text of an expression that is applied to rows of experts (experts.up_epilogue, experts.down_epilogue).
#pragma once

#include <string>
#include <string_view>

#include <moegen/config.hpp>

#include "plan_builder.hpp"

namespace moegen {

/// True if the expression at `pointer` reads the expert of a row, by name or through an input's shape.
bool reads_expert(const ExpressionConfig& expression, std::string_view pointer);

/// What core/experts.cuh reads: first_expert, num_local_experts, num_experts, num_zero_experts.
void add_experts(PlanBuilder& plan, const ConfigFields& fields);

/// `static float epilogue(const <family>::Args& args, float value, uint64_t row, uint32_t column, int32_t expert)`, a
/// member of the kernel's Custom. `columns` is the name of the constant with the row's width; `expert` is a local one
/// (-1: none), which the expression sees as the expert's id in the model (core/experts.cuh).
std::string spell_expert_epilogue(const ExpressionConfig& expression, std::string_view pointer, std::string_view family,
                                  std::string_view columns);

}  // namespace moegen
