// SPDX-License-Identifier: Apache-2.0
#include "verify/indices_problem.hpp"

#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reference/number.hpp"

namespace moegen::verify {
namespace {

template <class T>
std::optional<std::string> differs(const GuardedBuffer& got_buffer, const std::vector<T>& want, std::string_view name) {
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

}  // namespace

Memory upload_ids(Target target, const ConfigFields& fields, const std::vector<std::int64_t>& ids) {
  const Dtype dtype = fields.indices.ids;
  std::vector<char> bytes(ids.size() * static_cast<std::size_t>(bits(dtype) / 8));
  for (std::size_t i = 0; i < ids.size(); ++i) reference::store_integer(dtype, bytes.data(), i, ids[i]);
  return Memory::of(target, "topk_ids", bytes);
}

IndicesProblem::IndicesProblem(const Kernel& kernel, const Config& config, const std::vector<std::int64_t>& ids)
    : want_(reference::create_indices(config.fields(), ids)),
      ids_(upload_ids(kernel.target(), config.fields(), ids)),
      order_(output(kernel.target(), "token_expert_order", want_.token_expert_order)),
      starts_(output(kernel.target(), "expert_start_indices", want_.expert_start_indices)),
      restore_(output(kernel.target(), "restore_token_order", want_.restore_token_order)),
      experts_(output(kernel.target(), "expert_ids", want_.expert_ids)),
      stats_(output(kernel.target(), "expert_usage_stats", want_.expert_usage_stats)),
      scales_(output(kernel.target(), "scales_offset", want_.scales_offset)) {
  args_.topk_ids = ids_.data();
  args_.token_expert_order = order_.data<std::uint32_t>();
  args_.expert_start_indices = starts_.data<std::uint32_t>();
  args_.restore_token_order = restore_.data<std::uint32_t>();
  args_.expert_ids = experts_.data<std::int32_t>();
  args_.expert_usage_stats = stats_.data<std::uint32_t>();
  args_.scales_offset = config->indices.scales_offset ? scales_.data<std::uint32_t>() : nullptr;
  args_.num_pairs = static_cast<std::int64_t>(ids.size());
  workspace_ = Memory(kernel.target(), "workspace", kernel.workspace_bytes(&args_, sizeof(args_)));
  if (workspace_.size() > 0) workspace_.fill(0);
  args_.workspace = workspace_.data();
}

void IndicesProblem::reset() const {
  for (const GuardedBuffer* buffer : {&order_, &starts_, &restore_, &experts_, &stats_, &scales_}) buffer->reset();
}

std::optional<std::string> IndicesProblem::compare() const {
  if (auto wrong = differs(starts_, want_.expert_start_indices, "expert_start_indices")) return wrong;
  if (auto wrong = differs(experts_, want_.expert_ids, "expert_ids")) return wrong;
  if (auto wrong = differs(stats_, want_.expert_usage_stats, "expert_usage_stats")) return wrong;
  if (auto wrong = differs(scales_, want_.scales_offset, "scales_offset")) return wrong;
  if (auto wrong = differs(restore_, want_.restore_token_order, "restore_token_order")) return wrong;
  return differs(order_, want_.token_expert_order, "token_expert_order");
}

}  // namespace moegen::verify
