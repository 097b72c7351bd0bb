// SPDX-License-Identifier: Apache-2.0
// Rows that are hard to quantise or to take a function of, and ordinary ones.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <moegen/dtype.hpp>

#include "verify/tensor.hpp"

namespace moegen::verify {

/// What one row holds. Rows of a hostile tensor take these in turn.
enum class RowKind {
  ordinary,   ///< both signs, six binades
  ties,       ///< quotients halfway between two codes, under scales of 1 to 1.75
  tiny,       ///< around 1e-30, below every floor
  huge,       ///< up to the largest number of the dtype
  zeros,      ///< of both signs
  denormal,   ///< below the dtype's normal numbers
  nan,        ///< a NaN in each 100 columns
  infinite,   ///< infinities of both signs in each 90 columns
  nothing,    ///< nothing but NaN and infinities
  one_large,  ///< small numbers and one that is 10^6 times as large
};
std::string_view to_string(RowKind kind) noexcept;
std::span<const RowKind> all_row_kinds() noexcept;

/// [rows, width] on the host: row r of kind all_row_kinds()[r % 10], or all ordinary. `most` bounds magnitudes: what
/// a kernel computes from them must stay finite in float32 where it is compared with an error bound.
Tensor row_values(Dtype dtype, std::int64_t rows, std::int64_t width, bool hostile, std::uint64_t seed, double most);

}  // namespace moegen::verify
