// SPDX-License-Identifier: Apache-2.0
// Whether a finding of the CPU target is where a test expects it.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include <moegen/cpu_target.hpp>

namespace moegen::test {

/// Line `number`, from 1, of `text`.
inline std::string_view line_of(std::string_view text, int number) {
  std::size_t begin = 0;
  for (int i = 1; i < number; ++i) begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// Whether a line of `text` that `place` names, its own or a caller's, holds `pattern`.
inline bool place_has(std::string_view text, const std::string& place, std::string_view pattern) {
  for (std::size_t at = place.find(':'); at != std::string::npos; at = place.find(':', at + 1))
    if (std::isdigit(static_cast<unsigned char>(place[at + 1])) != 0 &&
        line_of(text, std::stoi(place.substr(at + 1))).find(pattern) != std::string::npos)
      return true;
  return pattern.empty();
}

/// Whether one side of `report`, a finding in `text`, is at a line that holds `pattern`.
inline bool has_side(std::string_view text, const CpuReport& report, std::string_view pattern) {
  return std::ranges::any_of(report.parties,
                             [&](const CpuParty& party) { return place_has(text, party.place, pattern); });
}

}  // namespace moegen::test
