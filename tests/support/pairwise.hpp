// SPDX-License-Identifier: Apache-2.0
// Covering arrays: few cases in which every pair of values of two columns occurs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

namespace moegen::test {

/// One case: the index of a value for each column.
using Choice = std::vector<std::size_t>;

/// Greedy pairwise covering of columns with `sizes[c]` values each. `allowed(choice)` rules combinations out; a pair
/// that no allowed combination holds is left out. Deterministic.
// NOLINTNEXTLINE(readability-function-size): one algorithm
inline std::vector<Choice> pairwise(const std::vector<std::size_t>& sizes,
                                    const std::function<bool(const Choice&)>& allowed) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;  // column, value, column, value
  std::set<Pair> open;
  for (std::size_t a = 0; a < sizes.size(); ++a)
    for (std::size_t b = a + 1; b < sizes.size(); ++b)
      for (std::size_t i = 0; i < sizes[a]; ++i)
        for (std::size_t j = 0; j < sizes[b]; ++j) open.insert({a, i, b, j});
  const auto gain = [&](const Choice& choice, std::size_t column, std::size_t value, const std::vector<bool>& fixed) {
    std::size_t sum = 0;
    for (std::size_t other = 0; other < sizes.size(); ++other) {
      if (!fixed[other] || other == column) continue;
      sum += other < column ? open.count({other, choice[other], column, value})
                            : open.count({column, value, other, choice[other]});
    }
    return sum;
  };
  std::uint32_t noise = 12345;
  const auto next_noise = [&] { return noise = noise * 1664525u + 1013904223u; };
  std::vector<Choice> cases;
  while (!open.empty()) {
    const auto [a, i, b, j] = *open.begin();
    bool placed = false;
    for (int attempt = 0; attempt < 50 && !placed; ++attempt) {
      Choice choice(sizes.size(), 0);
      std::vector<bool> fixed(sizes.size(), false);
      choice[a] = i;
      choice[b] = j;
      fixed[a] = fixed[b] = true;
      for (std::size_t column = 0; column < sizes.size(); ++column) {
        if (fixed[column]) continue;
        std::size_t best = next_noise() % sizes[column], best_gain = 0;
        for (std::size_t step = 0; step < sizes[column] && attempt < 25; ++step) {
          const std::size_t value = (best + step) % sizes[column];
          if (const std::size_t here = gain(choice, column, value, fixed); here > best_gain) {
            best_gain = here;
            choice[column] = value;
          }
        }
        if (best_gain == 0) choice[column] = best;
        fixed[column] = true;
      }
      if (!allowed(choice)) continue;
      for (std::size_t x = 0; x < sizes.size(); ++x)
        for (std::size_t y = x + 1; y < sizes.size(); ++y) open.erase({x, choice[x], y, choice[y]});
      cases.push_back(std::move(choice));
      placed = true;
    }
    if (!placed) open.erase(open.begin());
  }
  return cases;
}

}  // namespace moegen::test
