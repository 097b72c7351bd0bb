// SPDX-License-Identifier: Apache-2.0
#include "verify/finalize_case.hpp"

#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "verify/finalize_problem.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::array<RowPattern, 4> kPatterns = {RowPattern::ordinary, RowPattern::dropped, RowPattern::nan_row,
                                                 RowPattern::sparse};
constexpr std::int64_t kSparseBytes = 5'000'000'000;  // of `down` in a sparse case

// Row of each pair among the rows in use.
std::vector<std::uint32_t> make_restore(const ConfigFields& fields, const FinalizeCase& c) {
  const auto slots = static_cast<std::size_t>(fields.num_slots());
  std::vector<std::uint32_t> restore(static_cast<std::size_t>(c.num_tokens) * slots);
  std::iota(restore.begin(), restore.end(), 0u);
  for (std::size_t i = restore.size(); i > 1; --i) std::swap(restore[i - 1], restore[random_below(c.seed + 7, i, i)]);
  if (c.pattern == RowPattern::dropped)
    for (std::size_t pair = 0; pair < restore.size(); ++pair)
      if (random_below(c.seed + 8, pair, 4) == 0 || pair / slots % 8 == 3) restore[pair] = kNoRow;
  return restore;
}

// Ids that agree with restore: a dropped pair is a zero expert's or -1, a kept one a local expert's.
std::vector<std::int64_t> make_ids(const ConfigFields& fields, const std::vector<std::uint32_t>& restore,
                                   std::uint64_t seed) {
  const auto zero_experts = static_cast<std::uint64_t>(fields.num_zero_experts);
  const auto local = static_cast<std::uint64_t>(fields.indices.num_local_experts);
  std::vector<std::int64_t> ids(restore.size());
  for (std::size_t pair = 0; pair < restore.size(); ++pair) {
    ids[pair] = fields.indices.first_expert + static_cast<std::int64_t>(random_below(seed, pair, local));
    if (restore[pair] == kNoRow) ids[pair] = -1;
    if (restore[pair] == kNoRow && zero_experts > 0 && pair % 3 != 0)
      ids[pair] = fields.num_experts + static_cast<std::int64_t>(random_below(seed, pair, zero_experts));
  }
  return ids;
}

Routing make_routing(const ConfigFields& fields, const FinalizeCase& c) {
  Routing routing;
  routing.restore = make_restore(fields, c);
  routing.ids = make_ids(fields, routing.restore, c.seed + 2);
  routing.rows = static_cast<std::int64_t>(routing.restore.size());
  return routing;
}

FinalizeOptions options_of(const ConfigFields& fields, const FinalizeCase& c, std::int64_t rows) {
  FinalizeOptions options{.seed = c.seed, .spoil_rows = c.pattern == RowPattern::nan_row};
  const std::int64_t row_bytes = fields.expert_hidden * bits(fields.finalize.down) / 8;
  if (c.pattern == RowPattern::sparse && rows > 0) options.row_stride = kSparseBytes / (rows * row_bytes) + 1;
  return options;
}

}  // namespace

std::string_view to_string(RowPattern pattern) noexcept {
  switch (pattern) {
    case RowPattern::ordinary: return "ordinary";
    case RowPattern::dropped: return "dropped";
    case RowPattern::nan_row: return "nan_row";
    case RowPattern::sparse: return "sparse";
  }
  return "?";
}

std::span<const RowPattern> all_row_patterns() noexcept { return kPatterns; }

std::string FinalizeCase::name() const { return fmt::format("{} tokens {}", num_tokens, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const FinalizeCase& c) {
  const std::int64_t rows = c.num_tokens * config->num_slots() + num_groups(config.fields()) + 4 * c.num_tokens;
  return rows * config->expert_hidden * bits(config->finalize.down) / 8;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const FinalizeCase& c) {
  Routing routing = make_routing(config.fields(), c);
  const FinalizeOptions options = options_of(config.fields(), c, routing.rows);
  const FinalizeProblem problem(kernel.target(), config, std::move(routing), options);
  run_to_end(kernel, problem.args());
  if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
