// SPDX-License-Identifier: Apache-2.0
#include "verify/indices_case.hpp"

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reference/number.hpp"
#include "verify/indices_problem.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::array<IdPattern, 5> kPatterns = {IdPattern::uniform, IdPattern::zipf, IdPattern::one_expert,
                                                IdPattern::hostile, IdPattern::dropped};

// Ids that mean something: routed, zero and shared experts.
std::int64_t id_space(const ConfigFields& fields) {
  return fields.num_experts + fields.num_zero_experts + fields.num_shared_slots();
}

// Inverse of the cumulative weight of 1 / (e + 1), which is close to log(e + 1).
std::int64_t zipf(std::uint64_t seed, std::uint64_t index, std::int64_t count) {
  const double reach = std::log(static_cast<double>(count) + 1);
  return std::min(count - 1, static_cast<std::int64_t>(std::exp(random_unit(seed, index) * reach) - 1));
}

std::int64_t hostile(const ConfigFields& fields, std::uint64_t seed, std::uint64_t index) {
  const std::int64_t space = id_space(fields);
  const std::array<std::int64_t, 8> bad = {-1,
                                           -2,
                                           space,
                                           space + 1,
                                           std::numeric_limits<std::int32_t>::min(),
                                           std::numeric_limits<std::int32_t>::max(),
                                           std::numeric_limits<std::int64_t>::min(),
                                           std::int64_t{1} << 32};
  if (random_below(seed, index, 3) == 0) return bad[random_below(seed + 1, index, bad.size())];
  return static_cast<std::int64_t>(
      random_below(seed + 2, index, static_cast<std::uint64_t>(std::min<std::int64_t>(space, 3))));
}

std::int64_t draw(const ConfigFields& fields, const IndicesCase& c, std::uint64_t index) {
  const std::int64_t space = id_space(fields);
  const std::int64_t middle = fields.indices.first_expert + fields.indices.num_local_experts / 2;
  switch (c.pattern) {
    case IdPattern::uniform:
      return static_cast<std::int64_t>(random_below(c.seed, index, static_cast<std::uint64_t>(space)));
    case IdPattern::zipf: return zipf(c.seed, index, space);
    case IdPattern::one_expert: return middle;
    case IdPattern::hostile: return hostile(fields, c.seed, index);
    case IdPattern::dropped: return -1;
  }
  return 0;
}

}  // namespace

std::string_view to_string(IdPattern pattern) noexcept {
  switch (pattern) {
    case IdPattern::uniform: return "uniform";
    case IdPattern::zipf: return "zipf";
    case IdPattern::one_expert: return "one_expert";
    case IdPattern::hostile: return "hostile";
    case IdPattern::dropped: return "dropped";
  }
  return "?";
}

std::span<const IdPattern> all_id_patterns() noexcept { return kPatterns; }

std::string IndicesCase::name() const { return fmt::format("{} pairs {}", num_pairs, to_string(pattern)); }

std::vector<std::int64_t> make_ids(const ConfigFields& fields, const IndicesCase& c) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(c.num_pairs));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int64_t stored = 0;  // as the dtype holds it: narrow unsigned ids wrap
    reference::store_integer(fields.indices.ids, &stored, 0, draw(fields, c, i));
    ids[i] = reference::load_integer(fields.indices.ids, &stored, 0);
  }
  return ids;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const IndicesCase& c) {
  const IndicesProblem problem(kernel, config, make_ids(config.fields(), c));
  for (int round = 0; round < 2; ++round) {  // twice: the second finds the workspace as the first left it
    problem.reset();
    run_to_end(kernel, problem.args());
    if (auto wrong = problem.compare()) return fmt::format("{}: {}", c.name(), *wrong);
  }
  return std::nullopt;
}

}  // namespace moegen::verify
