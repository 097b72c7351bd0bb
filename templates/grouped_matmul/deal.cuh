// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, scheduler of large tiles: each tile, in the order of tile.cuh, goes to the cluster that is free
// first.
//
// Tiles of a group are equal but the last, whose rows are what is left. Taken in turn, that alone leaves some blocks 2
// to 12 % more rows than others. A counter in global memory would balance them, but a launch has no memory of its own
// for one, and must not share one with a launch beside it. So the blocks do not ask each other: one warp of each counts
// through all tiles, by a model of what they cost, and knows which are its own. All count alike, whatever happens on
// the chip, so each tile is dealt once; a wrong model costs time only.
//
// Tiles cost whole units of a warpgroup's rows, so many clusters are free at the same time. Shared memory has a list of
// clusters for each of the times that follow; 32 of a list are served at once, and go to the lists of the times when
// they are free again. That takes a quarter of the time of looking at all clusters for who is free.
#pragma once

#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Modelled cost of a tile of `rows` rows in a group of `tiles`: one for every 64, and one that does not shrink with
/// them. A tile that is its group's only one waits for its weights from HBM, 16 KiB a slice of a multiprocessor's 20 to
/// 34 bytes a cycle: longer than the tensor cores take for 128 rows. Groups of expert -1, which cost next to nothing,
/// are counted as others are.
MOEGEN_DEVICE uint32_t cost_of(uint32_t rows, uint32_t tiles) {
  const uint32_t warpgroups = ceil_div<uint32_t>(rows, kWarpgroupRows);
  return 1 + (tiles == 1 ? max_of<uint32_t>(warpgroups, 2) : warpgroups);
}

/// The work of the warp that deals: counts through the deals of all clusters and puts those of this one into the queue
/// for the warps that load; then one of no rows, the end. Those warps look up what else they must know of a tile: where
/// three warpgroups multiply, a thread that loads has 32 registers.
template <class P, class T>
class Dealer {
 public:
  MOEGEN_DEVICE Dealer(const Args& args, const Shared<P, T>& shared) : args_(args), shared_(shared) {
    static_assert(T::max_tokens <= (kDealTimes - 2) * kWarpgroupRows, "a cost is less than the times that have a list");
    static_assert(kUnits<P, T> % T::joined_tiles == 0 && T::raster % T::joined_tiles == 0,
                  "joined tiles are neighbours in the order of tiles");
  }

  MOEGEN_DEVICE void run() {
    const uint32_t workers = min_of<uint32_t>(num_blocks() / T::cluster, kMostWorkers);
    for (uint32_t i = lane_index(); i < workers; i += kWarpSize) list(0)[i] = static_cast<unsigned char>(i);
    length_ = lane_index() == 0 ? workers : 0;
    for (uint32_t time = 0; deal(time);) time = (time + 1) % kDealTimes;
    if (lane_index() == 0) push({0, 0, 0, 0});
  }

 private:
  /// The clusters that are free at time `time`, modulo kDealTimes.
  MOEGEN_DEVICE unsigned char* list(uint32_t time) const { return shared_.free_at() + time * kMostWorkers; }
  /// Deals of the group.
  MOEGEN_DEVICE uint32_t places() const { return tiles_ * (kUnits<P, T> / T::joined_tiles); }

  /// Deals to all that are free at `time`. False when everything is dealt.
  MOEGEN_DEVICE bool deal(uint32_t time) {
    warp_sync();  // the list is complete
    const uint32_t length = shuffle(length_, time);
#pragma unroll 1
    for (uint32_t first = 0; first < length; first += kWarpSize)
      if (!deal_some(time, first, min_of<uint32_t>(length - first, kWarpSize))) return false;
    if (lane_index() == time) length_ = 0;
    return true;
  }

  /// The same for `count` of them from `first` on, a lane each.
  MOEGEN_DEVICE bool deal_some(uint32_t time, uint32_t first, uint32_t count) {
    const uint32_t worker = lane_index() < count ? list(time)[first + lane_index()] : kMostWorkers;
#pragma unroll 1
    for (uint32_t done = 0; done < count;) {
      if (place_ == places() && !enter_next_group()) return false;
      const uint32_t more = min_of(count - done, places() - place_), mine = lane_index() - done;
      GroupPlace at = {0, 0};
      if (mine < more) at = group_place<P, T>((place_ + mine) * T::joined_tiles, slabs_);
      const bool own = mine < more && worker == block_index() / T::cluster;
      if (own) push({next_group_ - 1, at.tile, at.unit, step_});
      if (ballot(own) != 0) ring_.next();
      const bool last = at.tile + 1 == tiles_;
      append(time, step_, mine < more && !last, worker);
      append(time, last_rows_, mine < more && last, worker);
      place_ += more;
      done += more;
    }
    return true;
  }

  /// Puts the workers of the lanes with `served`, who got tiles of `rows` rows, where they are free again.
  MOEGEN_DEVICE void append(uint32_t time, uint32_t rows, bool served, uint32_t worker) {
    const uint32_t lanes = ballot(served);
    if (lanes == 0) return;
    const uint32_t then = (time + cost_of(rows, tiles_)) % kDealTimes;
    const uint32_t length = shuffle(length_, then);
    if (served) list(then)[length + popcount(lanes & lanes_below())] = static_cast<unsigned char>(worker);
    if (lane_index() == then) length_ += popcount(lanes);
  }

  /// One lane does it.
  MOEGEN_DEVICE void push(const Deal& deal) const {
    mbarrier_wait(shared_.taken(ring_.place()), ring_.parity() ^ 1);
    shared_.deal(ring_.place()) = deal;
    mbarrier_arrive(shared_.dealt(ring_.place()));
  }

  /// Asks for the rows of 32 groups at once.
  MOEGEN_DEVICE void look_at_groups() const {
    warp_sync();  // all lanes have read those before
    shared_.group_rows()[lane_index()] = rows_of_group(args_, next_group_ + lane_index()).rows;
    warp_sync();
  }

  /// Goes on to the next group with rows; false if there is none.
  MOEGEN_DEVICE bool enter_next_group() {
    while (next_group_ < static_cast<uint32_t>(args_.num_groups)) {
      if (next_group_ % kWarpSize == 0) look_at_groups();
      const uint32_t rows = shared_.group_rows()[next_group_ % kWarpSize];
      ++next_group_;
      if (rows == 0) continue;
      enter_group(rows);
      return true;
    }
    return false;
  }

  MOEGEN_DEVICE void enter_group(uint32_t rows) {
    const Cut cut = grouped_matmul::cut<T>(rows);
    tiles_ = cut.tiles;
    step_ = cut.step;
    last_rows_ = rows - (tiles_ - 1) * step_;
    slabs_ = SlabDivisor(T::raster * tiles_);
    place_ = 0;
  }

  const Args& args_;
  const Shared<P, T>& shared_;
  QueueRing ring_;
  uint32_t length_ = 0;      // of the list of the time that is this lane's number
  uint32_t next_group_ = 0;  // behind the one whose tiles are dealt
  uint32_t tiles_ = 0;       // of tokens, of the group; of `step_` rows each, the last of `last_rows_`
  uint32_t step_ = 0, last_rows_ = 0;
  SlabDivisor slabs_{1};
  uint32_t place_ = 0;  // deals of the group that are out
};

/// The tiles of this block, one after the other, for a warp that loads: dealt by another, or walked through by itself.
template <class P, class T, bool = T::dealt>
class TileSource {
 public:
  MOEGEN_DEVICE TileSource(const Args& args, const Shared<P, T>& shared, uint32_t rank)
      : args_(args), shared_(shared), rank_(rank) {}

  /// False at the end, after which it must not be asked again. All lanes of the warp call it together.
  MOEGEN_DEVICE bool next(Tile& tile) {
    const uint32_t joined = turn_ % T::joined_tiles;
    const QueueRing ring = {turn_ / T::joined_tiles};
    if (joined == 0) mbarrier_wait(shared_.dealt(ring.place()), ring.parity());
    const Deal deal = shared_.deal(ring.place());
    warp_sync();  // all lanes have read it
    if (joined == T::joined_tiles - 1 && lane_index() == 0) mbarrier_arrive(shared_.taken(ring.place()));
    ++turn_;
    if (deal.step == 0) return false;
    const Group group = rows_of_group(args_, deal.group);
    tile = tile_of<T>(args_, deal.group, group, deal.step, {deal.tile, deal.unit + joined}, rank_);
    return true;
  }

 private:
  const Args& args_;
  const Shared<P, T>& shared_;
  const uint32_t rank_;  // of this block in its cluster
  uint32_t turn_ = 0;
};
template <class P, class T>
class TileSource<P, T, false> {
 public:
  MOEGEN_DEVICE TileSource(const Args& args, const Shared<P, T>&, uint32_t rank) : walk_(args, rank) {}
  MOEGEN_DEVICE bool next(Tile& tile) { return walk_.next(tile); }

 private:
  TileWalk<P, T> walk_;
};

}  // namespace moegen::grouped_matmul
