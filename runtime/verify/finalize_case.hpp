// SPDX-License-Identifier: Apache-2.0
// One case of finalize: tensors of a certain kind, run on a target and compared element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

namespace moegen::verify {

/// What the tensors of a case hold.
enum class RowPattern {
  ordinary,  ///< every pair has a row
  dropped,   ///< a quarter of the pairs has none, and NaN weights where it has none; one token in eight has no row at
             ///< all
  nan_row,   ///< as ordinary, but a few rows hold NaN and infinities, which must reach their own tokens only
  sparse,    ///< few rows used, far apart: byte offsets beyond 2^32
};

std::string_view to_string(RowPattern pattern) noexcept;
std::span<const RowPattern> all_row_patterns() noexcept;

struct FinalizeCase {
  std::int64_t num_tokens = 0;
  RowPattern pattern = RowPattern::ordinary;
  std::uint64_t seed = 1;
  std::string name() const;
};

/// Bytes of host memory that a case takes, about.
std::int64_t host_bytes(const Config& config, const FinalizeCase& finalize_case);

/// Runs `kernel` (finalize of `config`) on its target. Returns the first element out of tolerance, or nothing.
/// Tolerance: half an ulp of the output and the bound of reference::finalize_row.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const FinalizeCase& finalize_case);

}  // namespace moegen::verify
