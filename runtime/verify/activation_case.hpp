// SPDX-License-Identifier: Apache-2.0
// One case of activation: rows of a certain kind, run on a target and compared element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "verify/row_pattern.hpp"

namespace moegen::verify {

struct ActivationCase {
  std::int64_t num_rows = 0;
  RowsPattern pattern = RowsPattern::ordinary;
  std::uint64_t seed = 1;
  std::string name() const;
};

/// Bytes of host memory that a case takes, about.
std::int64_t host_bytes(const Config& config, const ActivationCase& activation_case);

/// Runs `kernel` (activation of `config`) on its target. Returns the first element out of tolerance, or nothing.
/// Tolerance: the bound of reference::activate carried through the epilogue, and one rounding; of quantised rows, the
/// scales and codes that values within that bound may have.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const ActivationCase& activation_case);

}  // namespace moegen::verify
