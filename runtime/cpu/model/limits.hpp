// SPDX-License-Identifier: Apache-2.0
// What a launch may ask for.
#pragma once

#include <string>

#include "cpu/program.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

/// Why the GPU would refuse `request`, or the model cannot run it; empty if neither.
std::string refusal(const LaunchRequest& request, const HostProgram::Entry& entry);

}  // namespace moegen::cpu
