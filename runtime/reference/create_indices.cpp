// SPDX-License-Identifier: Apache-2.0
#include "reference/create_indices.hpp"

#include <algorithm>

#include <moegen/shapes.hpp>

namespace moegen::reference {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr std::uint32_t kScaleRows = 128;

// The group of an expert id: local experts first, then shared slots; -1 for any other id.
std::int64_t group_of(const ConfigFields& fields, std::int64_t id) {
  const std::int64_t first = fields.indices.first_expert;
  const std::int64_t local = fields.indices.num_local_experts;
  if (id >= first && id < first + local) return id - first;
  const std::int64_t first_shared = fields.num_experts + fields.num_zero_experts;
  const std::int64_t shared = fields.num_shared_slots();
  return id >= first_shared && id < first_shared + shared ? local + id - first_shared : -1;
}

std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The pairs of each group, ascending.
std::vector<std::vector<std::uint32_t>> collect(const ConfigFields& fields, const std::vector<std::int64_t>& ids) {
  std::vector<std::vector<std::uint32_t>> members(static_cast<std::size_t>(num_groups(fields)));
  for (std::size_t pair = 0; pair < ids.size(); ++pair) {
    const std::int64_t group = group_of(fields, ids[pair]);
    if (group >= 0) members[static_cast<std::size_t>(group)].push_back(static_cast<std::uint32_t>(pair));
  }
  return members;
}

}  // namespace

Indices create_indices(const ConfigFields& fields, const std::vector<std::int64_t>& ids) {
  const auto members = collect(fields, ids);
  const bool all = fields.indices.experts == IndexedExperts::all;
  Indices out;
  out.token_expert_order.assign(static_cast<std::size_t>(order_capacity(fields, static_cast<std::int64_t>(ids.size()))),
                                kNone);
  out.restore_token_order.assign(ids.size(), kNone);
  out.expert_usage_stats = {0, 0};
  std::uint32_t row = 0, scale_blocks = 0;
  for (std::size_t group = 0; group < members.size(); ++group) {
    const auto count = static_cast<std::uint32_t>(members[group].size());
    out.expert_usage_stats[0] = std::max(out.expert_usage_stats[0], count);
    out.expert_usage_stats[1] += count > 0 ? 1 : 0;
    if (count == 0 && !all) continue;
    out.expert_start_indices.push_back(row);
    out.expert_ids.push_back(static_cast<std::int32_t>(group));
    out.scales_offset.push_back(scale_blocks - row / kScaleRows);
    for (std::uint32_t i = 0; i < count; ++i) {
      out.token_expert_order[row + i] = members[group][i];
      out.restore_token_order[members[group][i]] = row + i;
    }
    const std::uint32_t padded = round_up(count, static_cast<std::uint32_t>(fields.indices.pad_rows_to));
    row += padded;
    scale_blocks += round_up(padded, kScaleRows) / kScaleRows;
  }
  out.expert_ids.resize(members.size(), -1);
  out.expert_start_indices.resize(members.size() + 1, row);
  out.scales_offset.resize(members.size(), scale_blocks - row / kScaleRows);
  if (!fields.indices.scales_offset) out.scales_offset.clear();
  return out;
}

}  // namespace moegen::reference
