// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/clock.hpp"

#include <algorithm>
#include <utility>

namespace moegen::cpu {
namespace {

auto lower_bound(auto& entries, std::uint32_t block) noexcept {
  return std::lower_bound(entries.begin(), entries.end(), block,
                          [](const Clock::Entry& entry, std::uint32_t value) { return entry.block < value; });
}

bool covers(const Row& a, const Row& b) noexcept {
  if (a.times.size() < b.times.size()) return false;
  const std::uint32_t* const mine = a.times.data();
  const std::uint32_t* const other = b.times.data();
  bool later = false;
  for (std::size_t i = 0; i < b.times.size(); ++i) later |= other[i] > mine[i];
  return !later;
}

Ref<Row> merge_rows(const Ref<Row>& a, const Ref<Row>& b) {
  if (a == b || covers(*a, *b)) return a;
  if (covers(*b, *a)) return b;
  const Ref<Row>& longer = a->times.size() >= b->times.size() ? a : b;
  const Ref<Row>& shorter = a->times.size() >= b->times.size() ? b : a;
  Ref<Row> merged(new Row(*longer));
  for (std::size_t i = 0; i < shorter->times.size(); ++i)
    merged->times[i] = std::max(merged->times[i], shorter->times[i]);
  return merged;
}

std::vector<Clock::Entry> merge_entries(const std::vector<Clock::Entry>& a, const std::vector<Clock::Entry>& b) {
  std::vector<Clock::Entry> merged;
  merged.reserve(std::max(a.size(), b.size()));
  auto left = a.begin(), right = b.begin();
  while (left != a.end() || right != b.end()) {
    if (right == b.end() || (left != a.end() && left->block < right->block)) {
      merged.push_back(*left++);
    } else if (left == a.end() || right->block < left->block) {
      merged.push_back(*right++);
    } else {
      merged.push_back({left->block, merge_rows(left->row, right->row)});
      ++left, ++right;
    }
  }
  return merged;
}

bool same(const std::vector<Clock::Entry>& a, const std::vector<Clock::Entry>& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Clock::Entry& left, const Clock::Entry& right) {
    return left.block == right.block && left.row == right.row;
  });
}

}  // namespace

const Row* Clock::find(std::uint32_t block) const noexcept {
  const auto at = lower_bound(entries, block);
  return at != entries.end() && at->block == block ? at->row.get() : nullptr;
}

std::uint32_t Clock::time_of(std::uint32_t block, std::uint32_t index) const noexcept {
  const Row* const row = find(block);
  return row != nullptr && index < row->times.size() ? row->times[index] : 0;
}

ClockRef Clocks::merge(const ClockRef& a, const ClockRef& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  Memo& memo = memos_[(a->serial * 31 + b->serial) % memos_.size()];
  if (memo.a != a->serial || memo.b != b->serial) memo = {a->serial, b->serial, make_merged(a, b)};
  return memo.result;
}

ClockRef Clocks::make_merged(const ClockRef& a, const ClockRef& b) {
  std::vector<Clock::Entry> entries = merge_entries(a->entries, b->entries);
  if (same(entries, a->entries)) return a;
  if (same(entries, b->entries)) return b;
  ClockRef merged(new Clock());
  merged->entries = std::move(entries);
  merged->serial = next_serial_++;
  return merged;
}

std::vector<std::uint32_t>& Clocks::row(ClockRef& clock, std::uint32_t block, std::size_t size) {
  Clock& own = clock.writable();
  own.serial = next_serial_++;
  auto at = lower_bound(own.entries, block);
  if (at == own.entries.end() || at->block != block) at = own.entries.insert(at, {block, {}});
  Row& row = at->row.writable();
  if (row.times.size() < size) row.times.resize(size);
  return row.times;
}

void Clocks::add(ClockRef& clock, std::uint32_t block, std::uint32_t index, std::uint32_t time) {
  std::uint32_t& known = row(clock, block, index + 1)[index];
  known = std::max(known, time);
}

}  // namespace moegen::cpu
