// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, producer of gathered tokens: rows of a that lie anywhere, row order[r] / slots for row r of c, are
// brought into the stages by small copies, 16 bytes a lane, where a tensor copy's box would need them side by side.
//
// `gather_warps` warps beside the one that loads weights take 32 tokens of a tile in turn; with block128 they are those
// that bring the scales of the same tokens. A warp asks for the order when it begins a tile, keeps the rows in a
// register for every 32 of them, and hands them from lane to lane: an instruction copies 128 bytes of four rows. A
// stage of 256 tokens takes 64 such instructions and as many shuffles, of the 4096 that the four schedulers could issue
// while it is multiplied. Nobody waits for the copies, which arrive at the stage's barrier by themselves, so that as
// many bytes are on their way as the ring has room for.
//
// The copies write through the generic proxy and wgmma reads through the async one. A barrier alone orders the two in
// the generic proxy; a proxy fence must lie on the way from the write to the read. Loaders could fence only after they
// had waited for their own copies, with nothing on its way meanwhile; so those who wait for the stage fence, before
// their products (multiply.cuh).
#pragma once

#include "../core/copy_async.cuh"
#include "../core/warp.cuh"
#include "load.cuh"

namespace moegen::grouped_matmul {

/// True if all widths of tokens are whole warps.
template <class T>
MOEGEN_DEVICE constexpr bool whole_warps() {
  for (uint32_t i = 0; i < T::num_widths; ++i)
    if (T::width(i) % kWarpSize != 0) return false;
  return true;
}

/// The rows of a that one warp brings: those of tokens (i * gather_warps + warp) * 32 + lane of a tile.
template <class P, class T>
class GatheredRows {
 public:
  enum : uint32_t { kCount = ceil_div<uint32_t>(T::max_tokens, kWarpSize* T::gather_warps) };

  /// Asks for the order of a tile. Those that finish the tile read the same words later, out of L1 then.
  MOEGEN_DEVICE void ask(const Args& args, const Tile& tile, uint32_t warp) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t token = first_token(warp, i) + lane_index();
      pair_[i] = token < tile.rows ? args.order[tile.row + token] : kNone;
    }
  }

  /// Row of a, and of its scales, of this lane's i-th token; kNone for zeros.
  MOEGEN_DEVICE uint32_t row(uint32_t i) const { return pair_[i] == kNone ? kNone : pair_[i] / P::num_slots; }

  /// Copies slice `slice` of this warp's rows among the first `width` tokens of a stage; what lies past the end of K is
  /// zero, as are rows of nothing.
  MOEGEN_DEVICE void copy(const Args& args, unsigned char* tokens, uint32_t width, uint32_t warp,
                          uint32_t slice) const {
    const uint32_t offset = slice * kSliceBytes + lane_index() % kPieces * kPieceBytes;
    const bool inside = kRowBytes % kSliceBytes == 0 || offset < kRowBytes;
    const unsigned char* source = static_cast<const unsigned char*>(args.a) + (inside ? offset : 0);
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t first = first_token(warp, i);
      if (first >= width) break;
      const uint32_t mine = row(i);
#pragma unroll 4  // all 8 would take the registers of 8 addresses: spills
      for (uint32_t step = 0; step < kWarpSize / kRowsAtOnce; ++step) {
        if (!whole_warps<T>() && first + step * kRowsAtOnce >= width) break;
        const uint32_t from = shuffle(mine, step * kRowsAtOnce + lane_index() / kPieces);
        const bool there = inside && from != kNone;
        copy_async<kPieceBytes>(tokens + first * kSliceBytes + place(step),
                                source + static_cast<uint64_t>(from) * kRowBytes, there ? kPieceBytes : 0);
      }
    }
  }

 private:
  enum : uint32_t {
    kPieceBytes = 16,
    kPieces = kSliceBytes / kPieceBytes,
    kRowsAtOnce = kWarpSize / kPieces,
    kRowBytes = P::depth * sizeof(typename P::element_dtype),
  };

  static MOEGEN_DEVICE uint32_t first_token(uint32_t warp, uint32_t i) {
    return (i * T::gather_warps + warp) * kWarpSize;
  }
  /// Where this lane's piece of its row in step `step` lies: in the 128-byte swizzle that the products' descriptors
  /// name.
  static MOEGEN_DEVICE uint32_t place(uint32_t step) {
    const uint32_t row = step * kRowsAtOnce + lane_index() / kPieces;
    return row * kSliceBytes + (lane_index() % kPieces ^ row % 8) * kPieceBytes;
  }

  uint32_t pair_[kCount];  // as the order has it
};

/// A stage of one tile: `copy` asks for what this warp brings, which arrives by itself.
template <class P, class T, class Copy>
MOEGEN_DEVICE void gather_stage(const Shared<P, T>& shared, Ring<T>& ring, Copy&& copy) {
  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
  copy(ring.stage);
  copy_arrive(shared.full(ring.stage));
  ring.next();
}

}  // namespace moegen::grouped_matmul
