// SPDX-License-Identifier: Apache-2.0
#include "verify/indices_case.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <moegen/args/create_indices.h>
#include <moegen/shapes.hpp>

#include "reference/create_indices.hpp"
#include "reference/number.hpp"
#include "verify/guarded_buffer.hpp"
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

template <class T>
std::optional<std::string> compare(const GuardedBuffer& got_buffer, const std::vector<T>& want, std::string_view name) {
  if (auto damage = got_buffer.damage()) return damage;
  const std::vector<char> bytes = got_buffer.download();
  for (std::size_t i = 0; i < want.size(); ++i) {
    T got;
    std::memcpy(&got, bytes.data() + i * sizeof(T), sizeof(T));
    if (got != want[i]) return fmt::format("{}[{}]: got {}, want {}", name, i, got, want[i]);
  }
  return std::nullopt;
}

template <class T>
GuardedBuffer output(Target target, std::string name, const std::vector<T>& want) {
  return GuardedBuffer(target, std::move(name), want.size() * sizeof(T), GuardedBuffer::kIndexPoison);
}

// The outputs of a run and what they should hold.
struct Outputs {
  Outputs(Target target, const reference::Indices& want)
      : order(output(target, "token_expert_order", want.token_expert_order)),
        starts(output(target, "expert_start_indices", want.expert_start_indices)),
        restore(output(target, "restore_token_order", want.restore_token_order)),
        ids(output(target, "expert_ids", want.expert_ids)),
        stats(output(target, "expert_usage_stats", want.expert_usage_stats)),
        scales(output(target, "scales_offset", want.scales_offset)) {}

  void reset() const {
    for (const GuardedBuffer* buffer : {&order, &starts, &restore, &ids, &stats, &scales}) buffer->reset();
  }

  std::optional<std::string> compare_all(const reference::Indices& want) const {
    if (auto wrong = compare(starts, want.expert_start_indices, "expert_start_indices")) return wrong;
    if (auto wrong = compare(ids, want.expert_ids, "expert_ids")) return wrong;
    if (auto wrong = compare(stats, want.expert_usage_stats, "expert_usage_stats")) return wrong;
    if (auto wrong = compare(scales, want.scales_offset, "scales_offset")) return wrong;
    if (auto wrong = compare(restore, want.restore_token_order, "restore_token_order")) return wrong;
    return compare(order, want.token_expert_order, "token_expert_order");
  }

  GuardedBuffer order, starts, restore, ids, stats, scales;
};

create_indices::Args make_args(const ConfigFields& fields, const Outputs& out, const Memory& ids,
                               std::int64_t num_pairs) {
  create_indices::Args args{};
  args.topk_ids = ids.data();
  args.token_expert_order = out.order.data<std::uint32_t>();
  args.expert_start_indices = out.starts.data<std::uint32_t>();
  args.restore_token_order = out.restore.data<std::uint32_t>();
  args.expert_ids = out.ids.data<std::int32_t>();
  args.expert_usage_stats = out.stats.data<std::uint32_t>();
  args.scales_offset = fields.indices.scales_offset ? out.scales.data<std::uint32_t>() : nullptr;
  args.num_pairs = num_pairs;
  return args;
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

Memory upload_ids(Target target, const ConfigFields& fields, const std::vector<std::int64_t>& ids) {
  const Dtype dtype = fields.indices.ids;
  std::vector<char> bytes(ids.size() * static_cast<std::size_t>(bits(dtype) / 8));
  for (std::size_t i = 0; i < ids.size(); ++i) reference::store_integer(dtype, bytes.data(), i, ids[i]);
  return Memory::of(target, "topk_ids", bytes);
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const IndicesCase& c) {
  const std::vector<std::int64_t> ids = make_ids(config.fields(), c);
  const reference::Indices want = reference::create_indices(config.fields(), ids);
  const Target target = kernel.target();
  const Memory ids_on_device = upload_ids(target, config.fields(), ids);
  const Outputs out(target, want);
  create_indices::Args args = make_args(config.fields(), out, ids_on_device, c.num_pairs);
  const Memory workspace(target, "workspace", kernel.workspace_bytes(&args, sizeof(args)));
  if (workspace.size() > 0) workspace.fill(0);
  args.workspace = workspace.data();
  for (int round = 0; round < 2; ++round) {  // twice: the second finds the workspace as the first left it
    out.reset();
    run_to_end(kernel, args);
    if (auto wrong = out.compare_all(want)) return fmt::format("{}: {}", c.name(), *wrong);
  }
  return std::nullopt;
}

}  // namespace moegen::verify
