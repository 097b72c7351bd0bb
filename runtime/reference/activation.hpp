// SPDX-License-Identifier: Apache-2.0
// The activations of an expert in plain float64 code, with the error of float32 arithmetic carried through.
#pragma once

#include <optional>

#include <moegen/config.hpp>

#include "expression.hpp"

namespace moegen::reference {

/// act(gate) * up as docs/config.md says, or act(gate) where there is no gate; `up` is then not looked at. `limit`: of
/// this expert, nothing: none. NaN stays NaN, also through clamps. `error` bounds what a float32 evaluation may be off
/// whose inputs are off by theirs: no activation here rises faster than 1.13 times its argument (gelu; silu 1.10),
/// except relu2, and each is as close as templates/core/activation.cuh says.
Bounded activate(const ActivationConfig& config, Bounded gate, Bounded up, std::optional<double> limit);

}  // namespace moegen::reference
