// SPDX-License-Identifier: Apache-2.0
#include "verify/grouped_matmul_case.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "verify/grouped_matmul_problem.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::array<GroupPattern, 8> kPatterns = {
    GroupPattern::even,    GroupPattern::ragged,   GroupPattern::one_expert,  GroupPattern::indices,
    GroupPattern::hostile, GroupPattern::nan_rows, GroupPattern::nan_weights, GroupPattern::nan_scales};

// `count` numbers that sum to `rows`, every third of them small or zero.
std::vector<std::int64_t> ragged_counts(std::int64_t rows, std::size_t count, std::uint64_t seed) {
  std::vector<double> shares(count);
  for (std::size_t i = 0; i < count; ++i) shares[i] = i % 3 == 1 ? 0 : 0.1 + random_unit(seed, i);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> counts(count);
  for (std::size_t i = 0; i < count; ++i)
    counts[i] = static_cast<std::int64_t>(static_cast<double>(rows) * shares[i] / sum);
  std::int64_t left = rows - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 2) % count, --left) ++counts[i];
  return counts;
}

// `count` of the experts, ascending, spread over all of them and with the last one.
std::vector<std::int32_t> spread_ids(int experts, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i)
    ids[i] = static_cast<std::int32_t>((i + 1) * static_cast<std::size_t>(experts) / count) - 1;
  return ids;
}

void make_even(GroupedMatmulCase& c, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(c.ids.size());
  for (std::int64_t g = 0; g < groups; ++g) c.counts.push_back(rows * (g + 1) / groups - rows * g / groups);
}

void make_indices(GroupedMatmulCase& c, std::int64_t rows, int experts) {
  c.counts = ragged_counts(rows, c.ids.size(), c.seed + 1);
  std::size_t kept = 0;
  for (std::size_t g = 0; g < c.ids.size(); ++g) {
    if (c.counts[g] == 0) continue;
    c.ids[kept] = c.ids[g];
    c.counts[kept++] = c.counts[g];
  }
  c.ids.resize(kept);
  c.counts.resize(kept);
  c.ids.resize(static_cast<std::size_t>(experts), -1);
  c.counts.resize(static_cast<std::size_t>(experts), 0);
}

// Descending experts, then the first of them again, with -1 in between.
void make_hostile(GroupedMatmulCase& c, std::int64_t rows) {
  std::reverse(c.ids.begin(), c.ids.end());
  c.ids.insert(c.ids.begin() + static_cast<std::ptrdiff_t>(c.ids.size() / 2), -1);
  c.ids.push_back(c.ids.front());
  c.ids.push_back(-1);
  c.ids.push_back(c.ids.front());
  c.counts = ragged_counts(rows, c.ids.size(), c.seed + 1);
  c.first_row = 3;
  c.rows_behind = 5;
}

MatmulSpoil spoil_of(GroupPattern pattern) {
  if (pattern == GroupPattern::nan_rows) return MatmulSpoil::rows;
  if (pattern == GroupPattern::nan_weights) return MatmulSpoil::weights;
  return pattern == GroupPattern::nan_scales ? MatmulSpoil::scales : MatmulSpoil::none;
}

std::string_view word_of(MatmulSpoil spoil) {
  constexpr std::array<std::string_view, 4> kWords = {"", ", NaN rows", ", NaN weights", ", NaN scales"};
  return kWords[static_cast<std::size_t>(spoil)];
}

}  // namespace

std::int64_t GroupedMatmulCase::num_rows() const {
  return std::accumulate(counts.begin(), counts.end(), first_row + rows_behind);
}

std::vector<std::uint32_t> GroupedMatmulCase::offsets() const {
  std::vector<std::uint32_t> offsets = {static_cast<std::uint32_t>(first_row)};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + static_cast<std::uint32_t>(count));
  return offsets;
}

std::vector<std::int32_t> GroupedMatmulCase::used_experts() const {
  std::set<std::int32_t> used;
  for (std::size_t g = 0; g < ids.size(); ++g)
    if (ids[g] >= 0 && counts[g] > 0) used.insert(ids[g]);
  return {used.begin(), used.end()};
}

std::string GroupedMatmulCase::name() const { return fmt::format("{} rows {}{}", num_rows(), label, word_of(spoil)); }

std::string_view to_string(GroupPattern pattern) noexcept {
  constexpr std::array<std::string_view, 8> kWords = {"even",    "ragged",   "one_expert",  "indices",
                                                      "hostile", "nan_rows", "nan_weights", "nan_scales"};
  return kWords[static_cast<std::size_t>(pattern)];
}

std::span<const GroupPattern> all_group_patterns() noexcept { return kPatterns; }

GroupedMatmulCase make_matmul_case(const ConfigFields& fields, GroupPattern pattern, std::int64_t rows,
                                   std::uint64_t seed, int most_experts) {
  GroupedMatmulCase c;
  c.label = to_string(pattern);
  c.seed = seed;
  c.hints = seed % 2 == 1;
  c.spoil = spoil_of(pattern);
  const int experts = num_groups(fields);
  c.ids = spread_ids(experts, static_cast<std::size_t>(std::min(experts, most_experts)));
  if (pattern == GroupPattern::one_expert) {
    c.ids = {experts - 1};
    c.counts = {rows};
  } else if (pattern == GroupPattern::even) {
    make_even(c, rows);
  } else if (pattern == GroupPattern::indices) {
    make_indices(c, rows, experts);
  } else if (pattern == GroupPattern::hostile) {
    make_hostile(c, rows);
  } else {
    c.counts = ragged_counts(rows, c.ids.size(), seed + 1);
  }
  return c;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const GroupedMatmulCase& c) {
  GroupedMatmulProblem problem(kernel.target(), matmul_spec(kernel, config), c);
  problem.run(kernel);
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
