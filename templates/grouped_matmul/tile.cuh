// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheduler: which tile a block multiplies next, found on the device from the groups' offsets.
//
// Order of tiles: the groups in turn; in a group slabs of `raster` units of columns; in a slab the tiles of tokens; for
// each the units of the slab. A unit is what one cluster multiplies at once, so its blocks share their tokens. Clusters
// take the tiles of that order in turn, `joined_tiles` neighbours at a time (or as they are dealt, deal.cuh). Empty
// groups have no tile.
//
// Where tiles are taken in turn a warp walks together: each lane knows the last token tile of `groups_per_lane`
// neighbouring groups, so that a ballot finds the lane, and a second one the group, however many groups there are.
#pragma once

#include "../core/thread.cuh"
#include "../core/types.cuh"
#include "../core/warp.cuh"
#include "args.h"

namespace moegen::grouped_matmul {

/// What all roles must know of a tile.
struct alignas(16) Tile {
  uint32_t row;    // first row of a and c
  uint32_t rows;   // 1 .. max_tokens; 0 ends the work
  uint32_t unit;   // of columns; the block's own, not its cluster's
  int32_t expert;  // -1: none, the products are 0
};

/// Rows of one group, and how they are cut into tiles.
struct Group {
  uint32_t row, rows;
};

/// Token tiles of a group of `rows` rows.
template <class T>
MOEGEN_DEVICE uint32_t count_tiles(uint32_t rows) {
  return ceil_div<uint32_t>(rows, T::max_tokens);
}

/// How a group is cut: `tiles` of `step` rows, the last of those that are left.
struct Cut {
  uint32_t tiles, step;
};

/// Few tiles are made equal: a narrow last one would be bound by its weights' way through L2, not by the tensor cores.
template <class T>
MOEGEN_DEVICE Cut cut(uint32_t rows) {
  const uint32_t tiles = count_tiles<T>(rows);
  if (tiles > T::even_tiles || tiles == 0) return {tiles, T::max_tokens};
  return {tiles, round_up<uint32_t>(ceil_div(rows, tiles), T::token_step)};
}

/// Units of columns of every group.
template <class P, class T>
constexpr uint32_t kUnits = ceil_div<uint32_t>(P::output_columns, T::tile_columns* T::cluster);

/// Rows of group `index`; none past the last group.
MOEGEN_DEVICE Group rows_of_group(const Args& args, uint32_t index) {
  if (index >= static_cast<uint32_t>(args.num_groups)) return {0, 0};
  const uint32_t row = args.a_offsets[index];
  return {row, args.a_offsets[index + 1] - row};
}

/// Division by the places of a slab, by a factor that is made once for a group: the scheduler divides for every tile of
/// all blocks (deal.cuh).
struct SlabDivisor {
  uint32_t places, factor;

  MOEGEN_DEVICE explicit SlabDivisor(uint32_t value) : places(value), factor(0xFFFFFFFFu / value) {}
  /// value / places; the remainder in `value`. The factor is rounded down, so that the first quotient may be 1 too
  /// small.
  MOEGEN_DEVICE uint32_t divide(uint32_t& value) const {
    auto quotient = static_cast<uint32_t>(uint64_t{value} * factor >> 32);
    value -= quotient * places;
    if (value >= places) ++quotient, value -= places;
    return quotient;
  }
};

/// Token tile and unit at place `place` of a group.
struct GroupPlace {
  uint32_t tile, unit;
};
template <class P, class T>
MOEGEN_DEVICE GroupPlace group_place(uint32_t place, const SlabDivisor& slabs) {
  constexpr uint32_t kLast = kUnits<P, T> % T::raster;  // width of the last slab, if it is narrower
  const uint32_t slab = slabs.divide(place), unit = slab * T::raster;
  if (kLast != 0 && slab == kUnits<P, T> / T::raster)
    return {place / max_of<uint32_t>(kLast, 1), unit + place % max_of<uint32_t>(kLast, 1)};
  return {place / T::raster, unit + place % T::raster};
}

/// The tile of `group`, whose number is `index`, at `place` in it, for the block of rank `rank` in its cluster.
template <class T>
MOEGEN_DEVICE Tile tile_of(const Args& args, uint32_t index, const Group& group, uint32_t step, GroupPlace place,
                           uint32_t rank) {
  const uint32_t start = place.tile * step;
  return {group.row + start, min_of(group.rows - start, step), place.unit * T::cluster + rank, args.expert_ids[index]};
}

template <class P, class T>
class TileWalk {
 public:
  MOEGEN_DEVICE TileWalk(const Args& args, uint32_t rank)
      : args_(args),
        rank_(rank),
        next_(block_index() / T::cluster * T::joined_tiles),
        num_groups_(static_cast<uint32_t>(args.num_groups)) {
    load_window();
  }

  /// The next tile of this block's cluster; false at the end. All lanes of the warp call it together.
  MOEGEN_DEVICE bool next(Tile& tile) {
    while (next_ - before_ >= last(kWarpSize - 1) * kUnits<P, T>) {
      if (first_ + kWindow >= num_groups_) return false;
      before_ += last(kWarpSize - 1) * kUnits<P, T>;
      first_ += kWindow;
      load_window();
    }
    tile = find(next_ - before_);
    const bool last_joined = next_ % T::joined_tiles == T::joined_tiles - 1;
    next_ += last_joined ? (num_blocks() / T::cluster - 1) * T::joined_tiles + 1 : 1;
    return true;
  }

 private:
  enum : uint32_t { kWindow = kWarpSize * P::groups_per_lane };
  static_assert(T::joined_tiles == 1 ||
                    (T::cluster == 1 && kUnits<P, T> % T::joined_tiles == 0 && T::raster % T::joined_tiles == 0),
                "joined tiles are neighbours in the order of tiles");

  MOEGEN_DEVICE uint32_t last(uint32_t lane) const { return shuffle(lane_tiles_, lane); }

  /// Sum of `value` over this lane and those below.
  static MOEGEN_DEVICE uint32_t scan(uint32_t value) {
#pragma unroll
    for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) value += shuffle_up(value, delta, 0);
    return value;
  }

  MOEGEN_DEVICE void load_window() {
    uint32_t tiles = 0;
#pragma unroll 1  // all groups at once take registers that loaders of scales need
    for (uint32_t i = 0; i < P::groups_per_lane; ++i)
      tiles += count_tiles<T>(rows_of_group(args_, first_ + lane_index() * P::groups_per_lane + i).rows);
    lane_tiles_ = scan(tiles);
  }

  /// The group of token tile number `tile` of the window, its rows, and how many tiles of the window come before it.
  MOEGEN_DEVICE uint32_t find_group(uint32_t tile, Group& found, uint32_t& tiles_before) const {
    const uint32_t owner = popcount(ballot(lane_tiles_ <= tile));
    tiles_before = owner == 0 ? 0 : last(owner - 1);
    uint32_t index = first_ + owner * P::groups_per_lane;
    const Group mine = rows_of_group(args_, index + min_of<uint32_t>(lane_index(), P::groups_per_lane - 1));
    uint32_t inner = 0;
    if constexpr (P::groups_per_lane > 1) {
      const uint32_t ends = scan(lane_index() < P::groups_per_lane ? count_tiles<T>(mine.rows) : 0);
      inner = popcount(ballot(ends <= tile - tiles_before));
      if (inner > 0) tiles_before += shuffle(ends, inner - 1);
    }
    found = {shuffle(mine.row, inner), shuffle(mine.rows, inner)};
    return index + inner;
  }

  /// The tile at place `place` of the window.
  MOEGEN_DEVICE Tile find(uint32_t place) const {
    Group group;
    uint32_t tiles_before;
    const uint32_t index = find_group(place / kUnits<P, T>, group, tiles_before);
    const Cut rows = cut<T>(group.rows);
    const SlabDivisor slabs(T::raster * rows.tiles);
    const GroupPlace local = group_place<P, T>(place - tiles_before * kUnits<P, T>, slabs);
    return tile_of<T>(args_, index, group, rows.step, local, rank_);
  }

  const Args& args_;
  const uint32_t rank_;  // of this block in its cluster
  uint32_t next_;        // place of the cluster's next tile in the order of all tiles
  const uint32_t num_groups_;
  uint32_t first_ = 0;       // group at the window's start
  uint32_t before_ = 0;      // tiles before the window
  uint32_t lane_tiles_ = 0;  // token tiles of the window up to this lane's last group
};

}  // namespace moegen::grouped_matmul
