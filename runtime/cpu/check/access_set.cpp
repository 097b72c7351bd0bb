// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/access_set.hpp"

#include <utility>

namespace moegen::cpu {
namespace {

constexpr std::size_t kFirstCapacity = 8;

bool is_read(const PastAccess& access) noexcept { return access.tag.kind() == Access::read; }

bool same_owner(const PastAccess& a, const PastAccess& b) noexcept {
  return a.epoch.actor == b.epoch.actor && a.tag.access_class() == b.tag.access_class();
}

}  // namespace

std::size_t AccessSet::home(const PastAccess& access) const noexcept {
  const std::uint64_t key = (std::uint64_t{access.epoch.actor} << 5 | access.tag.access_class()) * 0x9E3779B97F4A7C15u;
  return (key >> 32) & (table_.size() - 1);
}

void AccessSet::place(const PastAccess& access) {
  std::size_t at = home(access);
  while (table_[at].epoch.time != 0 && !same_owner(table_[at], access)) at = (at + 1) & (table_.size() - 1);
  if (table_[at].epoch.time == 0) {
    ++size_;
    reads_ += is_read(access);
  }
  table_[at] = access;
}

void AccessSet::insert(const PastAccess& access, std::size_t most) {
  (is_read(access) ? reads_known_by : atomics_known_by) = 0;
  if (size_ >= most) {
    std::size_t at = home(access);
    while (table_[at].epoch.time == 0) at = (at + 1) & (table_.size() - 1);
    reads_ = reads_ + is_read(access) - is_read(table_[at]);
    table_[at] = access;
    return;
  }
  if (4 * (size_ + 1) > 3 * table_.size()) {
    std::vector<PastAccess> old(table_.empty() ? kFirstCapacity : table_.size() * 2);
    old.swap(table_);
    size_ = reads_ = 0;
    for (const PastAccess& entry : old)
      if (entry.epoch.time != 0) place(entry);
  }
  place(access);
}

}  // namespace moegen::cpu
