// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/shadow.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace moegen::cpu {
namespace {

constexpr std::uint32_t kLargestShift = 4;

}  // namespace

std::uint32_t AccessSets::take() {
  if (free_.empty()) {
    sets_.emplace_back();
    return static_cast<std::uint32_t>(sets_.size());
  }
  const std::uint32_t set = free_.back();
  free_.pop_back();
  return set;
}

AccessSet& AccessSets::of(Cell& cell) {
  if (AccessSet* const set = find(cell)) return *set;
  const std::uint32_t number = take();
  AccessSet& set = sets_[number - 1];
  if (cell.other.epoch.time != 0) set.insert(cell.other, std::numeric_limits<std::size_t>::max());
  cell.other = {{kSet, number}, {}};
  return set;
}

void AccessSets::add(Cell& cell, const PastAccess& access, std::size_t most) {
  AccessSet& set = of(cell);
  const std::size_t before = set.size();
  set.insert(access, most);
  entries_ += set.size() - before;
}

void AccessSets::note_atomic(Cell& cell, std::uint32_t block, Scope scope) {
  AccessSet& set = of(cell);
  const bool is_first = set.atomics_block == AccessSet::kNoBlock;
  set.atomics_block = is_first || set.atomics_block == block ? block : AccessSet::kSeveral;
  set.atomics_scope = std::min(set.atomics_scope, scope);
}

void AccessSets::clear(Cell& cell) {
  if (AccessSet* const set = find(cell)) {
    entries_ -= std::min(entries_, set->size());
    *set = {};
    free_.push_back(cell.other.epoch.time);
  }
  cell.other = {};
}

void AccessSets::separate(Cell& copy) {
  if (find(copy) == nullptr) return;
  const std::uint32_t number = take();
  sets_[number - 1] = *find(copy);
  entries_ += sets_[number - 1].size();
  copy.other.epoch.time = number;
}

Shadow::Page& Shadow::page_for(AccessSets& sets, std::size_t begin, std::size_t end) {
  Page& page = pages_[begin / kPageBytes];
  const auto shift = std::min(static_cast<std::uint32_t>(std::countr_zero(begin | end)), kLargestShift);
  if (page.cells == nullptr) {
    page.shift = shift;
    page.cells = std::make_unique<Cell[]>(kPageBytes >> shift);
  } else if (shift < page.shift) {
    split(sets, page, shift);
  }
  return page;
}

void Shadow::split(AccessSets& sets, Page& page, std::uint32_t shift) {
  const std::size_t parts = std::size_t{1} << (page.shift - shift);
  auto cells = std::make_unique<Cell[]>(kPageBytes >> shift);
  for (std::size_t i = 0; i < kPageBytes >> shift; ++i) {
    cells[i] = page.cells[i / parts];
    if (i % parts != 0) sets.separate(cells[i]);
  }
  page = {shift, std::move(cells)};
}

void Shadow::clear(AccessSets& sets) {
  for (Page& page : pages_) {
    if (page.cells == nullptr) continue;
    for (std::size_t i = 0; i < kPageBytes >> page.shift; ++i) sets.clear(page.cells[i]);
    page = {};
  }
}

}  // namespace moegen::cpu
