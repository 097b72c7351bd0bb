// SPDX-License-Identifier: Apache-2.0
// Shadow: what is remembered of each place of a stretch of memory. Cells are as large as the accesses allow: a page
// begins with cells of the size and alignment of its first access, up to 16 bytes, and is split where a smaller or less
// aligned one comes. So every access covers whole cells, and the memory of bytes is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/check/access_set.hpp"

namespace moegen::cpu {

/// The past of one place: the last write, and since then the reads and atomics.
struct Cell {
  PastAccess write;
  PastAccess other;         ///< one alone; where there are more, epoch.actor is kSet and epoch.time their AccessSet
  bool is_written = false;  ///< by whatever means
  std::uint8_t swizzle = kAnySwizzle;  ///< in which the last write laid it
  bool is_generic = false;             ///< the last write was outside the async proxy, and is not known to be fenced
};

class AccessSets {
 public:
  static constexpr std::uint32_t kSet = 0xFFFFFFFFu;
  /// Adds `access` to the set of `cell`, which is made of its single access if it has none.
  void add(Cell& cell, const PastAccess& access, std::size_t most);
  AccessSet* find(const Cell& cell) noexcept {
    return cell.other.epoch.actor == kSet ? &sets_[cell.other.epoch.time - 1] : nullptr;
  }
  /// Removes what `is_gone` says from `set`, which is one of these.
  template <class Predicate>
  void erase_if(AccessSet& set, Predicate&& is_gone) {
    const std::size_t before = set.size();
    set.erase_if(is_gone);
    entries_ -= before - set.size();
  }
  /// Empties what `cell` has beside its write.
  void clear(Cell& cell);
  /// Gives `copy`, a plain copy of a cell, a set of its own.
  void separate(Cell& copy);

  /// Tells the set of `cell` of an atomic in it.
  void note_atomic(Cell& cell, std::uint32_t block, Scope scope);
  /// Of all sets, about.
  std::size_t entries() const noexcept { return entries_; }

 private:
  AccessSet& of(Cell& cell);
  std::uint32_t take();

  std::vector<AccessSet> sets_;
  std::vector<std::uint32_t> free_;
  std::size_t entries_ = 0;
};

class Shadow {
 public:
  Shadow(std::uintptr_t begin, std::size_t bytes) : begin_(begin), pages_((bytes + kPageBytes - 1) / kPageBytes) {}

  std::uintptr_t begin() const noexcept { return begin_; }
  /// Calls visit(cell, offset) for the cells of [address, address + bytes), which lies in the stretch.
  template <class Visitor>
  void for_each(AccessSets& sets, std::uintptr_t address, std::size_t bytes, Visitor&& visit) {
    std::size_t offset = address - begin_;
    const std::size_t end = offset + bytes;
    while (offset < end) {
      const std::size_t stop =
          end < (offset / kPageBytes + 1) * kPageBytes ? end : (offset / kPageBytes + 1) * kPageBytes;
      Page& page = page_for(sets, offset, stop);
      for (; offset < stop; offset += std::size_t{1} << page.shift)
        visit(page.cells[(offset % kPageBytes) >> page.shift], offset);
    }
  }
  /// Forgets everything.
  void clear(AccessSets& sets);

 private:
  static constexpr std::size_t kPageBytes = 1024;
  struct Page {
    std::uint32_t shift = 0;  ///< cells have 1 << shift bytes
    std::unique_ptr<Cell[]> cells;
  };

  Page& page_for(AccessSets& sets, std::size_t begin, std::size_t end);
  static void split(AccessSets& sets, Page& page, std::uint32_t shift);

  std::uintptr_t begin_;
  std::vector<Page> pages_;
};

}  // namespace moegen::cpu
