// SPDX-License-Identifier: Apache-2.0
// Races: which accesses of one place conflict, and what is kept of each.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/check/actors.hpp"
#include "cpu/check/shadow.hpp"

namespace moegen::cpu {

class Races {
 public:
  /// `cluster_size`: blocks of a cluster; blocks are numbered by cluster.
  Races(const Actors& actors, std::uint32_t cluster_size) : actors_(actors), cluster_size_(cluster_size) {}

  /// Notes an access of `cell` by `who`; the earlier access that it races with, if there is one.
  std::optional<PastAccess> note(Cell& cell, const Timeline& who, Tag tag, bool is_global);
  /// Whether threads of both blocks are in `scope` of each other.
  bool includes(Scope scope, std::uint32_t block, std::uint32_t other) const noexcept;
  AccessSets& sets() noexcept { return sets_; }

 private:
  bool conflicts(const Timeline& who, Tag tag, const PastAccess& past) const noexcept;
  std::optional<PastAccess> conflict_of_other(Cell& cell, const Timeline& who, Tag tag);
  std::optional<PastAccess> conflict_in_set(AccessSet& set, const Timeline& who, Tag tag);
  std::optional<PastAccess> scan(const AccessSet& set, const Timeline& who, Tag tag, bool reads,
                                 std::uint64_t& known_by);
  bool atomics_agree(const AccessSet& set, const Timeline& who, Tag tag) const noexcept;
  void keep(Cell& cell, const Timeline& who, Tag tag, bool is_global);
  void keep_in_set(Cell& cell, const Timeline& who, Tag tag, bool is_global);

  const Actors& actors_;
  std::uint32_t cluster_size_;
  AccessSets sets_;
};

bool writes(Access kind) noexcept;
bool is_atomic(Access kind) noexcept;

}  // namespace moegen::cpu
