// SPDX-License-Identifier: Apache-2.0
// scaled_for_cpu: a config with narrower rows, for runs on the CPU target that should take seconds.
#pragma once

#include <string>
#include <vector>

#include <moegen/config.hpp>

namespace moegen::verify {

struct Scaled {
  Config config;
  std::vector<std::string> changes;  ///< "hidden 7168 -> 384"; empty if nothing was cut
};

/// Cuts hidden, expert_hidden and intermediate widths to the smallest width of the same residue mod 128 that still has
/// three blocks of 128 (K blocks of a matmul). Everything else, and so every rule, stays.
Scaled scaled_for_cpu(const Config& config);

/// The number of tokens above which runs on the CPU target are not worth their time.
inline constexpr std::int64_t kMostCpuTokens = 257;

}  // namespace moegen::verify
