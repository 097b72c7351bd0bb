// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelt words, by edit distance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moegen {

/// The candidate nearest to `word`, or "" if none is near enough to be a plausible slip of the keyboard.
std::string nearest_word(std::string_view word, const std::vector<std::string_view>& candidates);

/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace moegen
