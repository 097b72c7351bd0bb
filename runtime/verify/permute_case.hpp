// SPDX-License-Identifier: Apache-2.0
// One case of permute: ids and rows of a certain kind, run on a target and compared to the bit with the definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "verify/indices_case.hpp"
#include "verify/row_pattern.hpp"

namespace moegen::verify {

struct PermuteCase {
  std::int64_t num_tokens = 0;
  IdPattern ids = IdPattern::uniform;
  RowsPattern pattern = RowsPattern::ordinary;  ///< of the tokens
  std::uint64_t seed = 1;
  std::string name() const;
};

/// Bytes of host memory that a case takes, about.
std::int64_t host_bytes(const Config& config, const PermuteCase& permute_case);

/// Runs `kernel` (permute of `config`) on its target. Returns the first difference, or nothing.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const PermuteCase& permute_case);

}  // namespace moegen::verify
