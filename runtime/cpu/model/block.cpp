// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/block.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace moegen::cpu {
namespace {

constexpr std::size_t kSharedAlignment = 1024;
/// Unwritten shared memory: never zero by luck, and no small number.
constexpr int kPoison = 0xA5;

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

char* allocate_shared(std::size_t bytes) {
  void* const memory = std::aligned_alloc(kSharedAlignment, std::max(bytes, kSharedAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

std::uint32_t existing_lanes(std::uint32_t num_threads, std::uint32_t warp) {
  const std::uint32_t lanes = std::min(num_threads - warp * 32, 32u);
  return lanes == 32 ? 0xFFFFFFFFu : (1u << lanes) - 1;
}

void reset(Thread& thread) {
  thread.stack_pointer = nullptr;
  thread.stack = nullptr;
  thread.context = nullptr;
  thread.ended = false;
  thread.site = 0;
  thread.wait = {};
  thread.arrived_at_cluster = false;
  thread.cluster_phase = 0;
}

void reset(NamedBarrier& barrier) {
  barrier.arrived = barrier.expected = 0;
  barrier.released = false;
  barrier.waiters = {};
  barrier.parties.clear();
}

void reset(WarpExchange& warp) {
  warp.arrived = warp.pending = warp.ended = 0;
  std::fill(std::begin(warp.results), std::end(warp.results), nullptr);
  for (const auto& results : warp.pool) results->readers = 0;
}

void reset(Block& block, std::uint64_t index, const BlockShape& shape) {
  block.index = static_cast<std::uint32_t>(index);
  block.live_threads = block.num_threads;
  block.uncounted_barriers = 0;
  block.async.reset();
  for (NamedBarrier& barrier : block.barriers) reset(barrier);
  for (WarpExchange& warp : block.warps) reset(warp);
  for (Thread* thread : block.threads) reset(*thread);
  std::memset(block.shared, kPoison, block.shared_bytes);
  const MoegenCpuIndex& grid = shape.grid_dim;
  block.context.block_index = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                               static_cast<unsigned>(index / grid.x / grid.y)};
}

void reset(Cluster& cluster, std::uint32_t threads) {
  cluster.live_threads = threads;
  cluster.arrived = cluster.phase = 0;
  cluster.waiters = {};
}

std::unique_ptr<Block> make_block(Cohort& cohort, std::uint32_t place, Thread* threads, char* shared) {
  const BlockShape& shape = cohort.shape;
  auto block = std::make_unique<Block>();
  block->cohort = &cohort;
  block->cluster_rank = place % shape.cluster_size;
  block->num_threads = shape.num_threads;
  block->shared = shared;
  block->shared_bytes = shape.shared_bytes;
  block->warps.resize((shape.num_threads + 31) / 32);
  for (std::uint32_t warp = 0; warp < block->warps.size(); ++warp) {
    block->warps[warp].existing = existing_lanes(shape.num_threads, warp);
  }
  for (std::uint32_t i = 0; i < shape.num_threads; ++i) {
    threads[i].block = block.get();
    threads[i].index = i;
    block->threads.push_back(&threads[i]);
  }
  block->context.block_dim = shape.block_dim;
  block->context.grid_dim = shape.grid_dim;
  block->context.cluster_rank = block->cluster_rank;
  block->context.cluster_size = shape.cluster_size;
  block->context.shared = shared;
  block->context.shared_bytes = shape.shared_bytes;
  return block;
}

}  // namespace

void Cohort::Free::operator()(char* memory) const noexcept { std::free(memory); }

Cohort::Cohort(const BlockShape& block_shape)
    : shape(block_shape),
      cluster_size(block_shape.cluster_size),
      threads_(std::make_unique<Thread[]>(std::size_t{shape.num_blocks} * shape.num_threads)),
      shared_stride_(std::max(round_up(shape.shared_bytes, kSharedAlignment), kSharedAlignment)) {
  arena_.reset(allocate_shared(shared_stride_ * shape.num_blocks));
  for (std::uint32_t i = 0; i < shape.num_blocks; ++i) {
    Thread* const threads = &threads_[std::size_t{i} * shape.num_threads];
    blocks.push_back(make_block(*this, i, threads, arena_.get() + i * shared_stride_));
  }
  clusters.resize(shape.num_blocks / shape.cluster_size);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Cluster& cluster = clusters[i / shape.cluster_size];
    cluster.blocks = std::span(blocks).subspan(i - i % shape.cluster_size, shape.cluster_size);
    blocks[i]->cluster = &cluster;
  }
}

void Cohort::reset(std::uint64_t first_block) {
  for (std::uint32_t i = 0; i < shape.num_blocks; ++i) cpu::reset(*blocks[i], first_block + i, shape);
  for (Cluster& cluster : clusters) cpu::reset(cluster, shape.cluster_size * shape.num_threads);
}

Block* Cohort::block_of_shared(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(arena_.get());
  const std::size_t place = at / shared_stride_;
  return place < blocks.size() && blocks[place]->holds(address) ? blocks[place].get() : nullptr;
}

}  // namespace moegen::cpu
