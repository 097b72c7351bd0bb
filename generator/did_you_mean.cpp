// SPDX-License-Identifier: Apache-2.0
#include "did_you_mean.hpp"

#include <algorithm>
#include <numeric>

namespace moegen {
namespace {

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitution, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t kLongestWord = 64;  // nobody misspells more than that; keeps the cost of hostile input flat
  if (word.size() > kLongestWord) return {};
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::string best;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= candidate.size()) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string best = nearest_word(word, candidates);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

}  // namespace moegen
