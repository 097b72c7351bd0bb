// SPDX-License-Identifier: Apache-2.0
// What the rows of a case of quantize, activation or permute hold, and how many of them are in use.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace moegen::verify {

enum class RowsPattern {
  ordinary,  ///< ordinary rows
  hostile,   ///< rows of all kinds (row_values.hpp) and, in the column layout, a stride of its own
  bounded,   ///< hostile, and the host's number of rows is larger than the device's
};

inline constexpr std::array<RowsPattern, 3> kRowsPatterns = {RowsPattern::ordinary, RowsPattern::hostile,
                                                             RowsPattern::bounded};

constexpr std::string_view to_string(RowsPattern pattern) noexcept {
  switch (pattern) {
    case RowsPattern::ordinary: return "ordinary";
    case RowsPattern::hostile: return "hostile";
    case RowsPattern::bounded: return "bounded";
  }
  return "?";
}

}  // namespace moegen::verify
