// SPDX-License-Identifier: Apache-2.0
// The device text that only one grouped_matmul plan has: its tiles, its wgmma shapes, its epilogue.
#pragma once

#include <string>

#include <moegen/plan.hpp>

namespace moegen::grouped_matmul {

/// What stands between Params and the entry points of `plan`'s source.
std::string spell_fragments(const Plan& plan);

/// The name of the struct of entry `variant`'s tiles: "narrow" is Narrow.
std::string tiles_name(std::string_view variant);

}  // namespace moegen::grouped_matmul
