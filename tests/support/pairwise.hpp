// SPDX-License-Identifier: Apache-2.0
// Covering arrays: few cases in which every pair of values of two columns occurs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace moegen::test {

/// One case: the index of a value for each column.
using Choice = std::vector<std::size_t>;

/// Pairs of values of two columns that no case holds yet, in the order of (column a, its value, column b, its value).
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<std::size_t>& sizes)
      : sizes_(sizes), begin_(sizes.size()), row_(sizes.size(), 0), offset_(sizes.size()) {
    std::size_t total = 0;
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      begin_[a] = total;
      offset_[a].resize(sizes.size());
      for (std::size_t b = a + 1; b < sizes.size(); ++b) {
        offset_[a][b] = row_[a];
        row_[a] += sizes[b];
      }
      total += sizes[a] * row_[a];
    }
    open_.assign(total, 1);
  }
  bool has(std::size_t a, std::size_t i, std::size_t b, std::size_t j) const { return open_[index(a, i, b, j)] != 0; }
  void close(std::size_t a, std::size_t i, std::size_t b, std::size_t j) { open_[index(a, i, b, j)] = 0; }
  /// Sets the first open pair; false if there is none.
  bool first(std::size_t& a, std::size_t& i, std::size_t& b, std::size_t& j) {
    while (next_ < open_.size() && open_[next_] == 0) ++next_;
    if (next_ == open_.size()) return false;
    a = sizes_.size() - 1;
    while (begin_[a] > next_ || row_[a] == 0) --a;
    i = (next_ - begin_[a]) / row_[a];
    const std::size_t inside = (next_ - begin_[a]) % row_[a];
    b = sizes_.size() - 1;
    while (offset_[a][b] > inside || sizes_[b] == 0) --b;
    j = inside - offset_[a][b];
    return true;
  }

 private:
  std::size_t index(std::size_t a, std::size_t i, std::size_t b, std::size_t j) const {
    return begin_[a] + i * row_[a] + offset_[a][b] + j;
  }

  std::vector<std::size_t> sizes_, begin_, row_;
  std::vector<std::vector<std::size_t>> offset_;
  std::vector<char> open_;
  std::size_t next_ = 0;
};

/// Greedy pairwise covering of columns with `sizes[c]` values each. `allowed(choice)` rules combinations out; a pair
/// that no allowed combination holds is left out. Deterministic.
// NOLINTNEXTLINE(readability-function-size): one algorithm
inline std::vector<Choice> pairwise(const std::vector<std::size_t>& sizes,
                                    const std::function<bool(const Choice&)>& allowed) {
  OpenPairs open(sizes);
  const auto gain = [&](const Choice& choice, std::size_t column, std::size_t value, const std::vector<bool>& fixed) {
    std::size_t sum = 0;
    for (std::size_t other = 0; other < sizes.size(); ++other) {
      if (!fixed[other] || other == column) continue;
      sum += other < column ? open.has(other, choice[other], column, value)
                            : open.has(column, value, other, choice[other]);
    }
    return sum;
  };
  std::uint32_t noise = 12345;
  const auto next_noise = [&] { return noise = noise * 1664525u + 1013904223u; };
  std::vector<Choice> cases;
  std::size_t a = 0, i = 0, b = 0, j = 0;
  while (open.first(a, i, b, j)) {
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
        for (std::size_t y = x + 1; y < sizes.size(); ++y) open.close(x, choice[x], y, choice[y]);
      cases.push_back(std::move(choice));
      placed = true;
    }
    if (!placed) open.close(a, i, b, j);
  }
  return cases;
}

}  // namespace moegen::test
