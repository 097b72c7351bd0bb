// SPDX-License-Identifier: Apache-2.0
#include "cpu/buffers.hpp"

#include <iterator>
#include <mutex>
#include <utility>

namespace moegen::cpu {

const Buffer* Buffers::overlapping(std::uintptr_t begin, std::uintptr_t end) const {
  const auto past = by_begin_.lower_bound(end);
  if (past == by_begin_.begin()) return nullptr;
  const Buffer& last = std::prev(past)->second;
  return last.end > begin ? &last : nullptr;
}

std::optional<Buffer> Buffers::add(Buffer buffer) {
  const std::unique_lock lock(mutex_);
  if (const Buffer* known = overlapping(buffer.begin, buffer.end)) return *known;
  const std::uintptr_t begin = buffer.begin;
  by_begin_.emplace(begin, std::move(buffer));
  return std::nullopt;
}

bool Buffers::remove(std::uintptr_t begin) {
  const std::unique_lock lock(mutex_);
  return by_begin_.erase(begin) == 1;
}

std::optional<Buffer> Buffers::find(std::uintptr_t address) const {
  const std::shared_lock lock(mutex_);
  const Buffer* buffer = overlapping(address, address + 1);
  return buffer != nullptr ? std::optional(*buffer) : std::nullopt;
}

std::optional<Buffer> Buffers::nearest(std::uintptr_t address) const {
  const std::shared_lock lock(mutex_);
  if (by_begin_.empty()) return std::nullopt;
  const auto above = by_begin_.upper_bound(address);
  if (above == by_begin_.begin()) return above->second;
  const Buffer& below = std::prev(above)->second;
  const bool closer_above =
      above != by_begin_.end() && address >= below.end && above->first - address < address - below.end;
  return closer_above ? above->second : below;
}

std::vector<Buffer> Buffers::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<Buffer> buffers;
  buffers.reserve(by_begin_.size());
  for (const auto& [begin, buffer] : by_begin_) buffers.push_back(buffer);
  return buffers;
}

}  // namespace moegen::cpu
