// SPDX-License-Identifier: Apache-2.0
#include "importer/slices.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <moegen/error.hpp>

namespace moegen::importer {
namespace {

std::int64_t group_of(Scheme scheme) noexcept {
  switch (scheme) {
    case Scheme::block128: return 128;
    case Scheme::mxfp8:
    case Scheme::mxfp4:
    case Scheme::int4: return 32;
    case Scheme::nvfp4: return 16;
    default: return 1;
  }
}

bool is_legal(std::int64_t width, std::int64_t ranks, std::int64_t step) {
  return ranks == 1 || (width % ranks == 0 && width / ranks % step == 0);
}

// The rank count nearest to `ranks` in direction `step_by` that slices legally.
std::optional<std::int64_t> nearest_ranks(std::int64_t width, std::int64_t ranks, std::int64_t step, int step_by) {
  constexpr std::int64_t kMostRanks = 1 << 16;
  for (std::int64_t candidate = ranks; candidate >= 1 && candidate <= std::min(width, kMostRanks); candidate += step_by)
    if (is_legal(width, candidate, step)) return candidate;
  return std::nullopt;
}

std::string spell_legal(std::int64_t width, std::int64_t ranks, std::int64_t step) {
  std::string widths, counts;
  for (int direction : {-1, 1})
    if (const auto legal = nearest_ranks(width, ranks, step, direction)) {
      widths += fmt::format("{}{}", widths.empty() ? "" : " and ", width / *legal);
      counts += fmt::format("{}{}", counts.empty() ? "" : " and ", *legal);
    }
  return fmt::format("nearest allowed {} (--tensor-parallel {})", widths, counts);
}

}  // namespace

std::int64_t slice_step(Scheme scheme, Dtype weight) noexcept {
  const std::int64_t piece = 128 / bits(weight);
  return std::max(piece, group_of(scheme));  // both are powers of two
}

std::int64_t slice_width(std::string_view origin, const Sourced<std::int64_t>& width, int ranks, std::int64_t step) {
  if (is_legal(width.value, ranks, step)) return width.value / ranks;
  const std::string fact =
      width.value % ranks == 0
          ? fmt::format("slices of {}, no multiple of {} (a scale block or a 16-byte piece)", width.value / ranks, step)
          : "no whole slices";
  throw Error(ErrorCode::config, fmt::format("{}: {}: is {}, of which {} ranks get {}; {}", origin, width.source,
                                             width.value, ranks, fact, spell_legal(width.value, ranks, step)));
}

ExpertRange slice_experts(std::int64_t num_experts, int ranks, int rank) noexcept {
  const std::int64_t each = num_experts / ranks, more = num_experts % ranks;
  return {rank * each + std::min<std::int64_t>(rank, more), each + (rank < more ? 1 : 0)};
}

}  // namespace moegen::importer
