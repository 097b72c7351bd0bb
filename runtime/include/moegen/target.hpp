// SPDX-License-Identifier: Apache-2.0
// Target: where kernels run.
#pragma once

#include <string_view>

namespace moegen {

enum class Target {
  cuda,  ///< an NVIDIA GPU
  cpu,   ///< this machine's processor, on a model of the GPU (moegen/cpu_target.hpp)
};

/// "cuda", "cpu": the words of the command line, the cache and JSON.
constexpr std::string_view to_string(Target target) noexcept { return target == Target::cpu ? "cpu" : "cuda"; }

}  // namespace moegen
