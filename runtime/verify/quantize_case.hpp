// SPDX-License-Identifier: Apache-2.0
// One case of quantize: rows of a certain kind, run on a target and compared to the bit with the definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "verify/row_pattern.hpp"

namespace moegen::verify {

struct QuantizeCase {
  std::int64_t num_rows = 0;
  RowsPattern pattern = RowsPattern::ordinary;
  std::uint64_t seed = 1;
  std::string name() const;
};

/// Bytes of host memory that a case takes, about.
std::int64_t host_bytes(const Config& config, const QuantizeCase& quantize_case);

/// Runs `kernel` (quantize.up or quantize.down of `config`) on its target. Returns the first difference, or nothing.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const QuantizeCase& quantize_case);

}  // namespace moegen::verify
