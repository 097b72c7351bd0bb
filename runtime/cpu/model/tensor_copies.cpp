// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor: boxes of tensors to and from tiles of shared memory.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "cpu/model/bulk_store.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"
#include "cpu/model/tensor_tile.hpp"

namespace moegen::cpu {
namespace {

constexpr std::uint32_t kTileAlignment = 128;
constexpr std::int64_t kPiece = 16;

TensorTile read_tile(const void* tensor_map, const int* coordinates, unsigned int rank, const Call& call) {
  call.require_aligned(tensor_map, 64, "tensor map's");
  TensorMapLayout map;
  std::memcpy(&map, tensor_map, sizeof map);
  if (std::string wrong = wrong_with_map(map, rank); !wrong.empty()) {
    wrong = fmt::format("{}: {}", call.operation, wrong);
    call.fail(CpuFinding::misuse, std::move(wrong));
  }
  if (const std::int64_t byte = std::int64_t{coordinates[0]} * map.element_bytes; byte % kPiece != 0)
    call.fail(CpuFinding::misuse,
              fmt::format("{}: the innermost coordinate {} is byte {} of a row; allowed multiples of "
                          "{} bytes: an H200 takes no other for a legal instruction",
                          call.operation, coordinates[0], byte, kPiece));
  return TensorTile(map, coordinates);
}

/// Visits the 16-byte pieces of one row: (offset in the row, address in shared memory).
template <class Visit>
void for_each_piece(const TensorTile& tile, const TileRow& row, const SharedRange& shared, Visit visit) {
  for (std::uint32_t piece = 0; piece < tile.row_bytes(); piece += std::uint32_t{kPiece})
    visit(piece, shared.block->shared + swizzle(shared.offset + row.offset + piece, tile.span()));
}

void load_row(const TensorTile& tile, const TileRow& row, const SharedRange& shared, const CheckedActor& actor) {
  std::array<char, 256 * 4> value;  // the widest box
  std::memset(value.data(), 0, tile.row_bytes());
  if (row.bytes > 0) {
    actor.read(row.global, row.bytes);
    std::memcpy(value.data() + row.first, row.global, row.bytes);
  }
  for_each_piece(tile, row, shared, [&](std::uint32_t at, char* target) {
    actor.write(target, std::uint32_t{kPiece});
    std::memcpy(target, value.data() + at, kPiece);
  });
}

struct TensorLoad final : AsyncOperation {
  explicit TensorLoad(const TensorTile& box) : tile(box) {}
  TensorTile tile;
  std::vector<SharedRange> targets;
  std::uint32_t barrier = 0;
  CheckedActor actor;

  void perform() override {
    for (const SharedRange& target : targets) {
      for (std::uint32_t i = 0; i < tile.num_rows(); ++i) load_row(tile, tile.row(i), target, actor);
      complete_bytes(*target.block, barrier, tile.bytes(), actor);
    }
    actor.end();
  }
};

struct TensorStore final : StoreBody {
  explicit TensorStore(const TensorTile& box) : tile(box) {}
  TensorTile tile;
  SharedRange source;
  std::vector<char> staged;

  void read(const CheckedActor& actor) override {
    staged.resize(tile.bytes());
    for (std::uint32_t i = 0; i < tile.num_rows(); ++i) {
      for_each_piece(tile, tile.row(i), source, [&](std::uint32_t at, const char* from) {
        actor.read(from, std::uint32_t{kPiece});
        std::memcpy(staged.data() + std::size_t{i} * tile.row_bytes() + at, from, kPiece);
      });
    }
  }
  void write(const CheckedActor& actor) override {
    for (std::uint32_t i = 0; i < tile.num_rows(); ++i) {
      const TileRow row = tile.row(i);
      if (row.bytes == 0) continue;
      actor.write(row.global, row.bytes);
      std::memcpy(const_cast<char*>(row.global), staged.data() + std::size_t{i} * tile.row_bytes() + row.first,
                  row.bytes);
    }
  }
};

/// The blocks of the running thread's cluster in `mask`, or its own.
std::vector<Block*> receivers(unsigned int mask, const Call& call) {
  Block& own = *Scheduler::current().running().block;
  if (mask == 0) return {&own};
  const auto blocks = own.cluster->blocks;
  if (mask >> blocks.size() != 0)
    call.fail(CpuFinding::misuse, fmt::format("{}: multicast mask {:#x} names blocks outside the cluster of {}",
                                              call.operation, mask, blocks.size()));
  std::vector<Block*> found;
  for (const auto& block : blocks)
    if (mask >> block->cluster_rank & 1) found.push_back(block.get());
  return found;
}

/// Each receiver has an mbarrier where the issuing block has its own.
void require_barriers(const std::vector<SharedRange>& targets, std::uint32_t offset, const Call& call) {
  for (const SharedRange& target : targets)
    find_mbarrier(reinterpret_cast<std::uint64_t*>(target.block->shared + offset), call.operation, call.site);
}

}  // namespace
}  // namespace moegen::cpu

using namespace moegen::cpu;

extern "C" {

void moegen_cpu_tensor_load(void* shared, const void* tensor_map, const int* coordinates, unsigned int dimensions,
                            unsigned long* barrier, unsigned int multicast, unsigned int site) {
  const Call call{"cp.async.bulk.tensor", site};
  Scheduler::current().preemption_point();
  const TensorTile tile = read_tile(tensor_map, coordinates, dimensions, call);
  const SharedRange range = find_shared(shared, tile.footprint(), call);
  call.require_aligned(range.data(), kTileAlignment, "shared");
  find_mbarrier(barrier, call.operation, site);
  call.require(range.block->holds(barrier), "the mbarrier is in another block than the destination");
  auto load = std::make_unique<TensorLoad>(tile);
  if (multicast == 0) {
    load->targets = {range};
  } else {
    for (Block* block : receivers(multicast, call)) load->targets.push_back({block, range.offset});
  }
  load->barrier = range.block->offset_of(barrier);
  require_barriers(load->targets, load->barrier, call);
  load->actor = CheckedActor("tensor copy to shared memory", site);
  load->actor.set_async_proxy();
  load->actor.set_swizzle(load->tile.span());
  Scheduler::current().submit(std::move(load), site);
}

void moegen_cpu_tensor_store(const void* tensor_map, const int* coordinates, unsigned int dimensions,
                             const void* shared, unsigned int site) {
  const Call call{"cp.async.bulk.tensor", site};
  Scheduler::current().preemption_point();
  const TensorTile tile = read_tile(tensor_map, coordinates, dimensions, call);
  for (unsigned int i = 0; i < dimensions; ++i)
    call.require(coordinates[i] >= 0,
                 "a store's coordinate is negative; an H200 takes that for an illegal instruction");
  const SharedRange source = find_own_shared(shared, tile.footprint(), call);
  call.require_aligned(source.data(), kTileAlignment, "shared");
  auto store = std::make_unique<TensorStore>(tile);
  store->source = source;
  submit_store(std::move(store), site);
}

}  // extern "C"
