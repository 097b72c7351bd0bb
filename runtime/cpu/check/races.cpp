// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/races.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace moegen::cpu {
namespace {

/// Unordered readers that are kept of one place in global memory, and of one where all places together have kMany.
/// Shared memory has no more actors than its cluster.
constexpr std::size_t kMostReaders = 1024, kFewReaders = 64, kMany = std::size_t{1} << 24;
/// Sets of fewer accesses are not worth looking for some that later ones stand for.
constexpr std::size_t kWorthPurging = 16;

bool same_class(Tag a, Tag b) noexcept { return a.access_class() == b.access_class(); }

}  // namespace

bool writes(Access kind) noexcept { return kind != Access::read && kind != Access::atomic_load; }

bool is_atomic(Access kind) noexcept { return kind != Access::read && kind != Access::write; }

bool Races::includes(Scope scope, std::uint32_t block, std::uint32_t other) const noexcept {
  if (scope == Scope::block) return block == other;
  return scope != Scope::cluster || block / cluster_size_ == other / cluster_size_;
}

bool Races::conflicts(const Timeline& who, Tag tag, const PastAccess& past) const noexcept {
  if (!writes(tag.kind()) && !writes(past.tag.kind())) return false;
  if (!is_atomic(tag.kind()) || !is_atomic(past.tag.kind())) return true;
  return !includes(std::min(tag.scope(), past.tag.scope()), who.block, actors_.block_of(past.epoch.actor));
}

std::optional<PastAccess> Races::note(Cell& cell, const Timeline& who, Tag tag, bool is_global) {
  const bool is_write = tag.kind() == Access::write;
  // What this actor did here a moment ago: nothing has changed since that is not told of already.
  if (is_write ? cell.write.epoch == who.now && cell.other.epoch.time == 0
               : cell.other.epoch == who.now && same_class(cell.other.tag, tag))
    return std::nullopt;
  std::optional<PastAccess> race;
  if (!actors_.ordered(who, cell.write.epoch)) race = cell.write;
  if (cell.other.epoch.time != 0 && !race) race = conflict_of_other(cell, who, tag);
  if (is_write) {
    sets_.clear(cell);
    cell.write = {who.now, tag};
  } else {
    keep(cell, who, tag, is_global);
  }
  cell.is_written |= writes(tag.kind());
  return race;
}

std::optional<PastAccess> Races::conflict_of_other(Cell& cell, const Timeline& who, Tag tag) {
  if (AccessSet* const set = sets_.find(cell)) return conflict_in_set(*set, who, tag);
  if (actors_.ordered(who, cell.other.epoch) || !conflicts(who, tag, cell.other)) return std::nullopt;
  return cell.other;
}

std::optional<PastAccess> Races::conflict_in_set(AccessSet& set, const Timeline& who, Tag tag) {
  if (set.has_reads() && writes(tag.kind()))
    if (const auto race = scan(set, who, tag, true, set.reads_known_by)) return race;
  if (set.has_atomics() && !atomics_agree(set, who, tag)) return scan(set, who, tag, false, set.atomics_known_by);
  return std::nullopt;
}

/// Whether no atomic of `set` can conflict with an atomic of this scope.
bool Races::atomics_agree(const AccessSet& set, const Timeline& who, Tag tag) const noexcept {
  if (!is_atomic(tag.kind())) return false;
  const Scope scope = std::min(tag.scope(), set.atomics_scope);
  return scope >= Scope::device || set.atomics_block == who.block;
}

std::optional<PastAccess> Races::scan(const AccessSet& set, const Timeline& who, Tag tag, bool reads,
                                      std::uint64_t& known_by) {
  if (who.known && known_by == who.known->serial) return std::nullopt;
  std::optional<PastAccess> race;
  bool all_known = true;
  set.for_each([&](const PastAccess& past) {
    if ((past.tag.kind() == Access::read) != reads) return;
    const bool is_own = past.epoch.actor == who.now.actor;
    if (is_own ? actors_.known(who, past.epoch) : actors_.ordered(who, past.epoch)) return;
    all_known = false;
    if (!is_own && !race && conflicts(who, tag, past)) race = past;
  });
  if (all_known && who.known) known_by = who.known->serial;
  return race;
}

void Races::keep(Cell& cell, const Timeline& who, Tag tag, bool is_global) {
  const PastAccess& other = cell.other;
  const bool alone = sets_.find(cell) == nullptr;
  if (alone && (other.epoch.time == 0 || (same_class(other.tag, tag) && actors_.ordered(who, other.epoch)))) {
    cell.other = {who.now, tag};
  } else {
    keep_in_set(cell, who, tag, is_global);
  }
}

void Races::keep_in_set(Cell& cell, const Timeline& who, Tag tag, bool is_global) {
  if (AccessSet* const set = sets_.find(cell)) {
    if (set->size() >= kWorthPurging && std::has_single_bit(set->size()))
      sets_.erase_if(
          *set, [&](const PastAccess& past) { return same_class(past.tag, tag) && actors_.ordered(who, past.epoch); });
  } else if (is_atomic(cell.other.tag.kind())) {
    const PastAccess first = cell.other;
    sets_.note_atomic(cell, actors_.block_of(first.epoch.actor), first.tag.scope());
  }
  const std::size_t most = !is_global                ? std::numeric_limits<std::size_t>::max()
                           : sets_.entries() < kMany ? kMostReaders
                                                     : kFewReaders;
  sets_.add(cell, {who.now, tag}, most);
  if (is_atomic(tag.kind())) sets_.note_atomic(cell, who.block, tag.scope());
}

}  // namespace moegen::cpu
