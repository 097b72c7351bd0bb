// SPDX-License-Identifier: Apache-2.0
// AccessSet: the accesses of one place in memory that may run beside each other: reads and atomics of several actors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/check/actors.hpp"
#include "cpu/check/checker.hpp"

namespace moegen::cpu {

/// What an access was, in a word: place, kind, scope and size.
class Tag {
 public:
  Tag() = default;
  Tag(Site site, Access kind, Scope scope, std::uint32_t bytes) noexcept
      : bits_((site < kSites ? site : 0) | static_cast<std::uint32_t>(kind) << 20 |
              static_cast<std::uint32_t>(scope) << 23 | (bytes <= kMostBytes ? bytes : 0) << 25) {}
  Site site() const noexcept { return bits_ & (kSites - 1); }
  Access kind() const noexcept { return static_cast<Access>(bits_ >> 20 & 7); }
  Scope scope() const noexcept { return static_cast<Scope>(bits_ >> 23 & 3); }
  /// 0: more than kMostBytes.
  std::uint32_t bytes() const noexcept { return bits_ >> 25; }
  /// Accesses of one class conflict with the same others.
  std::uint32_t access_class() const noexcept { return bits_ >> 20 & 31; }

 private:
  static constexpr std::uint32_t kSites = 1u << 20;  ///< places past that are told as unknown
  static constexpr std::uint32_t kMostBytes = 127;
  std::uint32_t bits_ = 0;
};

struct PastAccess {
  Epoch epoch;
  Tag tag;
};

/// A hash table, one entry an actor and class: an actor's later access stands for its earlier ones.
class AccessSet {
 public:
  /// `most`: entries that it may have; past that a new one takes the place of another.
  void insert(const PastAccess& access, std::size_t most);
  std::size_t size() const noexcept { return size_; }
  bool has_reads() const noexcept { return reads_ > 0; }
  bool has_atomics() const noexcept { return reads_ < size_; }

  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (const PastAccess& entry : table_)
      if (entry.epoch.time != 0) visit(entry);
  }
  /// Removes what `is_gone` says.
  template <class Predicate>
  void erase_if(Predicate&& is_gone) {
    std::vector<PastAccess> old;
    old.swap(table_);
    size_ = reads_ = 0;
    table_.resize(old.size());
    for (const PastAccess& entry : old)
      if (entry.epoch.time != 0 && !is_gone(entry)) place(entry);
  }

  /// Serial of a clock that knows all plain reads, or all atomics, of the set; 0 = none known.
  std::uint64_t reads_known_by = 0, atomics_known_by = 0;
  /// The block of all its atomics, kSeveral if there are more, and their least scope.
  static constexpr std::uint32_t kNoBlock = 0xFFFFFFFFu, kSeveral = 0xFFFFFFFEu;
  std::uint32_t atomics_block = kNoBlock;
  Scope atomics_scope = Scope::system;

 private:
  std::size_t home(const PastAccess& access) const noexcept;
  void place(const PastAccess& access);

  std::vector<PastAccess> table_;
  std::size_t size_ = 0, reads_ = 0;
};

}  // namespace moegen::cpu
